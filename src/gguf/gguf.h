// GGUF containers, versions 2 and 3: a reader that treats every byte as hostile, sets of split files, and a writer.
// What is accepted and refused: docs/FORMATS.md, after the public GGUF description.
//
// Memory: the reader keeps the metadata bytes of the first file and views into them; of the other files of a set it
// keeps the tensor infos. Tensor data is never read while opening. The limits below hold for all files of a set
// together and keep the reader under 100 MB whatever the files say; a vocabulary of 260,000 tokens with twice as many
// merges needs a third of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "quant/type.h"

namespace strata::gguf {

inline constexpr uint64_t kMaxMetadataBytes = uint64_t{48} << 20;
inline constexpr uint64_t kMaxStrings = 2'000'000;  // elements of all string arrays
inline constexpr uint64_t kMaxTensors = 100'000;
inline constexpr uint64_t kMaxEntries = 10'000;
inline constexpr uint64_t kMaxKeyBytes = 65535;
inline constexpr uint64_t kMaxTensorNameBytes = 63;
inline constexpr uint32_t kMaxAlignment = 65536;
inline constexpr int kMaxDims = 4;
inline constexpr int kMaxShards = 1000;

enum class ValueType : uint32_t {
  kUint8 = 0, kInt8 = 1, kUint16 = 2, kInt16 = 3, kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7,
  kString = 8, kArray = 9, kUint64 = 10, kInt64 = 11, kFloat64 = 12,
};
const char* value_type_name(ValueType type);

// A metadata value: a view into the metadata bytes of its file.
class Value {
 public:
  ValueType type() const { return type_; }
  bool is_array() const { return type_ == ValueType::kArray; }
  ValueType element_type() const { return element_type_; }  // of an array; else type()
  uint64_t count() const { return count_; }                 // elements of an array; else 1

  // The value (or element i of an array) as any integer type that holds it; kBadInput when it is not an integer (bools
  // count as 0 and 1, floats do not), does not fit, or there is no element i. The messages continue "key K ...": "is a
  // float32, not an integer".
  Result<int64_t> as_int(uint64_t i = 0) const;
  Result<uint64_t> as_uint(uint64_t i = 0) const;
  Result<double> as_float(uint64_t i = 0) const;  // floats and integers
  Result<bool> as_bool(uint64_t i = 0) const;     // bools and integers 0 and 1
  Result<std::string_view> as_string(uint64_t i = 0) const;

  // All elements of a string array, in one pass (as_string(i) on an array of strings is O(1) too).
  Result<std::vector<std::string_view>> strings() const;

  // The value, or the elements of an array one after another, as encoded in the file; unaligned.
  std::span<const uint8_t> encoded() const;

 private:
  friend class Parser;
  ValueType type_ = ValueType::kUint8;
  ValueType element_type_ = ValueType::kUint8;
  uint64_t count_ = 1;
  const uint8_t* data_ = nullptr;  // first element; strings: length-prefixed
  // Arrays of strings: where each element's length prefix lies, counted from data_.
  const std::vector<uint32_t>* string_offsets_ = nullptr;
};

struct TensorInfo {
  std::string name;
  quant::Type type = quant::Type::F32;
  int n_dims = 0;
  uint64_t ne[kMaxDims] = {1, 1, 1, 1};  // ne[0] is contiguous; missing dimensions are 1
  uint64_t n_elements = 0;
  uint64_t row_bytes = 0;   // bytes of ne[0] elements
  uint64_t bytes = 0;       // of the whole tensor
  int shard = 0;            // index into Model::shards()
  uint64_t file_offset = 0; // position of its first byte in that shard's file
};

// One file of a model.
struct Shard {
  std::string path;
  uint64_t file_bytes = 0;
  uint64_t data_offset = 0;
  uint32_t version = 0;
  uint32_t alignment = 32;
  std::unique_ptr<File> file;  // open for reading tensor data
};

// A model: one file or a whole split set, checked. Immutable after open; reads from any thread.
class Model {
 public:
  // `path`: a .gguf file, any file of a split set, or a folder that holds exactly one model. All failures are one line
  // naming file, byte position and entry or tensor (codes kBadInput, kNotFound, kUnsupported, kIo).
  static Result<std::unique_ptr<Model>> open(const std::string& path, FileSystem& files);
  ~Model();

  const std::vector<Shard>& shards() const;
  const std::vector<TensorInfo>& tensors() const;  // in the order of the infos, shard after shard
  const TensorInfo* find_tensor(std::string_view name) const;

  // Keys of the first shard, in file order. Lookups walk this list.
  std::span<const std::pair<std::string, Value>> entries() const;
  const Value* find(std::string_view key) const;

  // Typed look-ups. require_*: kBadInput naming file and key when absent, of another kind or outside [min, max].
  Result<int64_t> require_int(std::string_view key, int64_t min, int64_t max) const;
  Result<int64_t> int_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const;
  Result<double> float_or(std::string_view key, double fallback) const;  // finite, else kBadInput
  Result<double> require_float(std::string_view key) const;
  Result<bool> bool_or(std::string_view key, bool fallback) const;
  Result<std::string> string_or(std::string_view key, std::string_view fallback) const;
  Result<std::string> require_string(std::string_view key) const;

  // Bytes of a tensor, or of a part of it, into dst; kBadInput for a range outside the tensor.
  Status read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> dst) const;
  // Asks the system to begin to read a tensor of this model.
  void will_need(const TensorInfo& tensor) const;

  const std::string& path() const;  // of the first shard

 private:
  Model();
  friend class Opener;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::gguf
