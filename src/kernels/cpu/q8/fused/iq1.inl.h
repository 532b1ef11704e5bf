// Fused products of IQ1_S and IQ1_M; the layouts are described beside their decoders in quant/decode/iq1.inl.h.
//
// Their codebook of 2048 entries is too large for registers: runs of eight are gathered from it. Values are taken one
// larger, as 0, 1, 2; what that and the shifts by an eighth add is the sum of a run's activations times -8 + 1 or -8 -
// 1 eighths.
#pragma once

#include "kernels/cpu/q8/fused/codebook.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

// Lane 4 * l + k is of the 16 columns 4 * k + l of a super-block: so partial sums of four vectors of 64 columns are
// added up.
struct Iq1Groups {
  __m512i scales;  // 2 * s + 1
  __m512i shifts;  // int16: 2 where a run's shift is -1/8, else 0
};

template <class Type>
struct FusedIq1 {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kRuns;

  static __m512i row(const uint8_t* block, const FusedAct& a) {
    __m512i dots[4];
    for (int k = 0; k < 4; k++) {
      const __m512i values = _mm512_i32gather_epi64(Type::indices(block, k), quant::kIq1, 8);
      dots[k] =
          add_dot4(_mm512_setzero_si512(), _mm512_add_epi8(values, _mm512_set1_epi8(1)), load512(a.codes + 64 * k));
    }
    const __m512i eighths = _mm512_slli_epi32(add_rows(dots), 3);
    const Iq1Groups groups = Type::groups(block);
    const __m512i factors = _mm512_sub_epi16(_mm512_set1_epi16(-7), groups.shifts);
    return _mm512_mullo_epi32(add_pairs(eighths, factors, load512(a.sums)), groups.scales);
  }

  static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) sums[r] = row(rows.at[r], a);
    const __m128 d = _mm_mul_ps(Type::d(rows), _mm_set1_ps(0.125f));
    return add_scaled(y, add_lanes(add_rows(sums)), _mm_mul_ps(d, _mm_set1_ps(*a.d)));
  }
};

// Eight indices: the bytes at `low`, and above them three bits of each lane of `upper` turned left by `turns`.
inline __m256i iq1_indices(const uint8_t* low, __m256i upper, __m256i turns) {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(low)));
  return _mm256_ternarylogic_epi32(bytes, _mm256_rolv_epi32(upper, turns), _mm256_set1_epi32(0x700), 0xF8);
}

struct Iq1S {
  static constexpr size_t kBytes = 50;
  static __m128 d(const FourRows& rows) { return four_f16(rows, 0); }
  static __m256i indices(const uint8_t* block, int k) {
    const __m256i words = _mm256_cvtepu16_epi32(load128(block + 34));
    const __m256i places = _mm256_add_epi32(_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1), _mm256_set1_epi32(2 * k));
    return iq1_indices(block + 2 + 8 * k, _mm256_permutevar8x32_epi32(words, places),
                       _mm256_setr_epi32(8, 5, 2, 31, 8, 5, 2, 31));
  }
  static Iq1Groups groups(const uint8_t* block) {
    // Group 2 * k + l / 2 of 32 columns, twice.
    const __m512i order = _mm512_set_epi32(0x70007, 0x50005, 0x30003, 0x10001, 0x70007, 0x50005, 0x30003, 0x10001,
                                           0x60006, 0x40004, 0x20002, 0, 0x60006, 0x40004, 0x20002, 0);
    const __m512i words = _mm512_permutexvar_epi16(order, _mm512_zextsi128_si512(load128(block + 34)));
    return {_mm512_ternarylogic_epi32(_mm512_srli_epi32(words, 11), _mm512_set1_epi32(14), _mm512_set1_epi32(1), 0xEA),
            _mm512_and_si512(_mm512_srli_epi16(words, 14), _mm512_set1_epi16(2))};
  }
};

struct Iq1M {
  static constexpr size_t kBytes = 56;
  // The bits of d are the upper nibbles of four words.
  static __m128 d(const FourRows& rows) {
    const auto bits = [&](int r) { return _pext_u64(u64_at(rows.at[r] + 48), 0xF000F000F000F000); };
    return _mm_cvtph_ps(
        _mm_cvtsi64_si128(static_cast<int64_t>(bits(0) | bits(1) << 16 | bits(2) << 32 | bits(3) << 48)));
  }
  static __m256i indices(const uint8_t* block, int k) {
    const __m256i nibbles = _mm256_set1_epi32(static_cast<int>(u32_at(block + 32 + 4 * k)));
    return iq1_indices(block + 8 * k, nibbles, _mm256_setr_epi32(8, 4, 0, 28, 24, 20, 16, 12));
  }
  static Iq1Groups groups(const uint8_t* block) {
    // Byte 4 * k + l, of two runs.
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i bytes =
        _mm512_maskz_permutexvar_epi8(0x1111111111111111, order, _mm512_zextsi128_si512(load128(block + 32)));
    const __m512i first = _mm512_and_si512(_mm512_srli_epi32(bytes, 2), _mm512_set1_epi32(2));
    const __m512i second = _mm512_slli_epi32(bytes, 10);
    const __m512i c = _mm512_maskz_broadcast_i32x4(
        0xFFFF, _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 48))));
    const __m512i threes =
        _mm512_rolv_epi32(c, _mm512_set_epi32(24, 24, 24, 24, 27, 27, 27, 27, 30, 30, 30, 30, 1, 1, 1, 1));
    return {_mm512_ternarylogic_epi32(threes, _mm512_set1_epi32(14), _mm512_set1_epi32(1), 0xEA),
            _mm512_ternarylogic_epi32(first, second, _mm512_set1_epi32(0x20000), 0xF8)};
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
