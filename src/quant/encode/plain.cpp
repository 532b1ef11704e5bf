// Plain numbers: F32, F16, BF16.
#include <cstring>

#include "quant/encode/family.h"
#include "quant/encode/numbers.h"

namespace strata::quant {
namespace {

void encode_f32(const float* values, uint8_t* out, size_t n) {
  if (n > 0) std::memcpy(out, values, n * sizeof(float));
}

void encode_f16(const float* values, uint8_t* out, size_t n) {
  for (size_t i = 0; i < n; i++) store_le(out + 2 * i, f32_to_f16(values[i]));
}

// The largest finite numbers of float32 round to infinity; they are stored as the largest of bf16, like those of f16.
void encode_bf16(const float* values, uint8_t* out, size_t n) {
  constexpr float kMax = 0x1.FEp127f;
  for (size_t i = 0; i < n; i++) {
    const float value = values[i] > kMax ? kMax : values[i] < -kMax ? -kMax : values[i];
    store_le(out + 2 * i, f32_to_bf16(value));
  }
}

constexpr EncoderRow kRows[] = {
    {Type::F32, encode_f32},
    {Type::F16, encode_f16},
    {Type::BF16, encode_bf16},
};

}  // namespace

std::span<const EncoderRow> plain_encoders() { return kRows; }

}  // namespace strata::quant
