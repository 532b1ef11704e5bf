// Fused products of Q2_K to Q6_K; the layouts are described beside their decoders in quant/decode/k.inl.h.
#pragma once

#include "kernels/cpu/q8/fused/four_rows.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// Sixteen int16 lanes of `first`, then sixteen of `second`.
inline __m512i words_index(int first, int second) {
  return _mm512_inserti64x4(_mm512_set1_epi16(static_cast<int16_t>(first)),
                            _mm256_set1_epi16(static_cast<int16_t>(second)), 1);
}

// Eight int16 lanes of each of four neighbours.
inline __m512i four_groups(int first) {
  const __m512i eighths =
      _mm512_set_epi16(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  return _mm512_add_epi16(eighths, _mm512_set1_epi16(static_cast<int16_t>(first)));
}

template <bool kFive>
struct FusedK4 {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = kFive ? 176 : 144;
  static constexpr ActOrder kOrder = kNibbles32Order;
  static constexpr FusedSums kSums = FusedSums::kMins32;

  // Scales and mins of eight groups, four rows: bytes 16 * r on are scales 0-3, mins 0-3, scales 4-7, mins 4-7.
  static __m512i group_scales(__m512i heads) {
    const __m512i first = _mm512_shuffle_epi32(heads, _MM_PERM_DDCB);   // words 0, 1, 2, 2 behind d and dmin
    const __m512i second = _mm512_shuffle_epi32(heads, _MM_PERM_CBCB);  // words 0, 1, 0, 1
    const __m512i low = _mm512_srlv_epi32(first, broadcast_dwords(0, 0, 0, 4));
    const __m512i high = _mm512_srlv_epi32(second, broadcast_dwords(0, 0, 2, 2));
    const __m512i low_bits = broadcast_dwords(0x3F3F3F3F, 0x3F3F3F3F, 0x0F0F0F0F, 0x0F0F0F0F);
    const __m512i high_bits = broadcast_dwords(0, 0, 0x30303030, 0x30303030);
    return _mm512_ternarylogic_epi32(_mm512_and_si512(low, low_bits), high, high_bits, 0xF8);
  }
  static __m512i broadcast_dwords(int a, int b, int c, int d) {
    return _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_setr_epi32(a, b, c, d));
  }

  // Codes of half h of a block: groups 4h and 4h + 2, then 4h + 1 and 4h + 3.
  static void codes(const uint8_t* block, __m512i fifth, int h, __m512i& even, __m512i& odd) {
    const __m512i qs = load512(block + (kFive ? 48 : 16) + 64 * h);
    even = low_nibbles(qs);
    odd = high_nibbles(qs);
    if constexpr (kFive) {
      // Bit g of a byte is the fifth bit of group g; it moves to bit 4.
      const __m512i bit = _mm512_set1_epi8(16);
      if (h == 0) {
        even = _mm512_ternarylogic_epi32(even, _mm512_sllv_epi16(fifth, words_index(4, 2)), bit, 0xF8);
        odd = _mm512_ternarylogic_epi32(odd, _mm512_sllv_epi16(fifth, words_index(3, 1)), bit, 0xF8);
      } else {
        even = _mm512_ternarylogic_epi32(even, _mm512_srlv_epi16(fifth, words_index(0, 2)), bit, 0xF8);
        odd = _mm512_ternarylogic_epi32(odd, _mm512_srlv_epi16(fifth, words_index(1, 3)), bit, 0xF8);
      }
    }
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m512i heads = four_quarters(rows, 0);
    const __m512i scales = group_scales(heads);
    const __m512i words[2] = {_mm512_unpacklo_epi8(scales, _mm512_setzero_si512()),
                              _mm512_unpackhi_epi8(scales, _mm512_setzero_si512())};
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      __m512i fifth = _mm512_setzero_si512();
      if constexpr (kFive) fifth = broadcast256(rows.at[r] + 16);
      sums[r] = _mm512_setzero_si512();
      for (int h = 0; h < 2; h++) {
        __m512i even, odd;
        codes(rows.at[r], fifth, h, even, odd);
        const __m512i even_scales = _mm512_permutexvar_epi16(words_index(8 * r, 8 * r + 2), words[h]);
        const __m512i odd_scales = _mm512_permutexvar_epi16(words_index(8 * r + 1, 8 * r + 3), words[h]);
        sums[r] = add_pairs(sums[r], _mm512_maddubs_epi16(even, load512(a.codes + 128 * h)), even_scales);
        sums[r] = add_pairs(sums[r], _mm512_maddubs_epi16(odd, load512(a.codes + 128 * h + 64)), odd_scales);
      }
    }
    // Words 4 to 7 of each row are mins, before them zeros: lanes 2 and 3 of each four have sums.
    __m512i mins = add_pairs(_mm512_setzero_si512(), words[0], broadcast128(a.sums));
    mins = add_pairs(mins, words[1], broadcast128(a.sums + 16));
    mins = _mm512_add_epi32(mins, _mm512_shuffle_epi32(mins, _MM_PERM_CDAB));
    const __m512i third = _mm512_castsi128_si512(_mm_setr_epi32(2, 6, 10, 14));
    const __m128i msums = _mm512_castsi512_si128(_mm512_maskz_permutexvar_epi32(0xFFFF, third, mins));
    const __m512i halves =
        _mm512_permutexvar_epi16(_mm512_castsi128_si512(_mm_setr_epi16(0, 8, 16, 24, 1, 9, 17, 25)), heads);
    const __m256 d = _mm256_mul_ps(_mm256_cvtph_ps(_mm512_castsi512_si128(halves)), _mm256_broadcast_ss(a.d));
    y = add_scaled(y, add_lanes(add_rows(sums)), _mm256_castps256_ps128(d));
    return _mm_fnmadd_ps(_mm_cvtepi32_ps(msums), _mm256_extractf128_ps(d, 1), y);
  }
};

struct FusedQ6K {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 210;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kNegated16;

  static __m512i row(const uint8_t* block, const FusedAct& a) {
    const __m512i nibble = _mm512_set1_epi8(15), upper = _mm512_set1_epi8(0x3F);
    const __m256i narrow = _mm256_cvtepi8_epi16(load128(block + 192));
    const __m512i scales = _mm512_zextsi256_si512(narrow);
    // The codes are 32 more than what they stand for.
    __m512i acc = add_pairs(_mm512_setzero_si512(), _mm512_zextsi256_si512(_mm256_slli_epi16(narrow, 5)),
                            _mm512_zextsi256_si512(load256(a.sums)));
    for (int h = 0; h < 2; h++) {
      const __m512i ql = load512(block + 64 * h);
      const __m512i qh = broadcast256(block + 128 + 32 * h);
      // nibble ? first : second, then six bits
      const __m512i low = _mm512_ternarylogic_epi32(nibble, ql, _mm512_sllv_epi16(qh, words_index(4, 2)), 0xCA);
      const __m512i high =
          _mm512_ternarylogic_epi32(nibble, _mm512_srli_epi16(ql, 4), _mm512_srlv_epi16(qh, words_index(0, 2)), 0xCA);
      for (int k = 0; k < 2; k++) {
        const __m512i codes = _mm512_and_si512(k == 0 ? low : high, upper);
        acc = add_pairs(acc, _mm512_maddubs_epi16(codes, load512(a.codes + 128 * h + 64 * k)),
                        _mm512_permutexvar_epi16(four_groups(8 * h + 4 * k), scales));
      }
    }
    return acc;
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) sums[r] = row(rows.at[r], a);
    return add_scaled(y, add_lanes(add_rows(sums)), _mm_mul_ps(four_f16(rows, 208), _mm_set1_ps(*a.d)));
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
