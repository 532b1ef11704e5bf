// Codebook types of about 2 bits: IQ2_XXS, IQ2_XS, IQ2_S. 256 elements; an index chooses 8 magnitudes of a codebook
// (a run), a sign byte negates them: (d * (0.5 + s) * 0.25) * (+-magnitude).
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

inline float iq2_scale(float d, uint32_t s) { return d * (0.5f + static_cast<float>(s)) * 0.25f; }

// Two runs with explicit signs, the second run's in the upper byte.
inline void store_iq2_runs(float* out, uint64_t run0, uint64_t run1, uint32_t signs, float scale) {
  store_scaled(out, negated(codes_of(run0, run1), mask_of_bits(signs)), scale);
}

// 0: f16 d; then per group of 32: u32 with an 8-bit index per run; u32 with 7-bit signs per run and s in bits 28-31.
inline void decode_block_iq2_xxs(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (const uint8_t* group = block + 2; group < block + 66; group += 8, out += 32) {
    const uint32_t b = u32_at(group + 4);
    const float scale = iq2_scale(d, b >> 28);
    const uint32_t signs01 = quant::kSigns7[b & 127] | quant::kSigns7[b >> 7 & 127] << 8;
    const uint32_t signs23 = quant::kSigns7[b >> 14 & 127] | quant::kSigns7[b >> 21 & 127] << 8;
    store_iq2_runs(out, quant::kIq2Xxs[group[0]], quant::kIq2Xxs[group[1]], signs01, scale);
    store_iq2_runs(out + 16, quant::kIq2Xxs[group[2]], quant::kIq2Xxs[group[3]], signs23, scale);
  }
}

// 0: f16 d; 2: u16 qs[32], 9-bit index and 7-bit signs of a run; 66: scales[8], a nibble per 16 elements.
inline void decode_block_iq2_xs(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int pair = 0; pair < 16; pair++, out += 16) {
    const uint32_t w0 = u16_at(block + 2 + 4 * pair), w1 = u16_at(block + 4 + 4 * pair);
    const uint32_t s = block[66 + pair / 2] >> (pair % 2 * 4) & 15;
    const uint32_t signs = quant::kSigns7[w0 >> 9] | quant::kSigns7[w1 >> 9] << 8;
    store_iq2_runs(out, quant::kIq2Xs[w0 & 511], quant::kIq2Xs[w1 & 511], signs, iq2_scale(d, s));
  }
}

// 0: f16 d; 2: ql[32], low 8 index bits of a run; 34: signs[32]; 66: qh[8], upper 2 index bits of four runs;
// 74: scales[8], a nibble per 16 elements.
inline void decode_block_iq2_s(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int pair = 0; pair < 16; pair++, out += 16) {
    const uint32_t upper = block[66 + pair / 2] >> (pair % 2 * 4);
    const uint32_t i0 = block[2 + 2 * pair] | (upper & 3) << 8;
    const uint32_t i1 = block[3 + 2 * pair] | (upper & 12) << 6;
    const uint32_t s = block[74 + pair / 2] >> (pair % 2 * 4) & 15;
    store_iq2_runs(out, quant::kIq2S[i0], quant::kIq2S[i1], u16_at(block + 34 + 2 * pair), iq2_scale(d, s));
  }
}

constexpr Format kIq2Formats[] = {
    block_format<256, 66, decode_block_iq2_xxs>(quant::Type::IQ2_XXS, "IQ2_XXS", true, f16_field(0)),
    block_format<256, 74, decode_block_iq2_xs>(quant::Type::IQ2_XS, "IQ2_XS", true, f16_field(0)),
    block_format<256, 82, decode_block_iq2_s>(quant::Type::IQ2_S, "IQ2_S", true, f16_field(0)),
};

}  // namespace STRATA_DECODE_NS
