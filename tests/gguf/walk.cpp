#include <array>

#include "gguf/support.h"

namespace strata::test {
namespace {

void read_value(const gguf::Value& value) {
  // One past the end as well: it must be an error, not a read.
  for (uint64_t i = 0; i <= value.count(); ++i) {
    const bool inside = i < value.count();
    size_t accepted = 0;
    accepted += value.as_int(i).ok();
    accepted += value.as_uint(i).ok();
    accepted += value.as_float(i).ok();
    accepted += value.as_bool(i).ok();
    const auto text = value.as_string(i);
    if (text.ok()) {
      ++accepted;
      std::string copy(*text);  // touches all of it
      EXPECT_EQ(copy.size(), text->size());
    }
    EXPECT_EQ(accepted > 0, inside) << gguf::value_type_name(value.type());
  }
  const bool is_strings = value.is_array() && value.element_type() == gguf::ValueType::kString;
  EXPECT_EQ(value.strings().ok(), is_strings);
  std::vector<uint8_t> encoded(value.encoded().begin(), value.encoded().end());
  EXPECT_GE(encoded.size(), value.count());
}

}  // namespace

size_t walk(const gguf::Model& model) {
  for (const auto& [key, value] : model.entries()) {
    EXPECT_EQ(model.find(key), &value);
    read_value(value);
  }
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    EXPECT_EQ(model.find_tensor(tensor.name), &tensor);
    std::array<std::byte, 1> byte;
    EXPECT_TRUE(model.read(tensor, 0, byte).ok());
    EXPECT_TRUE(model.read(tensor, tensor.bytes - 1, byte).ok());
    EXPECT_FALSE(model.read(tensor, tensor.bytes, byte).ok());
  }
  return model.entries().size() + model.tensors().size();
}

}  // namespace strata::test
