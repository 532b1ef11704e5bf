#include "gguf/writer.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "base/bytes.h"
#include "base/format.h"
#include "base/output_file.h"
#include "gguf/encoding.h"

namespace strata::gguf {
namespace {

constexpr uint32_t kVersion = 3;
constexpr uint32_t kQuantizationVersion = 2;

// Appends the encodings of the format to a buffer.
class Encoder {
 public:
  template <class T>
  Encoder& number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.resize(bytes_.size() + sizeof(T));
    store_le(bytes_.data() + bytes_.size() - sizeof(T), value);
    return *this;
  }
  Encoder& type(ValueType type) { return number(static_cast<uint32_t>(type)); }
  Encoder& raw(std::span<const uint8_t> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Encoder& string(std::string_view text) {
    number<uint64_t>(text.size());
    return raw({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  Encoder& array(ValueType element, uint64_t count) {
    return type(ValueType::kArray).type(element).number(count);
  }
  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

template <class T>
std::vector<uint8_t> scalar(ValueType type, T value) {
  return Encoder().type(type).number(value).take();
}

// nullopt when the dimensions are not those of a tensor of this type, or the size does not fit.
std::optional<uint64_t> tensor_bytes(const quant::TypeInfo& type, std::span<const uint64_t> ne) {
  if (ne.empty() || ne.size() > kMaxDims || ne[0] % type.block_elems != 0) return std::nullopt;
  std::optional<uint64_t> bytes = checked_mul(ne[0] / type.block_elems, type.block_bytes);
  for (size_t i = 1; i < ne.size() && bytes; ++i) bytes = checked_mul(*bytes, ne[i]);
  return bytes && *bytes > 0 ? bytes : std::nullopt;
}

uint64_t fill_after(uint64_t size, uint32_t alignment) { return align_up(size, alignment) - size; }

}  // namespace

Writer::Writer(std::string architecture) { set_string(kArchitectureKey, architecture); }

void Writer::set_u16(std::string_view key, uint16_t value) { set_raw(key, scalar(ValueType::kUint16, value)); }
void Writer::set_u32(std::string_view key, uint32_t value) { set_raw(key, scalar(ValueType::kUint32, value)); }
void Writer::set_i32(std::string_view key, int32_t value) { set_raw(key, scalar(ValueType::kInt32, value)); }
void Writer::set_u64(std::string_view key, uint64_t value) { set_raw(key, scalar(ValueType::kUint64, value)); }
void Writer::set_f32(std::string_view key, float value) { set_raw(key, scalar(ValueType::kFloat32, value)); }
void Writer::set_bool(std::string_view key, bool value) { set_raw(key, scalar<uint8_t>(ValueType::kBool, value)); }

void Writer::set_string(std::string_view key, std::string_view value) {
  set_raw(key, Encoder().type(ValueType::kString).string(value).take());
}

void Writer::set_strings(std::string_view key, std::span<const std::string> values) {
  Encoder encoder;
  encoder.array(ValueType::kString, values.size());
  for (const std::string& value : values) encoder.string(value);
  set_raw(key, encoder.take());
}

void Writer::set_i32s(std::string_view key, std::span<const int32_t> values) {
  Encoder encoder;
  encoder.array(ValueType::kInt32, values.size());
  for (const int32_t value : values) encoder.number(value);
  set_raw(key, encoder.take());
}

void Writer::set_f32s(std::string_view key, std::span<const float> values) {
  Encoder encoder;
  encoder.array(ValueType::kFloat32, values.size());
  for (const float value : values) encoder.number(value);
  set_raw(key, encoder.take());
}

void Writer::set_value(std::string_view key, const Value& value) {
  Encoder encoder;
  if (value.is_array()) {
    encoder.array(value.element_type(), value.count());
  } else {
    encoder.type(value.type());
  }
  set_raw(key, encoder.raw(value.encoded()).take());
}

void Writer::set_alignment(uint32_t alignment) {
  if (!is_alignment(alignment)) {
    note_problem(format("alignment {}, must be a power of two in 1..{}", alignment, kMaxAlignment));
    return;
  }
  alignment_ = alignment;
}

void Writer::set_raw(std::string_view key, std::vector<uint8_t> bytes) {
  if (key.empty() || key.size() > kMaxKeyBytes || has_control_character(key)) {
    note_problem(format("key '{}' is not allowed: 1 to {} bytes without control characters", printable(key),
                        kMaxKeyBytes));
  } else if (key == kAlignmentKey) {
    note_problem(format("key '{}' is set through set_alignment", key));
  } else if (!keys_.emplace(key).second) {
    note_problem(format("key '{}' is set twice", printable(key)));
  } else {
    entries_.push_back({std::string(key), std::move(bytes)});
  }
}

void Writer::add_tensor(std::string name, quant::Type type, std::vector<uint64_t> ne,
                        std::span<const std::byte> bytes) {
  add({std::move(name), type, std::move(ne), bytes, nullptr});
}

void Writer::add_tensor(std::string name, quant::Type type, std::vector<uint64_t> ne,
                        std::function<Status(const Sink&)> produce) {
  add({std::move(name), type, std::move(ne), {}, std::move(produce)});
}

void Writer::add(Tensor tensor) {
  const std::string shown = printable(tensor.name);
  if (tensor.name.empty() || tensor.name.size() > kMaxTensorNameBytes || has_control_character(tensor.name)) {
    return note_problem(format("tensor name '{}' is not allowed: 1 to {} bytes without control characters", shown,
                               kMaxTensorNameBytes));
  }
  const quant::TypeInfo& type = quant::info(tensor.type);
  if (!type.in_files) return note_problem(format("tensor '{}': type {} is not allowed in files", shown, type.name));
  const auto size = tensor_bytes(type, tensor.ne);
  if (!size) return note_problem(format("tensor '{}': dimensions that a {} tensor cannot have", shown, type.name));
  if (!tensor.produce && tensor.bytes.size() != *size) {
    return note_problem(format("tensor '{}' needs {} bytes, {} were given", shown, *size, tensor.bytes.size()));
  }
  if (!tensor_names_.insert(tensor.name).second) return note_problem(format("tensor '{}' is added twice", shown));
  tensor.size = *size;
  while (tensor.ne.size() > 1 && tensor.ne.back() == 1) tensor.ne.pop_back();
  tensors_.push_back(std::move(tensor));
}

void Writer::note_problem(std::string text) {
  if (problem_.empty()) problem_ = std::move(text);
}

std::vector<uint8_t> Writer::encode_metadata() const {
  std::vector<Entry> added;
  if (alignment_ != kDefaultAlignment) {
    added.push_back({std::string(kAlignmentKey), scalar(ValueType::kUint32, alignment_)});
  }
  const bool quantised = std::any_of(tensors_.begin(), tensors_.end(), [](const Tensor& tensor) {
    return quant::info(tensor.type).block_elems > 1;
  });
  if (quantised && !keys_.contains(std::string(kQuantizationVersionKey))) {
    added.push_back({std::string(kQuantizationVersionKey), scalar(ValueType::kUint32, kQuantizationVersion)});
  }

  Encoder out;
  out.number(kMagic).number(kVersion);
  out.number<uint64_t>(tensors_.size()).number<uint64_t>(entries_.size() + added.size());
  for (const Entry& entry : entries_) out.string(entry.key).raw(entry.bytes);
  for (const Entry& entry : added) out.string(entry.key).raw(entry.bytes);
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    out.string(tensor.name).number(static_cast<uint32_t>(tensor.ne.size()));
    for (const uint64_t n : tensor.ne) out.number(n);
    out.number(static_cast<uint32_t>(tensor.type)).number(offset);
    offset = align_up(offset + tensor.size, alignment_);
  }
  return out.take();
}

Status Writer::write(const std::string& path) {
  const std::string shown = printable(path, kMaxPathPrinted);
  if (!problem_.empty()) return Error{ErrorCode::kBadInput, format("cannot write {}: {}", shown, problem_)};

  OutputFile out(path);
  RETURN_IF_ERROR(out.open());
  RETURN_IF_ERROR(out.append(std::as_bytes(std::span<const uint8_t>(encode_metadata()))));
  for (const Tensor& tensor : tensors_) {
    RETURN_IF_ERROR(out.append_zeros(fill_after(out.size(), alignment_)));
    const uint64_t begin = out.size();
    if (tensor.produce) {
      RETURN_IF_ERROR(tensor.produce([&](std::span<const std::byte> bytes) { return out.append(bytes); }));
    } else {
      RETURN_IF_ERROR(out.append(tensor.bytes));
    }
    if (out.size() - begin != tensor.size) {
      return Error{ErrorCode::kInternal, format("cannot write {}: tensor '{}' needs {} bytes, {} were produced", shown,
                                                printable(tensor.name), tensor.size, out.size() - begin)};
    }
  }
  if (!tensors_.empty()) RETURN_IF_ERROR(out.append_zeros(fill_after(out.size(), alignment_)));
  return out.commit();
}

}  // namespace strata::gguf
