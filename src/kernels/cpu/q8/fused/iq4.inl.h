// Fused products of IQ4_XS; the layout is described beside its decoder in quant/decode/iq4.inl.h.
#pragma once

#include "kernels/cpu/q8/fused/blocks.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

struct FusedIq4Xs {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 136;
  static constexpr ActOrder kOrder = kNibbles16Order;
  static constexpr FusedSums kSums = FusedSums::kLaneOffsets;

  // Four groups of a row, four lanes each.
  static __m512i row(const uint8_t* qs, const int8_t* a, __m512i offsets) {
    const NibbleCodes codes = look_up_nibbles(quant::kIq4nl, kIq4Offset, load512(qs));
    return add_dot4(add_dot4(offsets, codes.low, load512(a)), codes.high, load512(a + 64));
  }

  // Scales of groups 4 * h to 4 * h + 3, lane 4 * group + row. `lower` and `upper` are the first and the second four
  // bytes of each row's block, four times.
  static __m512i scales(__m512i lower, __m512i upper, int h) {
    const __m512i g = group_lanes();
    const __m512i nibbles =
        _mm512_srlv_epi32(upper, _mm512_add_epi32(_mm512_slli_epi32(g, 2), _mm512_set1_epi32(16 * h)));
    const __m512i pairs =
        _mm512_srlv_epi32(lower, _mm512_add_epi32(_mm512_slli_epi32(g, 1), _mm512_set1_epi32(12 + 8 * h)));
    const __m512i bits = _mm512_ternarylogic_epi32(_mm512_and_si512(nibbles, _mm512_set1_epi32(15)), pairs,
                                                   _mm512_set1_epi32(0x30), 0xF8);
    return _mm512_sub_epi32(bits, _mm512_set1_epi32(32));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const auto head = [&](int r) { return static_cast<long long>(u64_at(rows.at[r])); };
    const __m512i heads = _mm512_zextsi256_si512(_mm256_set_epi64x(head(3), head(2), head(1), head(0)));
    const __m512i even = _mm512_set_epi32(6, 4, 2, 0, 6, 4, 2, 0, 6, 4, 2, 0, 6, 4, 2, 0);
    const __m512i lower = _mm512_maskz_permutexvar_epi32(0xFFFF, even, heads);
    const __m512i upper = _mm512_maskz_permutexvar_epi32(0xFFFF, _mm512_add_epi32(even, _mm512_set1_epi32(1)), heads);
    __m512i isums = _mm512_setzero_si512();
    for (int h = 0; h < 2; h++) {
      __m512i parts[kFusedRows];
      for (int r = 0; r < kFusedRows; r++) {
        parts[r] = row(rows.at[r] + 8 + 64 * h, a.codes + 128 * h, load512(a.sums + 64 * h));
      }
      isums = _mm512_add_epi32(isums, _mm512_mullo_epi32(add_rows(parts), scales(lower, upper, h)));
    }
    return add_scaled(y, add_lanes(isums), _mm_mul_ps(four_f16(rows, 0), _mm_set1_ps(*a.d)));
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
