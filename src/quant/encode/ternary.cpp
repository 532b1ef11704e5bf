// Ternary super-blocks of 256: TQ1_0 (five base-3 digits per byte) and TQ2_0 (2 bits).
#include "quant/encode/family.h"
#include "quant/encode/numbers.h"

namespace strata::quant {
namespace {

// Digits 0..2 for -d, 0, +d; returns d.
float ternary_digits(const float* x, uint8_t* digits) {
  const float d = max_magnitude(x, 256);
  const float inverse = inverse_or_zero(d);
  for (int i = 0; i < 256; i++) digits[i] = static_cast<uint8_t>(round_away(x[i] * inverse, -1, 1) + 1);
  return d;
}

// `n` digits, `stride` apart, the first one leading, as the fraction byte / 256 of base 3, rounded up.
uint8_t ternary_byte(const uint8_t* digits, int n, int stride) {
  int number = 0;
  for (int i = 0; i < 5; i++) number = 3 * number + (i < n ? digits[i * stride] : 0);
  return static_cast<uint8_t>((number * 256 + 242) / 243);
}

void encode_block_tq1_0(const float* x, uint8_t* block) {
  uint8_t digits[256];
  store_f16(block + 52, ternary_digits(x, digits));
  for (int j = 0; j < 32; j++) block[j] = ternary_byte(digits + j, 5, 32);
  for (int j = 0; j < 16; j++) block[32 + j] = ternary_byte(digits + 160 + j, 5, 16);
  for (int j = 0; j < 4; j++) block[48 + j] = ternary_byte(digits + 240 + j, 4, 4);
}

void encode_block_tq2_0(const float* x, uint8_t* block) {
  uint8_t digits[256];
  store_f16(block + 64, ternary_digits(x, digits));
  for (int half = 0; half < 2; half++) store_planes(block + 32 * half, digits + 128 * half);
}

constexpr EncoderRow kRows[] = {
    {Type::TQ1_0, encode_blocks<256, 54, encode_block_tq1_0>},
    {Type::TQ2_0, encode_blocks<256, 66, encode_block_tq2_0>},
};

}  // namespace

std::span<const EncoderRow> ternary_encoders() { return kRows; }

}  // namespace strata::quant
