// Parses the metadata of one GGUF file: header, entries, tensor infos. Trusts nothing: each length is compared with the
// bytes left before anything is allocated or read, all arithmetic is checked, and memory is bounded by Limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/result.h"
#include "gguf/gguf.h"

namespace strata::gguf {

// What one file may use; a set hands the rest to its next file.
struct Limits {
  uint64_t metadata_bytes = kMaxMetadataBytes;
  uint64_t strings = kMaxStrings;
  uint64_t tensors = kMaxTensors;
};

struct ParsedFile {
  uint32_t version = 0;
  uint32_t alignment = 0;
  uint64_t data_offset = 0;
  std::vector<TensorInfo> tensors;  // in the order of the infos; file_offset is absolute, shard is 0
  std::vector<std::pair<std::string, Value>> entries;

  // What the values point into. Moving a ParsedFile keeps them valid.
  std::vector<uint8_t> metadata;
  std::vector<std::unique_ptr<std::vector<uint32_t>>> string_offsets;
  uint64_t n_strings = 0;

  const Value* find(std::string_view key) const;
};

// All failures are one line: file, byte position, entry or tensor, what is wrong.
Result<ParsedFile> parse_file(File& file, const Limits& limits);

class Parser {
 public:
  Parser(File& file, const Limits& limits);
  Result<ParsedFile> parse() &&;

 private:
  // What is being read, for messages; position is where the field in question starts.
  enum class Part { kHeader, kEntry, kTensor };
  struct Where {
    Part part = Part::kHeader;
    uint64_t index = 0;
    std::string_view name;
    uint64_t position = 0;
  };

  Status parse_header();
  Status check_version(uint32_t version);
  Status check_count(const char* what, uint64_t count, uint64_t min_bytes, uint64_t max);

  Status parse_entry(uint64_t index);
  Result<Value> parse_value(ValueType type);
  Result<Value> parse_array();
  Status parse_string_elements(Value& value);
  Status check_bools(const Value& value);
  Result<ValueType> take_value_type();
  Status check_unique_keys();
  Status read_alignment();

  Status parse_tensor(uint64_t index);
  Status parse_shape(TensorInfo& tensor);
  Status parse_type(TensorInfo& tensor);
  Status compute_sizes(TensorInfo& tensor);
  Status check_unique_names();
  Status place_tensors();
  Status check_truncation();
  Status check_overlaps();

  // The next n bytes; the pointer stays valid as long as the metadata. The file is read in windows.
  Result<const uint8_t*> take(uint64_t n);
  template <class T>
  Result<T> take_number() {
    where_.position = position_;
    ASSIGN_OR_RETURN(const uint8_t* data, take(sizeof(T)));
    return load_le<T>(data);
  }
  Result<std::string_view> take_string(uint64_t max_bytes);
  Status fill(uint64_t end);

  uint64_t bytes_left() const { return file_.size() - position_; }
  Error fail(ErrorCode code, const std::string& text) const { return fail_at(where_, code, text); }
  Error fail_at(const Where& where, ErrorCode code, const std::string& text) const;
  Where tensor_at(size_t index) const;

  File& file_;
  const Limits limits_;
  const uint64_t readable_;  // bytes of the file that metadata may use
  uint64_t position_ = 0;
  uint64_t n_entries_ = 0;
  uint64_t n_tensors_ = 0;
  Where where_;
  std::vector<uint64_t> entry_positions_;
  std::vector<uint64_t> tensor_positions_;
  ParsedFile out_;
};

}  // namespace strata::gguf
