// Four-bit floats with small float scales: MXFP4 (blocks of 32, a power of two) and NVFP4 (64, UE4M3 per 16).
#include <limits>

#include "quant/encode/family.h"
#include "quant/encode/numbers.h"

#define STRATA_DECODE_NS strata::quant::fp4_scales
#include "quant/decode/fp4.inl.h"

namespace strata::quant {
namespace {

// The code whose value comes closest to x; the lowest of several.
int nearest_fp4(float x, float scale) {
  int code = 0;
  float least = std::numeric_limits<float>::infinity();
  for (int n = 0; n < 16; n++) {
    const float error = std::fabs(static_cast<float>(kFp4X2[n]) * scale - x);
    if (error < least) {
      least = error;
      code = n;
    }
  }
  return code;
}

// The largest magnitude lies in the binade of the largest codes, 4 and 6.
void encode_block_mxfp4(const float* x, uint8_t* block) {
  const float max = max_magnitude(x, 32);
  const int exponent = max > 0 && std::isfinite(max) ? std::ilogb(max) - 2 + 127 : 0;
  block[0] = static_cast<uint8_t>(exponent > 0 ? exponent : 0);
  const float scale = fp4_scales::half_e8m0(block[0]);
  int codes[32];
  for (int i = 0; i < 32; i++) codes[i] = nearest_fp4(x[i], scale);
  store_nibbles(block + 1, codes, 32);
}

// The nearest UE4M3 number, half up; at most 448, 0 for what is not above 0.
uint8_t ue4m3_of(float value) {
  if (!(value > 0)) return 0;
  const uint32_t bits = load_le<uint32_t>(&value);
  const int exponent = static_cast<int>(bits >> 23) - 127 + 7;
  if (exponent <= 0) return static_cast<uint8_t>(truncated(value * 512 + 0.5f, 0, 7));
  if (exponent >= 15) return 0x7E;
  const uint32_t rounded = ((static_cast<uint32_t>(exponent) << 4 | (bits >> 19 & 15)) + 1) >> 1;
  return static_cast<uint8_t>(rounded >= 15 << 3 ? 0x7E : rounded);
}

void encode_block_nvfp4(const float* x, uint8_t* block) {
  for (int s = 0; s < 4; s++, x += 16) {
    block[s] = ue4m3_of(max_magnitude(x, 16) / 6);
    const float scale = fp4_scales::half_ue4m3(block[s]);
    int codes[16];
    for (int i = 0; i < 16; i++) codes[i] = nearest_fp4(x[i], scale);
    store_nibbles(block + 4 + 8 * s, codes, 16);
  }
}

constexpr EncoderRow kRows[] = {
    {Type::MXFP4, encode_blocks<32, 17, encode_block_mxfp4>},
    {Type::NVFP4, encode_blocks<64, 36, encode_block_nvfp4>},
};

}  // namespace

std::span<const EncoderRow> fp4_encoders() { return kRows; }

}  // namespace strata::quant
