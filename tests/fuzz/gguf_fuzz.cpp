// libFuzzer target: opens what the input describes as a model and, if it is accepted, reads everything there is.
//
// The input is the bytes of one file, or, if it starts with 'S', a split set: 'S', the number of files less one (modulo
// 4), then each file as a 16-bit length and its bytes; the last one has the rest.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file_sim.h"
#include "gguf/gguf.h"
#include "gguf/split.h"

namespace strata {
namespace {

// A violation ends the process, which is how the fuzzer learns of it.
void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::byte> take(std::span<const uint8_t>& input, size_t n) {
  const auto bytes = std::as_bytes(input.first(std::min(n, input.size())));
  input = input.subspan(bytes.size());
  return {bytes.begin(), bytes.end()};
}

void add_files(MemoryFileSystem& files, std::span<const uint8_t> input) {
  if (input.size() < 2 || input[0] != 'S') {
    files.add_file("/fuzz/m.gguf", take(input, input.size()));
    return;
  }
  const int count = 1 + input[1] % 4;
  input = input.subspan(2);
  for (int number = 1; number <= count; ++number) {
    size_t length = input.size();
    if (number < count && input.size() >= 2) {
      length = load_le<uint16_t>(input.data());
      input = input.subspan(2);
    }
    files.add_file("/fuzz/" + gguf::split_file_name("m", number, count), take(input, length));
  }
}

void read_value(const gguf::Value& value) {
  require(*gguf::value_type_name(value.type()) != '\0');
  for (uint64_t i = 0; i <= value.count(); ++i) {
    size_t accepted = 0;
    accepted += value.as_int(i).ok();
    accepted += value.as_uint(i).ok();
    accepted += value.as_float(i).ok();
    accepted += value.as_bool(i).ok();
    const auto text = value.as_string(i);
    if (text.ok()) accepted += std::string(*text).size() == text->size();  // touches every byte
    require((accepted > 0) == (i < value.count()));
  }
  const auto strings = value.strings();
  require(!strings.ok() || strings->size() == value.count());
  const auto encoded = value.encoded();
  require(std::vector<uint8_t>(encoded.begin(), encoded.end()).size() >= value.count());
}

void read_by_key(const gguf::Model& model, const std::string& key) {
  const auto integer = model.int_or(key, 5, 0, 10);
  require(!integer.ok() || (*integer >= 0 && *integer <= 10));
  require(model.require_int(key, 0, 10).ok() == integer.ok());
  require(model.require_float(key).ok() == model.float_or(key, 0).ok());
  require(model.require_string(key).ok() == model.string_or(key, "").ok());
  const auto flag = model.bool_or(key, false);
  require(flag.ok() || !flag.error().message.empty());
}

void read_tensor(const gguf::Model& model, const gguf::TensorInfo& tensor) {
  require(tensor.bytes > 0 && tensor.n_elements > 0 && tensor.row_bytes > 0);
  require(!tensor.name.empty() && tensor.name.size() <= gguf::kMaxTensorNameBytes);
  require(model.find_tensor(tensor.name) == &tensor);
  const gguf::Shard& shard = model.shards().at(static_cast<size_t>(tensor.shard));
  require(tensor.file_offset >= shard.data_offset && tensor.file_offset <= shard.file_bytes);
  require(tensor.bytes <= shard.file_bytes - tensor.file_offset);
  require((tensor.file_offset - shard.data_offset) % shard.alignment == 0);
  std::vector<std::byte> data(tensor.bytes);
  require(model.read(tensor, 0, data).ok());
  require(!model.read(tensor, 1, data).ok());
}

void check_error(const Error& error) {
  require(error.code != ErrorCode::kInternal && !error.message.empty());
  for (const char c : error.message) require(c != '\n' && c != '\0' && c != '\x1b');
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  MemoryFileSystem files;
  add_files(files, {data, size});
  const auto opened = gguf::Model::open("/fuzz", files);
  if (!opened.ok()) {
    check_error(opened.error());
    return 0;
  }
  for (const auto& [key, value] : (*opened)->entries()) {
    require((*opened)->find(key) == &value);
    read_value(value);
    read_by_key(**opened, key);
  }
  for (const gguf::TensorInfo& tensor : (*opened)->tensors()) read_tensor(**opened, tensor);
  return 0;
}
