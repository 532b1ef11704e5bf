// Codebook types of about 3 bits: IQ3_XXS and IQ3_S. 256 elements; an index chooses 4 magnitudes, a sign byte serves 8.
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

// 0: f16 d; 2: qs[64], an index per 4 elements; 66: per group of 32 a u32 with 7-bit signs per 8 elements and the scale
// s in bits 28-31. (d * (0.5 + s) * 0.5) * (+-magnitude)
inline void decode_block_iq3_xxs(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int g = 0; g < 8; g++) {
    const uint32_t u = u32_at(block + 66 + 4 * g);
    const float scale = d * (0.5f + static_cast<float>(u >> 28)) * 0.5f;
    for (int half = 0; half < 2; half++, out += 16) {
      const uint8_t* qs = block + 2 + 8 * g + 4 * half;
      const Codes magnitudes = codes_of(quant::kIq3Xxs[qs[0]], quant::kIq3Xxs[qs[1]], quant::kIq3Xxs[qs[2]],
                                        quant::kIq3Xxs[qs[3]]);
      const uint32_t sevens = u >> (14 * half);
      const uint32_t signs = quant::kSigns7[sevens & 127] | quant::kSigns7[sevens >> 7 & 127] << 8;
      store_scaled(out, negated(magnitudes, mask_of_bits(signs)), scale);
    }
  }
}

// 0: f16 d; 2: qs[64], low 8 index bits; 66: qh[8], ninth index bits of a group; 74: signs[32]; 106: scales[4], a
// nibble per group of 32. (d * (1 + 2s)) * (+-magnitude)
inline void decode_block_iq3_s(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int g = 0; g < 8; g++) {
    const uint32_t s = block[106 + g / 2] >> (g % 2 * 4) & 15;
    const float scale = d * static_cast<float>(1 + 2 * s);
    for (int half = 0; half < 2; half++, out += 16) {
      const uint8_t* qs = block + 2 + 8 * g + 4 * half;
      const uint32_t ninth = static_cast<uint32_t>(block[66 + g]) >> (4 * half);
      const Codes magnitudes = codes_of(
          quant::kIq3S[qs[0] | (ninth & 1) << 8], quant::kIq3S[qs[1] | (ninth & 2) << 7],
          quant::kIq3S[qs[2] | (ninth & 4) << 6], quant::kIq3S[qs[3] | (ninth & 8) << 5]);
      const uint32_t signs = u16_at(block + 74 + 4 * g + 2 * half);
      store_scaled(out, negated(magnitudes, mask_of_bits(signs)), scale);
    }
  }
}

constexpr Format kIq3Formats[] = {
    block_format<256, 98, decode_block_iq3_xxs>(quant::Type::IQ3_XXS, "IQ3_XXS", true, f16_field(0)),
    block_format<256, 110, decode_block_iq3_s>(quant::Type::IQ3_S, "IQ3_S", true, f16_field(0)),
};

}  // namespace STRATA_DECODE_NS
