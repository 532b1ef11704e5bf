// One and two bits with one scale: Q1_0 (blocks of 128) and Q2_0 (64).
#include <cstring>

#include "quant/encode/family.h"
#include "quant/encode/numbers.h"

namespace strata::quant {
namespace {

void encode_block_q1_0(const float* x, uint8_t* block) {
  float sum = 0;
  for (int i = 0; i < 128; i++) sum += std::fabs(x[i]);
  store_f16(block, sum / 128);
  std::memset(block + 2, 0, 16);
  for (int i = 0; i < 128; i++) block[2 + i / 8] |= static_cast<uint8_t>((x[i] >= 0) << (i % 8));
}

void encode_block_q2_0(const float* x, uint8_t* block) {
  const float d = max_magnitude(x, 64);
  const float inverse = inverse_or_zero(d);
  store_f16(block, d);
  std::memset(block + 2, 0, 16);
  for (int i = 0; i < 64; i++) {
    const int code = round_away(x[i] * inverse, -1, 2) + 1;
    block[2 + i / 4] |= static_cast<uint8_t>(code << (2 * (i % 4)));
  }
}

constexpr EncoderRow kRows[] = {
    {Type::Q1_0, encode_blocks<128, 18, encode_block_q1_0>},
    {Type::Q2_0, encode_blocks<64, 18, encode_block_q2_0>},
};

}  // namespace

std::span<const EncoderRow> bits_encoders() { return kRows; }

}  // namespace strata::quant
