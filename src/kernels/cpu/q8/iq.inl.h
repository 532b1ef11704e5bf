// The codebook types unpacked; the layouts are described beside their decoders in quant/decode/iq*.inl.h. Signed values
// become unsigned codes by an offset; fractions of the scale go into d.
#pragma once

#include "kernels/cpu/q8/format.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

constexpr int kIq2Offset = 64;     // magnitudes up to 43
constexpr int kIq3XxsOffset = 64;  // up to 62
constexpr int kIq3SOffset = 16;    // up to 15
constexpr int kIq1Offset = 9;      // 8 * value +- 1: -9 to 9
constexpr int kIq4Offset = 128;    // -127 to 113

#if defined(__AVX2__)
// 32 magnitudes with 32 signs, as codes.
inline void store_signed(uint8_t* to, __m256i magnitudes, uint32_t signs, int offset) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const __m256i zero = _mm256_set1_epi8(static_cast<char>(offset));
  store256(to, _mm256_mask_sub_epi8(_mm256_add_epi8(zero, magnitudes), signs, zero, magnitudes));
#else
  store_codes(to, signed_codes({_mm256_castsi256_si128(magnitudes)}, mask_of_bits(signs), offset));
  store_codes(to + 16, signed_codes({_mm256_extracti128_si256(magnitudes, 1)}, mask_of_bits(signs >> 16), offset));
#endif
}
#endif

// Four runs of eight magnitudes with 32 signs, as codes.
inline void store_signed_runs(uint8_t* to, const uint64_t (&runs)[4], uint32_t signs, int offset) {
#if defined(__AVX2__)
  const auto run = [&](int k) { return static_cast<int64_t>(runs[k]); };
  store_signed(to, _mm256_set_epi64x(run(3), run(2), run(1), run(0)), signs, offset);
#else
  store_codes(to, signed_codes(codes_of(runs[0], runs[1]), mask_of_bits(signs), offset));
  store_codes(to + 16, signed_codes(codes_of(runs[2], runs[3]), mask_of_bits(signs >> 16), offset));
#endif
}

// The 32 signs of four 7-bit fields.
inline uint32_t four_signs7(uint32_t b) {
  return uint32_t{quant::kSigns7[b & 127]} | uint32_t{quant::kSigns7[b >> 7 & 127]} << 8 |
         uint32_t{quant::kSigns7[b >> 14 & 127]} << 16 | uint32_t{quant::kSigns7[b >> 21 & 127]} << 24;
}

// (0.5 + s) * 0.25 = (2s + 1) / 8
inline void unpack_iq2_xxs(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.125f;
  const uint8_t* group = block + 2;
  for (int g = 0; g < 8; g++, group += 8) {
    const uint32_t b = u32_at(group + 4);
    out.scales[2 * g] = out.scales[2 * g + 1] = static_cast<int16_t>(2 * (b >> 28) + 1);
    const uint64_t runs[4] = {quant::kIq2Xxs[group[0]], quant::kIq2Xxs[group[1]], quant::kIq2Xxs[group[2]],
                              quant::kIq2Xxs[group[3]]};
    store_signed_runs(out.codes + 32 * g, runs, four_signs7(b), kIq2Offset);
  }
}

// Scales 2s + 1 of the nibbles s of eight bytes, a nibble per 16 codes.
inline void store_nibble_scales(int16_t* to, const uint8_t* bytes) {
  uint64_t packed;
  std::memcpy(&packed, bytes, sizeof packed);
  const __m128i x = _mm_cvtsi64_si128(static_cast<int64_t>(packed));
  const Codes nibbles = low_nibbles({_mm_unpacklo_epi8(x, _mm_srli_epi16(x, 4))});
  store_scales(to, nibbles + nibbles + splat(1));
}

inline void unpack_iq2_xs(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.125f;
  store_nibble_scales(out.scales, block + 66);
  for (int g = 0; g < 8; g++) {
    uint64_t runs[4];
    uint32_t signs = 0;
    for (int k = 0; k < 4; k++) {
      const uint32_t w = u16_at(block + 2 + 8 * g + 2 * k);
      runs[k] = quant::kIq2Xs[w & 511];
      signs |= uint32_t{quant::kSigns7[w >> 9]} << (8 * k);
    }
    store_signed_runs(out.codes + 32 * g, runs, signs, kIq2Offset);
  }
}

inline void unpack_iq2_s(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.125f;
  store_nibble_scales(out.scales, block + 74);
  for (int g = 0; g < 8; g++) {
    const uint8_t* low = block + 2 + 4 * g;
    const uint32_t upper = block[66 + g];
    const uint64_t runs[4] = {quant::kIq2S[low[0] | (upper & 3) << 8], quant::kIq2S[low[1] | (upper & 12) << 6],
                              quant::kIq2S[low[2] | (upper & 48) << 4], quant::kIq2S[low[3] | (upper & 192) << 2]};
    store_signed_runs(out.codes + 32 * g, runs, u32_at(block + 34 + 4 * g), kIq2Offset);
  }
}

// The quadruples of magnitudes that eight indices choose, with 32 signs, as codes. Bit k of `ninth` is bit 8 of index
// k.
inline void store_signed_quads(uint8_t* to, const uint32_t* table, const uint8_t* low, uint32_t ninth, uint32_t signs,
                               int offset) {
#if defined(__AVX2__)
  const __m256i places = _mm256_set_epi32(1, 2, 3, 4, 5, 6, 7, 8);
  const __m256i upper =
      _mm256_and_si256(_mm256_sllv_epi32(_mm256_set1_epi32(static_cast<int>(ninth)), places), _mm256_set1_epi32(256));
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(low));
  const __m256i index = _mm256_or_si256(_mm256_cvtepu8_epi32(bytes), upper);
  const __m256i all = _mm256_set1_epi32(-1);
  store_signed(to,
               _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), reinterpret_cast<const int*>(table), index, all, 4),
               signs, offset);
#else
  uint32_t quads[8];
  for (int k = 0; k < 8; k++) quads[k] = table[low[k] | (ninth << (8 - k) & 256)];
  store_codes(to, signed_codes(codes_of(quads[0], quads[1], quads[2], quads[3]), mask_of_bits(signs), offset));
  store_codes(to + 16,
              signed_codes(codes_of(quads[4], quads[5], quads[6], quads[7]), mask_of_bits(signs >> 16), offset));
#endif
}

// (0.5 + s) * 0.5 = (2s + 1) / 4
inline void unpack_iq3_xxs(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block) * 0.25f;
  for (int g = 0; g < 8; g++) {
    const uint32_t u = u32_at(block + 66 + 4 * g);
    out.scales[2 * g] = out.scales[2 * g + 1] = static_cast<int16_t>(2 * (u >> 28) + 1);
    store_signed_quads(out.codes + 32 * g, quant::kIq3Xxs, block + 2 + 8 * g, 0, four_signs7(u), kIq3XxsOffset);
  }
}

inline void unpack_iq3_s(const uint8_t* block, const SuperPanel& out) {
  *out.d = f16_at(block);
  for (int g = 0; g < 8; g++) {
    const uint32_t s = block[106 + g / 2] >> (g % 2 * 4) & 15;
    out.scales[2 * g] = out.scales[2 * g + 1] = static_cast<int16_t>(2 * s + 1);
    store_signed_quads(out.codes + 32 * g, quant::kIq3S, block + 2 + 8 * g, block[66 + g], u32_at(block + 74 + 4 * g),
                       kIq3SOffset);
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
    super_format<66, unpack_iq2_xxs>(quant::Type::IQ2_XXS, kIq2Offset, kIq2Offset + 43),
    super_format<74, unpack_iq2_xs>(quant::Type::IQ2_XS, kIq2Offset, kIq2Offset + 43),
    super_format<82, unpack_iq2_s>(quant::Type::IQ2_S, kIq2Offset, kIq2Offset + 43),
    super_format<98, unpack_iq3_xxs>(quant::Type::IQ3_XXS, kIq3XxsOffset, kIq3XxsOffset + 62),
    super_format<110, unpack_iq3_s>(quant::Type::IQ3_S, kIq3SOffset, kIq3SOffset + 15),
    super_format<50, unpack_iq1_s>(quant::Type::IQ1_S, kIq1Offset, kIq1Offset + 9),
    super_format<56, unpack_iq1_m>(quant::Type::IQ1_M, kIq1Offset, kIq1Offset + 9),
    super_format<136, unpack_iq4_xs>(quant::Type::IQ4_XS, kIq4Offset, kIq4Offset + 113),
};

}  // namespace strata::kernels::STRATA_ISA_NS
