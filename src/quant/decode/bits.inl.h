// One and two bits with one scale, neighbouring elements in one byte: Q1_0 (blocks of 128) and Q2_0 (64).
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

// 0: f16 d; 2: qs[16]. Bit i set: +d, clear: -d.
inline void decode_block_q1_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int word = 0; word < 4; word++, out += 32) {
    const uint32_t bits = u32_at(block + 2 + 4 * word);
    store_scaled(out, (mask_of_bits(bits) & splat(2)) - splat(1), d);
    store_scaled(out + 16, (mask_of_bits(bits >> 16) & splat(2)) - splat(1), d);
  }
}

// The sixteen 2-bit codes of four bytes: each byte, alone in a word, is copied to where its pair j lies in byte j.
inline Codes spread_pairs(uint32_t bytes) {
  const __m128i zero = _mm_setzero_si128();
  const __m128i packed = _mm_cvtsi32_si128(static_cast<int>(bytes));
  const __m128i words = _mm_unpacklo_epi16(_mm_unpacklo_epi8(packed, zero), zero);
  const __m128i twice = _mm_or_si128(words, _mm_slli_epi32(words, 12));
  return Codes{_mm_or_si128(twice, _mm_slli_epi32(twice, 6))} & splat(3);
}

// 0: f16 d; 2: qs[16]. d * (q - 1)
inline void decode_block_q2_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int i = 0; i < 64; i += 16) store_scaled(out + i, spread_pairs(u32_at(block + 2 + i / 4)) - splat(1), d);
}

constexpr Format kBitsFormats[] = {
    block_format<128, 18, decode_block_q1_0>(quant::Type::Q1_0, "Q1_0", true, f16_field(0)),
    block_format<64, 18, decode_block_q2_0>(quant::Type::Q2_0, "Q2_0", true, f16_field(0)),
};

}  // namespace STRATA_DECODE_NS
