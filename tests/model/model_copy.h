// A GGUF model taken apart into keys and tensors, so that a test can change one thing and write it again, right or
// wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_builder.h"

namespace strata::test {

class ModelCopy {
 public:
  // Data is ne[0] fastest, tightly packed; the type is a plain number, so that it may be a wrong one.
  struct Tensor {
    std::string name;
    uint32_t type = 0;  // F32
    std::vector<uint64_t> ne;
    std::vector<std::byte> data;

    uint64_t rows() const;       // of ne[0] elements
    size_t row_bytes() const { return data.size() / rows(); }
    // Rows [first, first + count).
    std::vector<std::byte> row_range(uint64_t first, uint64_t count) const;
  };

  // A copy of tests/golden/arch/NAME/model-bf16.gguf, whose architecture is NAME.
  explicit ModelCopy(const std::string& golden_arch);

  const std::string& arch() const { return arch_; }
  // Makes it a model of another architecture, with the same keys.
  void rename_arch(const std::string& arch);
  // "ARCH.name"; a name that begins with "general." stands for itself.
  std::string full(std::string_view name) const;

  // Keys by name as in full(). Setting replaces or adds; the value is what stands in the file after the type number.
  void set(std::string_view name, uint32_t type, const ByteString& value);
  void set_u32(std::string_view name, uint32_t value);
  void set_i32(std::string_view name, int32_t value);
  void set_f32(std::string_view name, float value);
  void set_f64(std::string_view name, double value);
  void set_string(std::string_view name, std::string_view value);
  void set_i32s(std::string_view name, const std::vector<int32_t>& values);
  void set_f32s(std::string_view name, const std::vector<float>& values);
  void set_bools(std::string_view name, const std::vector<bool>& values);
  void remove(std::string_view name);
  // The integer value of a key that is stored as u32.
  bool has_key(std::string_view name) const;
  uint32_t get_u32(std::string_view name) const;

  std::vector<Tensor>& tensors() { return tensors_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  bool has_tensor(std::string_view name) const;
  Tensor& tensor(std::string_view name);  // has to exist
  void remove_tensor(std::string_view name);
  // The tensor, taken out of the model.
  Tensor take_tensor(std::string_view name);
  void add_tensor(Tensor tensor) { tensors_.push_back(std::move(tensor)); }

  // The file.
  std::vector<std::byte> bytes() const;
  void write(const std::string& path) const;
  // `count` files of a split set in `directory`, tensors dealt out in order; returns the path of the first.
  std::string write_split(const std::string& directory, int count) const;

 private:
  struct Key {
    std::string name;
    uint32_t type;
    ByteString value;
  };
  GgufBuilder builder_with_keys() const;
  static void add(GgufBuilder& builder, const Tensor& tensor);

  std::string arch_;
  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace strata::test
