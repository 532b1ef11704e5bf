// The types with a float scale per 16 or 32 codes unpacked; the layouts are described beside their decoders in
// quant/decode: blocks32, iq4, fp4 and bits.
#pragma once

#include "kernels/cpu/q8/format.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

inline void unpack_q4_0(const uint8_t* block, const BlockPanel& out) {
  *out.d = f16_at(block);
  const Codes qs = load_codes(block + 2);
  store_codes(out.codes, low_nibbles(qs));
  store_codes(out.codes + 16, high_nibbles(qs));
}

inline void unpack_q4_1(const uint8_t* block, const BlockPanel& out) {
  *out.d = f16_at(block);
  *out.m = f16_at(block + 2);
  const Codes qs = load_codes(block + 4);
  store_codes(out.codes, low_nibbles(qs));
  store_codes(out.codes + 16, high_nibbles(qs));
}

inline void store_five_bits(uint8_t* to, uint32_t qh, Codes qs) {
  store_codes(to, low_nibbles(qs) | (mask_of_bits(qh) & splat(16)));
  store_codes(to + 16, high_nibbles(qs) | (mask_of_bits(qh >> 16) & splat(16)));
}

inline void unpack_q5_0(const uint8_t* block, const BlockPanel& out) {
  *out.d = f16_at(block);
  store_five_bits(out.codes, u32_at(block + 2), load_codes(block + 6));
}

inline void unpack_q5_1(const uint8_t* block, const BlockPanel& out) {
  *out.d = f16_at(block);
  *out.m = f16_at(block + 2);
  store_five_bits(out.codes, u32_at(block + 4), load_codes(block + 8));
}

inline void unpack_q8_0(const uint8_t* block, const BlockPanel& out) {
  *out.d = f16_at(block);
  store_codes(out.codes, load_codes(block + 2) ^ splat(0x80));
  store_codes(out.codes + 16, load_codes(block + 18) ^ splat(0x80));
}

inline void unpack_iq4_nl(const uint8_t* block, const BlockPanel& out) {
  *out.d = f16_at(block);
  const Codes qs = load_codes(block + 2);
  store_codes(out.codes, lookup(quant::kIq4nl, low_nibbles(qs)) ^ splat(0x80));
  store_codes(out.codes + 16, lookup(quant::kIq4nl, high_nibbles(qs)) ^ splat(0x80));
}

constexpr int kFp4Offset = 12;  // twice the E2M1 values: -12 to 12

inline Codes fp4_codes(Codes nibbles) { return lookup(quant::kFp4X2, nibbles) + splat(kFp4Offset); }

inline void unpack_mxfp4(const uint8_t* block, const BlockPanel& out) {
  *out.d = half_e8m0(block[0]);
  const Codes qs = load_codes(block + 1);
  store_codes(out.codes, fp4_codes(low_nibbles(qs)));
  store_codes(out.codes + 16, fp4_codes(high_nibbles(qs)));
}

inline void unpack_nvfp4(const uint8_t* block, const BlockPanel& out) {
  for (int pair = 0; pair < 2; pair++) {
    const Codes qs = load_codes(block + 4 + 16 * pair);
    const __m128i low = low_nibbles(qs).v, high = high_nibbles(qs).v;
    store_codes(out.codes + 32 * pair, fp4_codes({_mm_unpacklo_epi64(low, high)}));
    store_codes(out.codes + 32 * pair + 16, fp4_codes({_mm_unpackhi_epi64(low, high)}));
  }
  for (int g = 0; g < 4; g++) out.d[g * out.d_stride] = half_ue4m3(block[g]);
}

// Codes 0 and 2 for -1 and 1.
inline void unpack_q1_0(const uint8_t* block, const BlockPanel& out) {
  const float d = f16_at(block);
  for (int word = 0; word < 4; word++) {
    const uint32_t bits = u32_at(block + 2 + 4 * word);
    store_codes(out.codes + 32 * word, mask_of_bits(bits) & splat(2));
    store_codes(out.codes + 32 * word + 16, mask_of_bits(bits >> 16) & splat(2));
    out.d[word * out.d_stride] = d;
  }
}

inline void unpack_q2_0(const uint8_t* block, const BlockPanel& out) {
  for (int i = 0; i < 64; i += 16) store_codes(out.codes + i, spread_pairs(u32_at(block + 2 + i / 4)));
  out.d[0] = out.d[out.d_stride] = f16_at(block);
}

constexpr Q8Format kQ8BlockFormats[] = {
    block_format_q8<18, 32, 32, unpack_q4_0>(quant::Type::Q4_0, 8, 15),
    block_format_q8<20, 32, 32, unpack_q4_1>(quant::Type::Q4_1, 0, 15, true),
    block_format_q8<22, 32, 32, unpack_q5_0>(quant::Type::Q5_0, 16, 31),
    block_format_q8<24, 32, 32, unpack_q5_1>(quant::Type::Q5_1, 0, 31, true),
    block_format_q8<34, 32, 32, unpack_q8_0>(quant::Type::Q8_0, 128, 255),
    block_format_q8<18, 32, 32, unpack_iq4_nl>(quant::Type::IQ4_NL, 128, 241),
    block_format_q8<17, 32, 32, unpack_mxfp4>(quant::Type::MXFP4, kFp4Offset, 2 * kFp4Offset),
    block_format_q8<36, 64, 16, unpack_nvfp4>(quant::Type::NVFP4, kFp4Offset, 2 * kFp4Offset),
    block_format_q8<18, 128, 32, unpack_q1_0>(quant::Type::Q1_0, 1, 2),
    block_format_q8<18, 64, 32, unpack_q2_0>(quant::Type::Q2_0, 1, 3),
};

}  // namespace strata::kernels::STRATA_ISA_NS
