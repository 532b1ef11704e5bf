// Metadata values: typed access with range checks. The parser has checked that every byte a Value points to exists.
#include "base/bytes.h"
#include "base/format.h"
#include "gguf/encoding.h"
#include "gguf/gguf.h"

namespace strata::gguf {
namespace {

Error mismatch(const Value& value, const char* wanted) {
  if (value.is_array()) {
    return {ErrorCode::kBadInput, format("is an array of {}, not {}", value_type_name(value.element_type()), wanted)};
  }
  return {ErrorCode::kBadInput, format("is a {}, not {}", value_type_name(value.type()), wanted)};
}

Status check_index(const Value& value, uint64_t i) {
  if (i < value.count()) return {};
  return Error{ErrorCode::kBadInput, format("has {} elements, no element {}", value.count(), i)};
}

}  // namespace

const char* value_type_name(ValueType type) {
  static constexpr const char* kNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                           "bool",  "string", "array",  "uint64", "int64",  "float64"};
  static_assert(std::size(kNames) == kValueTypes);
  const auto id = static_cast<uint32_t>(type);
  return id < kValueTypes ? kNames[id] : "unknown";
}

Result<int64_t> Value::as_int(uint64_t i) const {
  if (element_type_ == ValueType::kUint64) {
    ASSIGN_OR_RETURN(const uint64_t value, as_uint(i));
    if (value <= static_cast<uint64_t>(INT64_MAX)) return static_cast<int64_t>(value);
    return Error{ErrorCode::kBadInput, format("is {}, more than a signed 64-bit number holds", value)};
  }
  RETURN_IF_ERROR(check_index(*this, i));
  switch (element_type_) {
    case ValueType::kUint8:
    case ValueType::kBool: return data_[i];
    case ValueType::kInt8: return load_le<int8_t>(data_ + i);
    case ValueType::kUint16: return load_le<uint16_t>(data_ + 2 * i);
    case ValueType::kInt16: return load_le<int16_t>(data_ + 2 * i);
    case ValueType::kUint32: return load_le<uint32_t>(data_ + 4 * i);
    case ValueType::kInt32: return load_le<int32_t>(data_ + 4 * i);
    case ValueType::kInt64: return load_le<int64_t>(data_ + 8 * i);
    default: return mismatch(*this, "an integer");
  }
}

Result<uint64_t> Value::as_uint(uint64_t i) const {
  if (element_type_ == ValueType::kUint64) {
    RETURN_IF_ERROR(check_index(*this, i));
    return load_le<uint64_t>(data_ + 8 * i);
  }
  ASSIGN_OR_RETURN(const int64_t value, as_int(i));
  if (value >= 0) return static_cast<uint64_t>(value);
  return Error{ErrorCode::kBadInput, format("is {}, but must not be negative", value)};
}

Result<double> Value::as_float(uint64_t i) const {
  switch (element_type_) {
    case ValueType::kFloat32:
      RETURN_IF_ERROR(check_index(*this, i));
      return load_le<float>(data_ + 4 * i);
    case ValueType::kFloat64:
      RETURN_IF_ERROR(check_index(*this, i));
      return load_le<double>(data_ + 8 * i);
    case ValueType::kUint64: {
      ASSIGN_OR_RETURN(const uint64_t value, as_uint(i));
      return static_cast<double>(value);
    }
    case ValueType::kBool:
    case ValueType::kString:
    case ValueType::kArray: return mismatch(*this, "a number");
    default: {
      ASSIGN_OR_RETURN(const int64_t value, as_int(i));
      return static_cast<double>(value);
    }
  }
}

Result<bool> Value::as_bool(uint64_t i) const {
  if (element_type_ == ValueType::kString || element_type_ == ValueType::kFloat32 ||
      element_type_ == ValueType::kFloat64) {
    return mismatch(*this, "a bool");
  }
  ASSIGN_OR_RETURN(const int64_t value, as_int(i));
  if (value == 0 || value == 1) return value == 1;
  return Error{ErrorCode::kBadInput, format("is {}, not a bool (0 or 1)", value)};
}

Result<std::string_view> Value::as_string(uint64_t i) const {
  if (element_type_ != ValueType::kString) return mismatch(*this, "a string");
  RETURN_IF_ERROR(check_index(*this, i));
  const uint8_t* prefix = data_ + (string_offsets_ ? (*string_offsets_)[i] : 0);
  return std::string_view(reinterpret_cast<const char*>(prefix + 8), load_le<uint64_t>(prefix));
}

Result<std::vector<std::string_view>> Value::strings() const {
  if (!is_array() || element_type_ != ValueType::kString) return mismatch(*this, "an array of strings");
  std::vector<std::string_view> out;
  out.reserve(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    ASSIGN_OR_RETURN(const std::string_view text, as_string(i));
    out.push_back(text);
  }
  return out;
}

std::span<const uint8_t> Value::encoded() const {
  if (element_type_ != ValueType::kString) return {data_, count_ * fixed_size(element_type_)};
  if (count_ == 0) return {};
  const uint64_t last = string_offsets_ ? string_offsets_->back() : 0;
  return {data_, last + 8 + load_le<uint64_t>(data_ + last)};
}

}  // namespace strata::gguf
