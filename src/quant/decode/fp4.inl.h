// Four-bit floats (E2M1) with small float scales: MXFP4 (blocks of 32, E8M0) and NVFP4 (64, UE4M3 per 16). The table
// holds twice the E2M1 values, so scales are halved.
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

// 2^(e - 128). Exponents 0 and 1 give float32 subnormals; 255 (NaN in the OCP format) is an invalid file.
inline float half_e8m0(uint32_t e) { return float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); }

// Half of an unsigned E4M3 number; 0x7F means 0 here and bit 7 is not used.
inline float half_ue4m3(uint32_t x) {
  const uint32_t exponent = x >> 3 & 15, mantissa = x & 7;
  if ((x & 0x7F) == 0x7F) return 0;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return float_of_bits((exponent + 119) << 23 | mantissa << 20);
}

// 0: E8M0 scale; 1: qs[16], element j in the low nibble of byte j, j + 16 in the high one.
inline void decode_block_mxfp4(const uint8_t* block, float* out) {
  const float scale = half_e8m0(block[0]);
  const Codes qs = load_codes(block + 1);
  store_scaled(out, lookup(quant::kFp4X2, low_nibbles(qs)), scale);
  store_scaled(out + 16, lookup(quant::kFp4X2, high_nibbles(qs)), scale);
}

// 0: UE4M3 scale[4], one per 16 elements; 4: qs[32], per 16 elements 8 bytes: element j low, j + 8 high.
inline void decode_block_nvfp4(const uint8_t* block, float* out) {
  for (int pair = 0; pair < 2; pair++, out += 32) {
    const Codes qs = load_codes(block + 4 + 16 * pair);
    const __m128i low = low_nibbles(qs).v, high = high_nibbles(qs).v;
    store_scaled(out, lookup(quant::kFp4X2, {_mm_unpacklo_epi64(low, high)}), half_ue4m3(block[2 * pair]));
    store_scaled(out + 16, lookup(quant::kFp4X2, {_mm_unpackhi_epi64(low, high)}), half_ue4m3(block[2 * pair + 1]));
  }
}

constexpr Format kFp4Formats[] = {
    block_format<32, 17, decode_block_mxfp4>(quant::Type::MXFP4, "MXFP4", true, {0, 1, 0xFF}),
    block_format<64, 36, decode_block_nvfp4>(quant::Type::NVFP4, "NVFP4", true),
};

}  // namespace STRATA_DECODE_NS
