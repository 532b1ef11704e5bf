// Super-blocks of 256 whose groups of 16 have a signed scale: Q3_K and Q6_K.
#include <cstring>

#include "quant/encode/family.h"
#include "quant/encode/fit.h"
#include "quant/encode/scales.h"

namespace strata::quant {
namespace {

// (d * scale) * (q - kZero), q in 0..2 * kZero - 1
struct Groups {
  int scale[16];
  uint8_t codes[256];
};

template <int kZero, int kRange>
void symmetric_groups(const float* x, uint8_t* d_at, Groups& out) {
  float scales[16];
  for (int g = 0; g < 16; g++) {
    const auto nearest = [](__m128 z) { return nearest_even(z, -kZero, kZero - 1); };
    scales[g] = fit_symmetric<16, 9>(x + 16 * g, -kZero, 0.1f, nearest);
  }
  const float d = scale_codes<16, kRange>(scales, d_at, out.scale);
  for (int g = 0; g < 16; g++) {
    const float scale = d * static_cast<float>(out.scale[g]);
    for (int i = 16 * g; i < 16 * g + 16; i++) {
      out.codes[i] = static_cast<uint8_t>(round_even(ratio_or_zero(x[i], scale), -kZero, kZero - 1) + kZero);
    }
  }
}

void encode_block_q3_k(const float* x, uint8_t* block) {
  Groups groups;
  symmetric_groups<4, 32>(x, block + 108, groups);
  std::memset(block, 0, 32);
  for (int i = 0; i < 256; i++) block[i % 32] |= static_cast<uint8_t>(groups.codes[i] >> 2 << (i / 32));
  for (int half = 0; half < 2; half++) store_planes(block + 32 + 32 * half, groups.codes + 128 * half);
  // Sixteen 6-bit scales: low nibbles in bytes 0-7, upper two bits in bytes 8-11.
  uint8_t scale[16];
  for (int g = 0; g < 16; g++) scale[g] = static_cast<uint8_t>(groups.scale[g] + 32);
  store_nibbles(block + 96, scale, 16);
  for (int j = 0; j < 4; j++) {
    block[104 + j] = static_cast<uint8_t>(scale[j] >> 4 | scale[4 + j] >> 4 << 2 | scale[8 + j] >> 4 << 4 |
                                          scale[12 + j] >> 4 << 6);
  }
}

void encode_block_q6_k(const float* x, uint8_t* block) {
  Groups groups;
  symmetric_groups<32, 128>(x, block + 208, groups);
  for (int half = 0; half < 2; half++) {
    const uint8_t* codes = groups.codes + 128 * half;
    store_nibbles(block + 64 * half, codes, 128);
    uint8_t upper[128];
    for (int i = 0; i < 128; i++) upper[i] = static_cast<uint8_t>(codes[i] >> 4);
    store_planes(block + 128 + 32 * half, upper);
  }
  for (int g = 0; g < 16; g++) block[192 + g] = static_cast<uint8_t>(groups.scale[g]);
}

constexpr EncoderRow kRows[] = {
    {Type::Q3_K, encode_blocks<256, 110, encode_block_q3_k>},
    {Type::Q6_K, encode_blocks<256, 210, encode_block_q6_k>},
};

}  // namespace

std::span<const EncoderRow> k_symmetric_encoders() { return kRows; }

}  // namespace strata::quant
