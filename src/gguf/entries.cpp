// Parser, second part: metadata entries.
#include "base/bytes.h"
#include "base/format.h"
#include "gguf/encoding.h"
#include "gguf/parser.h"
#include "gguf/sorted_order.h"

namespace strata::gguf {

Status Parser::parse_entry(uint64_t index) {
  where_ = {Part::kEntry, index, {}, position_};
  entry_positions_.push_back(position_);
  ASSIGN_OR_RETURN(const std::string_view key, take_string(kMaxKeyBytes));
  if (key.empty()) return fail(ErrorCode::kBadInput, "empty key");
  where_.name = key;
  if (has_control_character(key)) return fail(ErrorCode::kBadInput, "key with a NUL or control character");
  ASSIGN_OR_RETURN(const ValueType type, take_value_type());
  ASSIGN_OR_RETURN(const Value value, parse_value(type));
  out_.entries.emplace_back(std::string(key), value);
  return {};
}

Result<ValueType> Parser::take_value_type() {
  ASSIGN_OR_RETURN(const uint32_t id, take_number<uint32_t>());
  if (id < kValueTypes) return static_cast<ValueType>(id);
  return fail(ErrorCode::kBadInput, format("unknown value type {}", id));
}

Result<Value> Parser::parse_value(ValueType type) {
  if (type == ValueType::kArray) return parse_array();
  where_.position = position_;
  Value value;
  value.type_ = value.element_type_ = type;
  if (type == ValueType::kString) {
    const uint64_t start = position_;
    RETURN_IF_ERROR(take_string(UINT64_MAX));
    value.data_ = out_.metadata.data() + start;
    return value;
  }
  ASSIGN_OR_RETURN(value.data_, take(fixed_size(type)));
  RETURN_IF_ERROR(check_bools(value));
  return value;
}

Result<Value> Parser::parse_array() {
  Value value;
  value.type_ = ValueType::kArray;
  ASSIGN_OR_RETURN(value.element_type_, take_value_type());
  if (value.element_type_ == ValueType::kArray) return fail(ErrorCode::kBadInput, "array of arrays");
  ASSIGN_OR_RETURN(value.count_, take_number<uint64_t>());

  const bool strings = value.element_type_ == ValueType::kString;
  const uint64_t min_element_bytes = strings ? sizeof(uint64_t) : fixed_size(value.element_type_);
  if (value.count_ > bytes_left() / min_element_bytes) {
    return fail(ErrorCode::kBadInput, format("array of {} {} elements, more than the remaining {} bytes can hold",
                                             value.count_, value_type_name(value.element_type_), bytes_left()));
  }
  if (strings) {
    RETURN_IF_ERROR(parse_string_elements(value));
    return value;
  }
  ASSIGN_OR_RETURN(value.data_, take(value.count_ * min_element_bytes));
  RETURN_IF_ERROR(check_bools(value));
  return value;
}

// Each element costs four bytes here against at least eight in the file.
Status Parser::parse_string_elements(Value& value) {
  if (value.count_ > limits_.strings - out_.n_strings) {
    return fail(ErrorCode::kBadInput, format("array of {} strings; a model may have {} and {} are left for this array",
                                             value.count_, kMaxStrings, limits_.strings - out_.n_strings));
  }
  out_.n_strings += value.count_;
  auto offsets = std::make_unique<std::vector<uint32_t>>();
  offsets->reserve(value.count_);
  const uint64_t start = position_;
  for (uint64_t i = 0; i < value.count_; ++i) {
    offsets->push_back(static_cast<uint32_t>(position_ - start));
    RETURN_IF_ERROR(take_string(UINT64_MAX));
  }
  value.data_ = out_.metadata.data() + start;
  value.string_offsets_ = offsets.get();
  out_.string_offsets.push_back(std::move(offsets));
  return {};
}

Status Parser::check_bools(const Value& value) {
  if (value.element_type_ != ValueType::kBool) return {};
  for (uint64_t i = 0; i < value.count_; ++i) {
    if (value.data_[i] > 1) {
      return fail(ErrorCode::kBadInput, format("bool with the value {}, must be 0 or 1", value.data_[i]));
    }
  }
  return {};
}

Status Parser::check_unique_keys() {
  const auto& entries = out_.entries;
  const auto order = sorted_order(entries.size(), [&](uint32_t i) -> const std::string& { return entries[i].first; });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto& key = entries[order[i]].first;
    if (key == entries[order[i - 1]].first) {
      return fail_at({Part::kEntry, order[i], key, entry_positions_[order[i]]}, ErrorCode::kBadInput,
                     format("key appears a second time, first in entry {}", order[i - 1]));
    }
  }
  return {};
}

Status Parser::read_alignment() {
  out_.alignment = kDefaultAlignment;
  for (size_t i = 0; i < out_.entries.size(); ++i) {
    const auto& [key, value] = out_.entries[i];
    if (key != kAlignmentKey) continue;
    const Where where{Part::kEntry, i, key, entry_positions_[i]};
    if (value.type() != ValueType::kUint32) {
      return fail_at(where, ErrorCode::kBadInput,
                     format("alignment is a {}, must be a uint32", value_type_name(value.type())));
    }
    const auto alignment = load_le<uint32_t>(value.data_);
    if (!is_alignment(alignment)) {
      return fail_at(where, ErrorCode::kBadInput,
                     format("alignment {}, must be a power of two in 1..{}", alignment, kMaxAlignment));
    }
    out_.alignment = alignment;
  }
  return {};
}

}  // namespace strata::gguf
