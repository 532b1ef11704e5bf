// Codebook types of about 1.6 bits: IQ1_S and IQ1_M. 256 elements; an 11-bit index chooses 8 values of -1, 0, 1 that
// are shifted by +-1/8: (d * (2s + 1)) * (value +- 1/8). Computed in eighths, which is as exact: codes 8 * value +- 1.
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

inline float iq1_scale(float d, uint32_t s) { return d * static_cast<float>(2 * s + 1) * 0.125f; }

// +1 in every byte, or -1.
inline uint64_t iq1_shift(bool negative) { return negative ? ~uint64_t{0} : 0x0101010101010101u; }

// Two runs of 8 values and their shifts in eighths.
inline void store_iq1_runs(float* out, uint64_t run0, uint64_t run1, Codes shifts, float scale) {
  const Codes values = codes_of(run0, run1);
  const Codes eighths = shifted_left(values & splat(0x1F), 3);  // the mask keeps a byte's bits out of the next one
  store_scaled(out, eighths + shifts, scale);
}

// 0: f16 d; 2: qs[32], low 8 index bits of a run; 34: u16 qh[8], per group of 32: upper 3 index bits of its four runs,
// s in bits 12-14, the shift's sign in bit 15.
inline void decode_block_iq1_s(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int g = 0; g < 8; g++, out += 32) {
    const uint8_t* qs = block + 2 + 4 * g;
    const uint32_t w = u16_at(block + 34 + 2 * g);
    const float scale = iq1_scale(d, w >> 12 & 7);
    const uint64_t shift = iq1_shift(w >> 15 != 0);
    const uint64_t run0 = quant::kIq1[qs[0] | (w & 7) << 8], run1 = quant::kIq1[qs[1] | (w >> 3 & 7) << 8];
    const uint64_t run2 = quant::kIq1[qs[2] | (w >> 6 & 7) << 8], run3 = quant::kIq1[qs[3] | (w >> 9 & 7) << 8];
    store_iq1_runs(out, run0, run1, codes_of(shift, shift), scale);
    store_iq1_runs(out + 16, run2, run3, codes_of(shift, shift), scale);
  }
}

// 0: qs[32]; 32: qh[16], per 16 elements two nibbles: upper 3 index bits and the shift's sign of a run; 48: u16 c[4]
// with four 3-bit scales each, one per 16 elements, and in the upper nibbles the bits of the f16 d.
inline void decode_block_iq1_m(const uint8_t* block, float* out) {
  uint32_t c[4];
  for (int i = 0; i < 4; i++) c[i] = u16_at(block + 48 + 2 * i);
  const float d = f16_value(
      static_cast<uint16_t>(c[0] >> 12 | (c[1] >> 12) << 4 | (c[2] >> 12) << 8 | (c[3] >> 12) << 12));
  for (int pair = 0; pair < 16; pair++, out += 16) {
    const float scale = iq1_scale(d, c[pair / 4] >> (pair % 4 * 3) & 7);
    const uint32_t nibbles = block[32 + pair];
    const uint64_t run0 = quant::kIq1[block[2 * pair] | (nibbles & 7) << 8];
    const uint64_t run1 = quant::kIq1[block[2 * pair + 1] | (nibbles >> 4 & 7) << 8];
    const Codes shifts = codes_of(iq1_shift((nibbles & 8) != 0), iq1_shift((nibbles & 128) != 0));
    store_iq1_runs(out, run0, run1, shifts, scale);
  }
}

// IQ1_M: the exponent of its scattered d lies in bits 14-15 of c[2] and 12-14 of c[3].
constexpr Format kIq1Formats[] = {
    block_format<256, 50, decode_block_iq1_s>(quant::Type::IQ1_S, "IQ1_S", true, f16_field(0)),
    block_format<256, 56, decode_block_iq1_m>(quant::Type::IQ1_M, "IQ1_M", true, {48, 8, 0x7000C00000000000}),
};

}  // namespace STRATA_DECODE_NS
