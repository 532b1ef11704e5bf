// Super-blocks of 256 whose groups have a scale and a minimum: Q2_K (groups of 16), Q4_K and Q5_K (groups of 32).
#include <algorithm>
#include <cstring>

#include "quant/encode/family.h"
#include "quant/encode/fit.h"

namespace strata::quant {
namespace {

// (d * scale) * q - dmin * min
struct Groups {
  uint8_t scale[16];
  uint8_t min[16];
  uint8_t codes[256];
};

// The codes of one group's scale and min, 0..kField: of the rounded ones and their neighbours, the two that serve best
// together.
template <int kField, class Group>
void choose_scales(const Group& group, AffineFit wanted, float d, float dmin, uint8_t& scale, uint8_t& min) {
  const int scale_rounded = round_even(ratio_or_zero(wanted.scale, d), 0, kField);
  const int min_rounded = round_even(ratio_or_zero(wanted.min, dmin), 0, kField);
  scale = static_cast<uint8_t>(scale_rounded);
  min = static_cast<uint8_t>(min_rounded);
  float least = INFINITY;
  for (int s = std::max(scale_rounded - 1, 0); s <= std::min(scale_rounded + 1, kField); s++) {
    for (int m = std::max(min_rounded - 1, 0); m <= std::min(min_rounded + 1, kField); m++) {
      const float error = group.error({d * static_cast<float>(s), dmin * static_cast<float>(m)});
      if (error < least) {
        least = error;
        scale = static_cast<uint8_t>(s);
        min = static_cast<uint8_t>(m);
      }
    }
  }
}

// kMax: largest code; kField: largest scale and min. Stores d and dmin where they belong.
template <int kCount, int kMax, int kField>
void affine_groups(const float* x, uint8_t* d_at, uint8_t* dmin_at, Groups& out) {
  constexpr int kGroups = 256 / kCount;
  AffineGroup<kCount, kMax> groups[kGroups];
  AffineFit fits[kGroups];
  float scale_max = 0, min_max = 0;
  for (int g = 0; g < kGroups; g++) {
    groups[g].load(x + g * kCount);
    fits[g] = groups[g].fit();
    scale_max = std::max(scale_max, fits[g].scale);
    min_max = std::max(min_max, fits[g].min);
  }
  const float d = store_f16(d_at, scale_max / kField);
  const float dmin = store_f16(dmin_at, min_max / kField);
  for (int g = 0; g < kGroups; g++) {
    choose_scales<kField>(groups[g], fits[g], d, dmin, out.scale[g], out.min[g]);
    const float scale = d * out.scale[g];
    const float min = dmin * out.min[g];
    for (int i = g * kCount; i < (g + 1) * kCount; i++) {
      out.codes[i] = static_cast<uint8_t>(round_even(ratio_or_zero(x[i] + min, scale), 0, kMax));
    }
  }
}

void encode_block_q2_k(const float* x, uint8_t* block) {
  Groups groups;
  affine_groups<16, 3, 15>(x, block + 80, block + 82, groups);
  for (int g = 0; g < 16; g++) block[g] = static_cast<uint8_t>(groups.scale[g] | groups.min[g] << 4);
  for (int half = 0; half < 2; half++) store_planes(block + 16 + 32 * half, groups.codes + 128 * half);
}

// Eight 6-bit scales and eight 6-bit mins in 12 bytes: the first four of each whole, of the others the low nibbles in
// bytes 8-11 and the upper two bits above the first ones.
void store_scales_and_mins(uint8_t* to, const Groups& groups) {
  for (int j = 0; j < 4; j++) {
    to[j] = static_cast<uint8_t>(groups.scale[j] | groups.scale[j + 4] >> 4 << 6);
    to[4 + j] = static_cast<uint8_t>(groups.min[j] | groups.min[j + 4] >> 4 << 6);
    to[8 + j] = static_cast<uint8_t>((groups.scale[j + 4] & 15) | (groups.min[j + 4] & 15) << 4);
  }
}

void encode_block_q4_k(const float* x, uint8_t* block) {
  Groups groups;
  affine_groups<32, 15, 63>(x, block, block + 2, groups);
  store_scales_and_mins(block + 4, groups);
  for (int pair = 0; pair < 4; pair++) store_nibbles(block + 16 + 32 * pair, groups.codes + 64 * pair, 64);
}

void encode_block_q5_k(const float* x, uint8_t* block) {
  Groups groups;
  affine_groups<32, 31, 63>(x, block, block + 2, groups);
  store_scales_and_mins(block + 4, groups);
  std::memset(block + 16, 0, 32);
  for (int i = 0; i < 256; i++) block[16 + i % 32] |= static_cast<uint8_t>(groups.codes[i] >> 4 << (i / 32));
  for (int pair = 0; pair < 4; pair++) store_nibbles(block + 48 + 32 * pair, groups.codes + 64 * pair, 64);
}

constexpr EncoderRow kRows[] = {
    {Type::Q2_K, encode_blocks<256, 84, encode_block_q2_k>},
    {Type::Q4_K, encode_blocks<256, 144, encode_block_q4_k>},
    {Type::Q5_K, encode_blocks<256, 176, encode_block_q5_k>},
};

}  // namespace

std::span<const EncoderRow> k_affine_encoders() { return kRows; }

}  // namespace strata::quant
