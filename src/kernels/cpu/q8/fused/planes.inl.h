// Fused products of the types with two bits of a code in planes: Q2_K, Q3_K and TQ2_0; the layouts are described beside
// their decoders in quant/decode: k and ternary.
#pragma once

#include "kernels/cpu/q8/fused/k.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// The two bits of columns 128 * h + 64 * k on of a super-block: planes 2 * k and 2 * k + 1 of 32 bytes.
inline __m512i plane_pair(const uint8_t* qs, int h, int k) {
  const __m512i both = broadcast256(qs + 32 * h);
#if defined(__GFNI__)
  static constexpr Matrices kPlanes[2] = {two_matrices({{1, 2}}, {{4, 8}}), two_matrices({{16, 32}}, {{64, 128}})};
  return _mm512_gf2p8affine_epi64_epi8(both, load512(kPlanes[k].at), 0);
#else
  return _mm512_and_si512(_mm512_srlv_epi16(both, words_index(4 * k, 4 * k + 2)), _mm512_set1_epi8(3));
#endif
}

// Lane r of each four lanes' sum.
inline __m128i sum_in_rows(__m512i x) {
  x = _mm512_add_epi32(x, _mm512_shuffle_epi32(x, _MM_PERM_BADC));
  x = _mm512_add_epi32(x, _mm512_shuffle_epi32(x, _MM_PERM_CDAB));
  const __m512i fourths = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
  return _mm512_castsi512_si128(_mm512_maskz_permutexvar_epi32(0xFFFF, fourths, x));
}

struct FusedQ2K {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 84;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kPlain16;

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i heads = four_quarters(rows, 0);
    const __m512i scales = low_nibbles(heads), mins = high_nibbles(heads);
    __m512i sums[kFusedRows] = {zero, zero, zero, zero};
    for (int h = 0; h < 2; h++) {
      const __m512i words = h == 0 ? _mm512_unpacklo_epi8(scales, zero) : _mm512_unpackhi_epi8(scales, zero);
      for (int r = 0; r < kFusedRows; r++) {
        for (int k = 0; k < 2; k++) {
          const __m512i pairs =
              _mm512_maddubs_epi16(plane_pair(rows.at[r] + 16, h, k), load512(a.codes + 128 * h + 64 * k));
          sums[r] = add_pairs(sums[r], pairs, four_words(8 * r + 4 * k, words));
        }
      }
    }
    __m512i msums = add_pairs(zero, _mm512_unpacklo_epi8(mins, zero), broadcast128(a.sums));
    msums = add_pairs(msums, _mm512_unpackhi_epi8(mins, zero), broadcast128(a.sums + 16));
    const __m256 d = scales_and_mins(four_u32(rows, 80), a);
    y = add_scaled(y, add_lanes(add_rows(sums)), _mm256_castps256_ps128(d));
    return _mm_fnmadd_ps(_mm_cvtepi32_ps(sum_in_rows(msums)), _mm256_extractf128_ps(d, 1), y);
  }
};

struct FusedQ3K {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 110;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kNegated16;

  // Sixteen signed scales of each row.
  static __m512i scales(const FourRows& rows) {
    const __m512i heads = four_quarters(rows, 94);  // two bytes, 12 of scales, d
    const auto bytes = [&](int8_t a, int8_t b, int8_t c, int8_t d) {
      const auto four = [](int8_t i) { return 0x03020100 + 0x01010101 * i; };
      return _mm512_shuffle_epi8(
          heads, _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_setr_epi32(four(a), four(b), four(c), four(d))));
    };
    // Nibbles of eight bytes, then their upper ones; two bits of four bytes, then the next two and so on.
    const __m512i four =
        _mm512_srlv_epi32(bytes(2, 6, 2, 6), _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_setr_epi32(0, 0, 4, 4)));
    const __m512i two =
        _mm512_rolv_epi32(bytes(10, 10, 10, 10), _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_setr_epi32(4, 2, 0, 30)));
    const __m512i six =
        _mm512_ternarylogic_epi32(_mm512_and_si512(four, _mm512_set1_epi8(15)), two, _mm512_set1_epi8(0x30), 0xF8);
    return _mm512_sub_epi8(six, _mm512_set1_epi8(32));
  }

  // Bits 4 * h + 2 * k, then 4 * h + 2 * k + 1 of 32 bytes as the third of codes.
  static __m512i third_bits(__m512i bits, int h, int k) {
    const int first = 4 * h + 2 * k;
    return first == 0 ? _mm512_sllv_epi16(bits, words_index(2, 1))
                      : _mm512_srlv_epi16(bits, words_index(first - 2, first - 1));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m512i bytes = scales(rows);
    const __m512i words[2] = {_mm512_srai_epi16(_mm512_unpacklo_epi8(bytes, bytes), 8),
                              _mm512_srai_epi16(_mm512_unpackhi_epi8(bytes, bytes), 8)};
    // The codes are 4 more than what they stand for.
    __m512i offsets = add_pairs(_mm512_setzero_si512(), words[0], broadcast128(a.sums));
    offsets = _mm512_slli_epi32(add_pairs(offsets, words[1], broadcast128(a.sums + 16)), 2);
    const __m512i third = _mm512_set1_epi8(4);
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      const __m512i bits = broadcast256(rows.at[r]);
      sums[r] = _mm512_maskz_mov_epi32(static_cast<__mmask16>(15 << 4 * r), offsets);
      for (int h = 0; h < 2; h++) {
        for (int k = 0; k < 2; k++) {
          // two bits, or the third bit
          const __m512i codes =
              _mm512_ternarylogic_epi32(plane_pair(rows.at[r] + 32, h, k), third_bits(bits, h, k), third, 0xF8);
          sums[r] = add_pairs(sums[r], _mm512_maddubs_epi16(codes, load512(a.codes + 128 * h + 64 * k)),
                              four_words(8 * r + 4 * k, words[h]));
        }
      }
    }
    return add_scaled(y, add_lanes(add_rows(sums)), _mm_mul_ps(four_f16(rows, 108), _mm_set1_ps(*a.d)));
  }
};

struct FusedTq20 {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 66;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kOffset;

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      sums[r] = _mm512_setzero_si512();
      for (int h = 0; h < 2; h++) {
        for (int k = 0; k < 2; k++) {
          sums[r] = add_dot4(sums[r], plane_pair(rows.at[r], h, k), load512(a.codes + 128 * h + 64 * k));
        }
      }
    }
    const __m128i isums = _mm_add_epi32(add_lanes(add_rows(sums)), broadcast_sum(a));
    return add_scaled(y, isums, _mm_mul_ps(four_f16(rows, 64), _mm_set1_ps(*a.d)));
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
