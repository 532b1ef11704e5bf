// Writes one GGUF v3 file that the reference reader accepts: unique keys with general.architecture first, names of at
// most 63 bytes, tensors in order at aligned offsets, zero fill, general.quantization_version when a tensor is
// quantised.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace strata::gguf {

class Writer {
 public:
  explicit Writer(std::string architecture);

  // Adding a key twice, or a key or tensor name that the format does not allow, is reported by write().
  void set_u16(std::string_view key, uint16_t value);
  void set_u32(std::string_view key, uint32_t value);
  void set_i32(std::string_view key, int32_t value);
  void set_u64(std::string_view key, uint64_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_i32s(std::string_view key, std::span<const int32_t> values);
  void set_f32s(std::string_view key, std::span<const float> values);
  // A value as it stands in another file.
  void set_value(std::string_view key, const Value& value);
  void set_alignment(uint32_t alignment);  // default 32; the only way to set general.alignment

  // ne: 1 to 4 dimensions, fastest first; trailing ones are dropped in the file. Exactly one of the two is given: bytes
  // that stay alive until write(), or a producer that is called once per tensor while writing and appends all of the
  // tensor's bytes through the sink.
  using Sink = std::function<Status(std::span<const std::byte>)>;
  void add_tensor(std::string name, quant::Type type, std::vector<uint64_t> ne, std::span<const std::byte> bytes);
  void add_tensor(std::string name, quant::Type type, std::vector<uint64_t> ne,
                  std::function<Status(const Sink&)> produce);

  // As OutputFile does: a reader never sees half a file. kIo names the path; what was wrong with the keys and tensors
  // added before is kBadInput. What the producers return is passed on.
  Status write(const std::string& path);

 private:
  struct Entry {
    std::string key;
    std::vector<uint8_t> bytes;  // value type and value, as in the file
  };
  struct Tensor {
    std::string name;
    quant::Type type;
    std::vector<uint64_t> ne;
    std::span<const std::byte> bytes;
    std::function<Status(const Sink&)> produce;  // null when `bytes` is given
    uint64_t size = 0;                           // bytes in the file
  };
  void set_raw(std::string_view key, std::vector<uint8_t> bytes);
  void add(Tensor tensor);
  void note_problem(std::string text);
  std::vector<uint8_t> encode_metadata() const;

  std::vector<Entry> entries_;
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> tensor_names_;
  uint32_t alignment_ = 32;
  std::string problem_;  // the first; empty: none
};

}  // namespace strata::gguf
