// Fused products of TQ1_0; the layout is described beside its decoder in quant/decode/ternary.inl.h.
#pragma once

#include "kernels/cpu/q8/fused/four_rows.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

struct FusedTq10 {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 54;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kOffset;

  // A factor for each sixteen bytes.
  static __m512i factors(int16_t a, int16_t b, int16_t c, int16_t d) {
    const auto two = [](int16_t first, int16_t second) {
      return _mm256_set_m128i(_mm_set1_epi16(second), _mm_set1_epi16(first));
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(two(a, b)), two(c, d), 1);
  }

  // Bytes times the factor of the 16 bits that they are in, modulo 256.
  static __m512i times(__m512i bytes, __m512i factor) {
    const __m512i upper = _mm512_set1_epi16(static_cast<int16_t>(0xFF00));
    const __m512i even = _mm512_mullo_epi16(bytes, factor);
    const __m512i odd = _mm512_mullo_epi16(_mm512_and_si512(bytes, upper), factor);
    return _mm512_ternarylogic_epi32(upper, odd, even, 0xCA);
  }

  // sums + products of the leading base-3 digits of x / 256.
  static __m512i add_digits(__m512i sums, __m512i x, const int8_t* a) {
    const __m512i one = _mm512_set1_epi8(1);
    const __mmask64 some = _mm512_cmpge_epu8_mask(x, _mm512_set1_epi8(86));
    const __mmask64 two = _mm512_cmpge_epu8_mask(x, _mm512_set1_epi8(static_cast<char>(171)));
    const __m512i digits = _mm512_maskz_mov_epi8(some, one);
    return add_dot4(sums, _mm512_mask_add_epi8(digits, two, digits, one), load512(a));
  }

  static __m512i row(const uint8_t* block, const FusedAct& a) {
    const __m512i first = broadcast256(block), last = broadcast128(block + 32);  // 32 bytes twice, 16 four times
    const __m512i both = _mm512_mask_mov_epi64(last, 0x0F, first);
    const __m512i end = _mm512_mask_set1_epi32(last, 0xF000, static_cast<int>(u32_at(block + 48)));
    const __m512i powers = _mm512_mask_mov_epi32(
        factors(9, 27, 81, 0), 0xF000,
        _mm512_set_epi32(27 << 16 | 27, 9 << 16 | 9, 3 << 16 | 3, 1 << 16 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    __m512i sums = add_digits(_mm512_setzero_si512(), times(first, factors(1, 1, 3, 3)), a.codes);
    sums = add_digits(sums, times(first, factors(9, 9, 27, 27)), a.codes + 64);
    sums = add_digits(sums, times(both, factors(81, 81, 1, 3)), a.codes + 128);
    return add_digits(sums, times(end, powers), a.codes + 192);
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) sums[r] = row(rows.at[r], a);
    const __m128i isums = _mm_add_epi32(add_lanes(add_rows(sums)), broadcast_sum(a));
    return add_scaled(y, isums, _mm_mul_ps(four_f16(rows, 52), _mm_set1_ps(*a.d)));
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
