#include "model/model_copy.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "base/assert.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "gguf/split.h"
#include "support/golden.h"

namespace strata::test {
namespace {

constexpr uint32_t kArray = 9;

void write_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.good()) << path;
}

ByteString array_head(uint32_t element_type, uint64_t count) { return ByteString().u32(element_type).u64(count); }

}  // namespace

uint64_t ModelCopy::Tensor::rows() const {
  uint64_t n = 1;
  for (size_t i = 1; i < ne.size(); i++) n *= ne[i];
  return n;
}

std::vector<std::byte> ModelCopy::Tensor::row_range(uint64_t first, uint64_t count) const {
  const auto begin = data.begin() + static_cast<int64_t>(first * row_bytes());
  return {begin, begin + static_cast<int64_t>(count * row_bytes())};
}

ModelCopy::ModelCopy(const std::string& golden_arch) : arch_(golden_arch) {
  auto opened = gguf::Model::open(golden_path("arch/" + golden_arch + "/model-bf16.gguf"), real_file_system());
  if (!opened.ok()) {
    ADD_FAILURE() << opened.error().message;
    return;
  }
  const gguf::Model& model = **opened;
  for (const auto& [name, value] : model.entries()) {
    ByteString bytes;
    if (value.is_array()) bytes = array_head(static_cast<uint32_t>(value.element_type()), value.count());
    const auto encoded = std::as_bytes(value.encoded());
    bytes.append({encoded.begin(), encoded.end()});
    keys_.push_back({name, static_cast<uint32_t>(value.type()), bytes});
  }
  for (const gguf::TensorInfo& info : model.tensors()) {
    Tensor tensor{info.name, static_cast<uint32_t>(info.type), {info.ne, info.ne + info.n_dims}, {}};
    tensor.data.resize(info.bytes);
    const Status status = model.read(info, 0, tensor.data);
    EXPECT_TRUE(status.ok());
    tensors_.push_back(std::move(tensor));
  }
}

void ModelCopy::rename_arch(const std::string& arch) {
  for (Key& key : keys_) {
    if (key.name.starts_with(arch_ + ".")) key.name = arch + key.name.substr(arch_.size());
  }
  arch_ = arch;
  set_string("general.architecture", arch);
}

std::string ModelCopy::full(std::string_view name) const {
  return name.starts_with("general.") ? std::string(name) : arch_ + "." + std::string(name);
}

void ModelCopy::set(std::string_view name, uint32_t type, const ByteString& value) {
  const std::string wanted = full(name);
  const auto at = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == wanted; });
  if (at != keys_.end()) {
    *at = {wanted, type, value};
  } else {
    keys_.push_back({wanted, type, value});
  }
}

void ModelCopy::set_u32(std::string_view name, uint32_t value) { set(name, 4, ByteString().u32(value)); }
void ModelCopy::set_i32(std::string_view name, int32_t value) { set(name, 5, ByteString().number(value)); }
void ModelCopy::set_f32(std::string_view name, float value) { set(name, 6, ByteString().f32(value)); }
void ModelCopy::set_f64(std::string_view name, double value) { set(name, 12, ByteString().number(value)); }
void ModelCopy::set_string(std::string_view name, std::string_view value) { set(name, 8, ByteString().string(value)); }
void ModelCopy::set_i32s(std::string_view name, const std::vector<int32_t>& values) {
  ByteString bytes = array_head(5, values.size());
  for (const int32_t value : values) bytes.number(value);
  set(name, kArray, bytes);
}
void ModelCopy::set_f32s(std::string_view name, const std::vector<float>& values) {
  ByteString bytes = array_head(6, values.size());
  for (const float value : values) bytes.f32(value);
  set(name, kArray, bytes);
}
void ModelCopy::set_bools(std::string_view name, const std::vector<bool>& values) {
  ByteString bytes = array_head(7, values.size());
  for (const bool value : values) bytes.u8(value);
  set(name, kArray, bytes);
}

void ModelCopy::remove(std::string_view name) {
  const std::string wanted = full(name);
  std::erase_if(keys_, [&](const Key& k) { return k.name == wanted; });
}

bool ModelCopy::has_key(std::string_view name) const {
  return std::any_of(keys_.begin(), keys_.end(), [wanted = full(name)](const Key& k) { return k.name == wanted; });
}

uint32_t ModelCopy::get_u32(std::string_view name) const {
  const std::string wanted = full(name);
  for (const Key& key : keys_) {
    if (key.name == wanted) return load_le<uint32_t>(key.value.bytes().data());
  }
  ADD_FAILURE() << "no key " << wanted;
  return 1;
}

bool ModelCopy::has_tensor(std::string_view name) const {
  return std::any_of(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; });
}

ModelCopy::Tensor& ModelCopy::tensor(std::string_view name) {
  const auto at = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; });
  ASSERT(at != tensors_.end());
  return *at;
}

void ModelCopy::remove_tensor(std::string_view name) {
  std::erase_if(tensors_, [&](const Tensor& t) { return t.name == name; });
}

ModelCopy::Tensor ModelCopy::take_tensor(std::string_view name) {
  const auto at = tensors_.begin() + (&tensor(name) - tensors_.data());
  Tensor taken = std::move(*at);
  tensors_.erase(at);
  return taken;
}

GgufBuilder ModelCopy::builder_with_keys() const {
  GgufBuilder builder;
  for (const Key& key : keys_) builder.entry(key.name, key.type, key.value);
  return builder;
}

void ModelCopy::add(GgufBuilder& builder, const Tensor& tensor) {
  builder.tensor({.name = tensor.name, .ne = tensor.ne, .type = tensor.type, .data = tensor.data});
}

std::vector<std::byte> ModelCopy::bytes() const {
  GgufBuilder builder = builder_with_keys();
  for (const Tensor& tensor : tensors_) add(builder, tensor);
  return builder.bytes();
}

void ModelCopy::write(const std::string& path) const { write_bytes(path, bytes()); }

std::string ModelCopy::write_split(const std::string& directory, int count) const {
  const size_t share = (tensors_.size() + static_cast<size_t>(count) - 1) / static_cast<size_t>(count);
  for (int i = 0; i < count; i++) {
    GgufBuilder builder = i == 0 ? builder_with_keys() : GgufBuilder();
    builder.split(static_cast<uint16_t>(i), static_cast<uint16_t>(count), static_cast<int32_t>(tensors_.size()));
    const size_t first = static_cast<size_t>(i) * share;
    for (size_t t = first; t < std::min(first + share, tensors_.size()); t++) add(builder, tensors_[t]);
    write_bytes(directory + "/" + gguf::split_file_name("m", i + 1, count), builder.bytes());
  }
  return directory + "/" + gguf::split_file_name("m", 1, count);
}

}  // namespace strata::test
