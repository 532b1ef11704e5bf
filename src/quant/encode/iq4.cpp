// Four-bit codes into a table of 16 unevenly spaced values: IQ4_NL (blocks of 32) and IQ4_XS (256).
#include <cstring>

#include "quant/codebooks.h"
#include "quant/encode/family.h"
#include "quant/encode/fit.h"
#include "quant/encode/scales.h"

namespace strata::quant {
namespace {

// Between values j and j + 1.
inline float middle(int j) { return 0.5f * static_cast<float>(kIq4nl[j] + kIq4nl[j + 1]); }

// The code of the nearest value: how many middles lie below x.
inline int nearest_code(float x) {
  int code = 0;
  for (int j = 0; j < 15; j++) code += x > middle(j);
  return code;
}

// The nearest value of each of four numbers.
inline __m128 nearest_values(__m128 x) {
  __m128 value = _mm_set1_ps(kIq4nl[0]);
  for (int j = 0; j < 15; j++) {
    const __m128 above = _mm_cmpgt_ps(x, _mm_set1_ps(middle(j)));
    value += _mm_and_ps(above, _mm_set1_ps(static_cast<float>(kIq4nl[j + 1] - kIq4nl[j])));
  }
  return value;
}

// The scale of 32 values: their extreme lies at one of the lowest values' places, -134 to -120.
float fit_scale(const float* x) { return fit_symmetric<32, 7>(x, -127, 1, nearest_values); }

void store_codes(uint8_t* to, const float* x, float scale) {
  int codes[32];
  for (int i = 0; i < 32; i++) codes[i] = nearest_code(ratio_or_zero(x[i], scale));
  store_nibbles(to, codes, 32);
}

void encode_block_iq4_nl(const float* x, uint8_t* block) { store_codes(block + 2, x, store_f16(block, fit_scale(x))); }

// 0: f16 d; 2: u16, upper two scale bits per group of 32; 4: sl[4], lower four; 8: qs[128].
void encode_block_iq4_xs(const float* x, uint8_t* block) {
  float scales[8];
  for (int g = 0; g < 8; g++) scales[g] = fit_scale(x + 32 * g);
  int codes[8];
  const float d = scale_codes<8, 32>(scales, block, codes);
  uint32_t upper = 0;
  std::memset(block + 4, 0, 4);
  for (int g = 0; g < 8; g++) {
    const auto bits = static_cast<uint32_t>(codes[g] + 32);
    upper |= bits >> 4 << (2 * g);
    block[4 + g / 2] |= static_cast<uint8_t>((bits & 15) << (g % 2 * 4));
    store_codes(block + 8 + 16 * g, x + 32 * g, d * static_cast<float>(codes[g]));
  }
  store_le(block + 2, static_cast<uint16_t>(upper));
}

constexpr EncoderRow kRows[] = {
    {Type::IQ4_NL, encode_blocks<32, 18, encode_block_iq4_nl>},
    {Type::IQ4_XS, encode_blocks<256, 136, encode_block_iq4_xs>},
};

}  // namespace

std::span<const EncoderRow> iq4_encoders() { return kRows; }

}  // namespace strata::quant
