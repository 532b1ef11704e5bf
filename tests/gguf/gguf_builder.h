// Builds GGUF files byte by byte, right or wrong: every count, type number, offset and length can be made to lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "quant/type.h"

namespace strata::test {

// Little-endian bytes, appended.
class ByteString {
 public:
  template <class T>
  ByteString& number(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    store_le(bytes_.data() + at, value);
    return *this;
  }
  ByteString& u8(uint8_t value) { return number(value); }
  ByteString& u16(uint16_t value) { return number(value); }
  ByteString& u32(uint32_t value) { return number(value); }
  ByteString& u64(uint64_t value) { return number(value); }
  ByteString& f32(float value) { return number(value); }
  ByteString& text(std::string_view text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
    return *this;
  }
  ByteString& string(std::string_view value) { return u64(value.size()).text(value); }
  ByteString& append(const std::vector<std::byte>& more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  ByteString& zeros(size_t n) {
    bytes_.resize(bytes_.size() + n);
    return *this;
  }
  size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// What a builder writes for a tensor. Type is a plain number, so that it may be one that does not exist.
struct TensorSpec {
  std::string name;
  std::vector<uint64_t> ne;
  uint32_t type = 0;                                   // F32
  std::optional<uint64_t> offset = std::nullopt;       // what the info says; default: where the data is put
  std::optional<std::vector<std::byte>> data = std::nullopt;  // default: the true size, every byte 0
  std::optional<uint32_t> n_dims = std::nullopt;       // what the info says; default: ne.size()
};

// The defaults give a valid file; each field and function can break one thing. Value types are plain numbers as well
// (gguf::ValueType lists the right ones).
class GgufBuilder {
 public:
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> n_tensors;  // what the header says; default: the truth
  std::optional<uint64_t> n_entries;
  uint32_t alignment = 32;            // of the data; set_alignment also writes the key
  bool fill_after_last = true;

  // An entry of any type with any value bytes.
  GgufBuilder& entry(std::string_view key, uint32_t type, const ByteString& value) {
    entries_.string(key).u32(type).append(value.bytes());
    ++entry_count_;
    return *this;
  }
  // Bytes in the place of an entry; counted as one.
  GgufBuilder& raw_entry(const ByteString& bytes) {
    entries_.append(bytes.bytes());
    ++entry_count_;
    return *this;
  }
  GgufBuilder& u8(std::string_view key, uint8_t value) { return entry(key, 0, ByteString().u8(value)); }
  GgufBuilder& i8(std::string_view key, int8_t value) { return entry(key, 1, ByteString().number(value)); }
  GgufBuilder& u16(std::string_view key, uint16_t value) { return entry(key, 2, ByteString().u16(value)); }
  GgufBuilder& i16(std::string_view key, int16_t value) { return entry(key, 3, ByteString().number(value)); }
  GgufBuilder& u32(std::string_view key, uint32_t value) { return entry(key, 4, ByteString().u32(value)); }
  GgufBuilder& i32(std::string_view key, int32_t value) { return entry(key, 5, ByteString().number(value)); }
  GgufBuilder& f32(std::string_view key, float value) { return entry(key, 6, ByteString().f32(value)); }
  GgufBuilder& boolean(std::string_view key, uint8_t value) { return entry(key, 7, ByteString().u8(value)); }
  GgufBuilder& string(std::string_view key, std::string_view value) {
    return entry(key, 8, ByteString().string(value));
  }
  GgufBuilder& u64(std::string_view key, uint64_t value) { return entry(key, 10, ByteString().u64(value)); }
  GgufBuilder& i64(std::string_view key, int64_t value) { return entry(key, 11, ByteString().number(value)); }
  GgufBuilder& f64(std::string_view key, double value) { return entry(key, 12, ByteString().number(value)); }

  // An array that claims `count` elements and has these bytes.
  GgufBuilder& array(std::string_view key, uint32_t element_type, uint64_t count, const ByteString& elements) {
    return entry(key, 9, ByteString().u32(element_type).u64(count).append(elements.bytes()));
  }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    ByteString elements;
    for (const std::string& value : values) elements.string(value);
    return array(key, 8, values.size(), elements);
  }
  GgufBuilder& set_alignment(uint32_t value) {
    alignment = value;
    return u32("general.alignment", value);
  }
  // split.no, split.count and split.tensors.count of file `index` (from 0).
  GgufBuilder& split(uint16_t index, uint16_t count, int32_t tensors) {
    return u16("split.no", index).u16("split.count", count).i32("split.tensors.count", tensors);
  }
  GgufBuilder& tensor(TensorSpec spec) {
    tensors_.push_back(std::move(spec));
    return *this;
  }

  // Position of the data section.
  uint64_t data_offset() const { return align_up(head({}).size(), alignment); }

  // The file.
  std::vector<std::byte> bytes() const {
    std::vector<uint64_t> offsets;
    ByteString data;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      offsets.push_back(data.size());
      data.append(data_of(tensors_[i]));
      if (i + 1 < tensors_.size() || fill_after_last) data.zeros(align_up(data.size(), alignment) - data.size());
    }
    ByteString file = head(offsets);
    if (!tensors_.empty()) file.zeros(align_up(file.size(), alignment) - file.size());
    return file.append(data.bytes()).bytes();
  }
  // The file without its last `n` bytes.
  std::vector<std::byte> bytes_without_last(size_t n) const {
    std::vector<std::byte> all = bytes();
    all.resize(all.size() - std::min(n, all.size()));
    return all;
  }

 private:
  ByteString head(const std::vector<uint64_t>& offsets) const {
    ByteString out;
    out.text(magic).u32(version).u64(n_tensors.value_or(tensors_.size())).u64(n_entries.value_or(entry_count_));
    out.append(entries_.bytes());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const TensorSpec& spec = tensors_[i];
      out.string(spec.name).u32(spec.n_dims.value_or(static_cast<uint32_t>(spec.ne.size())));
      for (const uint64_t n : spec.ne) out.u64(n);
      out.u32(spec.type).u64(spec.offset.value_or(i < offsets.size() ? offsets[i] : 0));
    }
    return out;
  }
  // The data of a tensor whose size is sane; nothing for one that lies about it (give `data` then, where it matters).
  static std::vector<std::byte> data_of(const TensorSpec& spec) {
    if (spec.data) return *spec.data;
    const quant::TypeInfo* type = quant::find_type(spec.type);
    if (!type) return {};
    uint64_t n = 1;
    for (const uint64_t dim : spec.ne) {
      if (dim == 0 || dim > kMiB || n * dim > 16 * kMiB) return {};
      n *= dim;
    }
    return std::vector<std::byte>(n / type->block_elems * type->block_bytes);
  }

  ByteString entries_;
  uint64_t entry_count_ = 0;
  std::vector<TensorSpec> tensors_;
};

}  // namespace strata::test
