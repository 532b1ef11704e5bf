// The codebook types unpacked; the layouts are described beside their decoders in quant/decode/iq*.inl.h. Signed values
// become unsigned codes by an offset; fractions of the scale go into d.
#pragma once

#include "kernels/cpu/q8/format.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

constexpr int kIq2Offset = 64;     // magnitudes up to 43
constexpr int kIq3XxsOffset = 64;  // up to 62
constexpr int kIq3SOffset = 16;    // up to 15
constexpr int kIq1Offset = 16;     // 8 * value +- 1: -9 to 9
constexpr int kIq4Offset = 128;    // -127 to 113

inline void store_iq2_codes(uint8_t* to, uint64_t run0, uint64_t run1, uint32_t signs) {
  store_codes(to, signed_codes(codes_of(run0, run1), mask_of_bits(signs), kIq2Offset));
}

// (0.5 + s) * 0.25 = (2s + 1) / 8
inline void unpack_iq2_xxs(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.125f;
  const uint8_t* group = block + 2;
  for (int g = 0; g < 8; g++, group += 8) {
    const uint32_t b = u32_at(group + 4);
    out.scales[2 * g] = out.scales[2 * g + 1] = static_cast<int16_t>(2 * (b >> 28) + 1);
    const uint32_t signs01 = quant::kSigns7[b & 127] | quant::kSigns7[b >> 7 & 127] << 8;
    const uint32_t signs23 = quant::kSigns7[b >> 14 & 127] | quant::kSigns7[b >> 21 & 127] << 8;
    store_iq2_codes(out.codes + 32 * g, quant::kIq2Xxs[group[0]], quant::kIq2Xxs[group[1]], signs01);
    store_iq2_codes(out.codes + 32 * g + 16, quant::kIq2Xxs[group[2]], quant::kIq2Xxs[group[3]], signs23);
  }
}

inline void unpack_iq2_xs(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.125f;
  for (int pair = 0; pair < 16; pair++) {
    const uint32_t w0 = u16_at(block + 2 + 4 * pair), w1 = u16_at(block + 4 + 4 * pair);
    const uint32_t s = block[66 + pair / 2] >> (pair % 2 * 4) & 15;
    out.scales[pair] = static_cast<int16_t>(2 * s + 1);
    const uint32_t signs = quant::kSigns7[w0 >> 9] | quant::kSigns7[w1 >> 9] << 8;
    store_iq2_codes(out.codes + 16 * pair, quant::kIq2Xs[w0 & 511], quant::kIq2Xs[w1 & 511], signs);
  }
}

inline void unpack_iq2_s(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.125f;
  for (int pair = 0; pair < 16; pair++) {
    const uint32_t upper = block[66 + pair / 2] >> (pair % 2 * 4);
    const uint32_t i0 = block[2 + 2 * pair] | (upper & 3) << 8;
    const uint32_t i1 = block[3 + 2 * pair] | (upper & 12) << 6;
    const uint32_t s = block[74 + pair / 2] >> (pair % 2 * 4) & 15;
    out.scales[pair] = static_cast<int16_t>(2 * s + 1);
    store_iq2_codes(out.codes + 16 * pair, quant::kIq2S[i0], quant::kIq2S[i1], u16_at(block + 34 + 2 * pair));
  }
}

// (0.5 + s) * 0.5 = (2s + 1) / 4
inline void unpack_iq3_xxs(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.25f;
  for (int g = 0; g < 8; g++) {
    const uint32_t u = u32_at(block + 66 + 4 * g);
    out.scales[2 * g] = out.scales[2 * g + 1] = static_cast<int16_t>(2 * (u >> 28) + 1);
    for (int half = 0; half < 2; half++) {
      const uint8_t* qs = block + 2 + 8 * g + 4 * half;
      const Codes magnitudes =
          codes_of(quant::kIq3Xxs[qs[0]], quant::kIq3Xxs[qs[1]], quant::kIq3Xxs[qs[2]], quant::kIq3Xxs[qs[3]]);
      const uint32_t sevens = u >> (14 * half);
      const uint32_t signs = quant::kSigns7[sevens & 127] | quant::kSigns7[sevens >> 7 & 127] << 8;
      store_codes(out.codes + 32 * g + 16 * half, signed_codes(magnitudes, mask_of_bits(signs), kIq3XxsOffset));
    }
  }
}

inline void unpack_iq3_s(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block);
  for (int g = 0; g < 8; g++) {
    const uint32_t s = block[106 + g / 2] >> (g % 2 * 4) & 15;
    out.scales[2 * g] = out.scales[2 * g + 1] = static_cast<int16_t>(2 * s + 1);
    for (int half = 0; half < 2; half++) {
      const uint8_t* qs = block + 2 + 8 * g + 4 * half;
      const uint32_t ninth = static_cast<uint32_t>(block[66 + g]) >> (4 * half);
      const Codes magnitudes = codes_of(quant::kIq3S[qs[0] | (ninth & 1) << 8], quant::kIq3S[qs[1] | (ninth & 2) << 7],
                                        quant::kIq3S[qs[2] | (ninth & 4) << 6], quant::kIq3S[qs[3] | (ninth & 8) << 5]);
      const uint32_t signs = u16_at(block + 74 + 4 * g + 2 * half);
      store_codes(out.codes + 32 * g + 16 * half, signed_codes(magnitudes, mask_of_bits(signs), kIq3SOffset));
    }
  }
}

// Codes 8 * value +- 1 of two runs of eight; the mask keeps a byte's bits out of the next one.
inline void store_iq1_codes(uint8_t* to, uint64_t run0, uint64_t run1, Codes shifts) {
  const Codes eighths = shifted_left(codes_of(run0, run1) & splat(0x1F), 3);
  store_codes(to, eighths + shifts + splat(kIq1Offset));
}

inline void unpack_iq1_s(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.125f;
  for (int g = 0; g < 8; g++) {
    const uint8_t* qs = block + 2 + 4 * g;
    const uint32_t w = u16_at(block + 34 + 2 * g);
    out.scales[2 * g] = out.scales[2 * g + 1] = static_cast<int16_t>(2 * (w >> 12 & 7) + 1);
    const uint64_t shift = iq1_shift(w >> 15 != 0);
    const uint64_t run0 = quant::kIq1[qs[0] | (w & 7) << 8], run1 = quant::kIq1[qs[1] | (w >> 3 & 7) << 8];
    const uint64_t run2 = quant::kIq1[qs[2] | (w >> 6 & 7) << 8], run3 = quant::kIq1[qs[3] | (w >> 9 & 7) << 8];
    store_iq1_codes(out.codes + 32 * g, run0, run1, codes_of(shift, shift));
    store_iq1_codes(out.codes + 32 * g + 16, run2, run3, codes_of(shift, shift));
  }
}

inline void unpack_iq1_m(const uint8_t* block, const SuperPanel& out) {
  uint32_t c[4];
  for (int i = 0; i < 4; i++) c[i] = u16_at(block + 48 + 2 * i);
  *out.d = f16_value(static_cast<uint16_t>(c[0] >> 12 | (c[1] >> 12) << 4 | (c[2] >> 12) << 8 | (c[3] >> 12) << 12)) *
           0.125f;
  for (int pair = 0; pair < 16; pair++) {
    out.scales[pair] = static_cast<int16_t>(2 * (c[pair / 4] >> (pair % 4 * 3) & 7) + 1);
    const uint32_t nibbles = block[32 + pair];
    const uint64_t run0 = quant::kIq1[block[2 * pair] | (nibbles & 7) << 8];
    const uint64_t run1 = quant::kIq1[block[2 * pair + 1] | (nibbles >> 4 & 7) << 8];
    store_iq1_codes(out.codes + 16 * pair, run0, run1,
                    codes_of(iq1_shift((nibbles & 8) != 0), iq1_shift((nibbles & 128) != 0)));
  }
}

inline void unpack_iq4_xs(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block);
  const int upper = u16_at(block + 2);
  for (int g = 0; g < 8; g++) {
    const int bits = (block[4 + g / 2] >> (g % 2 * 4) & 15) | (upper >> (2 * g) & 3) << 4;
    out.scales[2 * g] = out.scales[2 * g + 1] = static_cast<int16_t>(bits - 32);
    const Codes qs = load_codes(block + 8 + 16 * g);
    store_codes(out.codes + 32 * g, lookup(quant::kIq4nl, low_nibbles(qs)) ^ splat(0x80));
    store_codes(out.codes + 32 * g + 16, lookup(quant::kIq4nl, high_nibbles(qs)) ^ splat(0x80));
  }
}

constexpr Q8Format kQ8IqFormats[] = {
    super_format<66, unpack_iq2_xxs>(quant::Type::IQ2_XXS, kIq2Offset),
    super_format<74, unpack_iq2_xs>(quant::Type::IQ2_XS, kIq2Offset),
    super_format<82, unpack_iq2_s>(quant::Type::IQ2_S, kIq2Offset),
    super_format<98, unpack_iq3_xxs>(quant::Type::IQ3_XXS, kIq3XxsOffset),
    super_format<110, unpack_iq3_s>(quant::Type::IQ3_S, kIq3SOffset),
    super_format<50, unpack_iq1_s>(quant::Type::IQ1_S, kIq1Offset),
    super_format<56, unpack_iq1_m>(quant::Type::IQ1_M, kIq1Offset),
    super_format<136, unpack_iq4_xs>(quant::Type::IQ4_XS, kIq4Offset, false, true),
};

}  // namespace strata::kernels::STRATA_ISA_NS
