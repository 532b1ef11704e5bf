// Fused products of Q1_0 and Q2_0; the layouts are described beside their decoders in quant/decode/bits.inl.h.
//
// Sixteen bytes of each of the four rows are a vector, of which every position of a byte is multiplied with the
// activations of its columns: so the rows' sums come into being without being added up across lanes.
#pragma once

#include "kernels/cpu/q8/fused/blocks.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// One block of 128 codes of a bit, 0 and 2: lane 4 * r + g is of group g of row r.
struct FusedQ10 {
  static constexpr int64_t kCols = kFourGroupCols;
  static constexpr size_t kBytes = 18;
  static constexpr ActOrder kOrder = kRuns128Order;
  static constexpr FusedSums kSums = FusedSums::kSpreadOffsets32;

  template <int kBit>
  static __m512i add_bit(__m512i sums, __m512i bits, const FusedAct& a) {
#if defined(__GFNI__)
    const __m512i codes = map_bits<BitRows{{0, 1 << kBit}}>(bits);
#else
    const __m512i place = kBit == 0 ? _mm512_slli_epi16(bits, 1) : _mm512_srli_epi16(bits, kBit == 0 ? 0 : kBit - 1);
    const __m512i codes = _mm512_and_si512(place, _mm512_set1_epi8(2));
#endif
    return add_dot4(sums, codes, broadcast128(a.codes + 16 * kBit));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m512i bits = four_quarters(rows, 2);
    const __m512i zero = _mm512_setzero_si512();
    const __m512i even = add_bit<6>(add_bit<4>(add_bit<2>(add_bit<0>(zero, bits, a), bits, a), bits, a), bits, a);
    const __m512i odd = add_bit<7>(add_bit<5>(add_bit<3>(add_bit<1>(zero, bits, a), bits, a), bits, a), bits, a);
    const __m512i groups = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i by_group = _mm512_maskz_permutexvar_epi32(0xFFFF, groups, _mm512_add_epi32(even, odd));
    const __m512i sums = _mm512_add_epi32(by_group, load512(a.sums));
    const __m512 d = _mm512_maskz_broadcast_f32x4(0xFFFF, four_f16(rows, 0));
    return add_groups<false>(y, sums, d, _mm512_setzero_ps(), act_scales32(a), a);
  }
};

// Two blocks of 64 codes of two bits: lanes 4 * r to 4 * r + 3 are of a block of row r, two for each group.
struct FusedQ20 {
  static constexpr int64_t kCols = kFourGroupCols;
  static constexpr size_t kBytes = 2 * 18;
  static constexpr ActOrder kOrder = kQuads64Order;
  static constexpr FusedSums kSums = FusedSums::kSpreadOffsets32;

  template <int kPosition>
  static __m512i add_position(__m512i sums, __m512i bits, const int8_t* a) {
#if defined(__GFNI__)
    const __m512i codes = map_bits<BitRows{{1 << (2 * kPosition), 2 << (2 * kPosition)}}>(bits);
#else
    const __m512i codes = _mm512_and_si512(_mm512_srli_epi16(bits, 2 * kPosition), _mm512_set1_epi8(3));
#endif
    return add_dot4(sums, codes, broadcast128(a + 16 * kPosition));
  }
  static __m512i block(const FourRows& rows, size_t offset, const int8_t* a) {
    const __m512i bits = four_quarters(rows, offset);
    const __m512i sums = add_position<1>(add_position<0>(_mm512_setzero_si512(), bits, a), bits, a);
    return add_position<3>(add_position<2>(sums, bits, a), bits, a);
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m512i first = block(rows, 2, a.codes), second = block(rows, 20, a.codes + 64);
    const __m512i even = _mm512_set_epi32(30, 26, 22, 18, 28, 24, 20, 16, 14, 10, 6, 2, 12, 8, 4, 0);
    const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    const __m512i by_group =
        _mm512_add_epi32(_mm512_permutex2var_epi32(first, even, second), _mm512_permutex2var_epi32(first, odd, second));
    const __m512i sums = _mm512_add_epi32(by_group, load512(a.sums));
    const __m256 d0 = _mm256_maskz_broadcast_f32x4(0xFF, four_f16(rows, 0));
    const __m256 d1 = _mm256_maskz_broadcast_f32x4(0xFF, four_f16(rows, 18));
    const __m512 d = _mm512_maskz_insertf32x8(0xFFFF, _mm512_castps256_ps512(d0), d1, 1);
    return add_groups<false>(y, sums, d, _mm512_setzero_ps(), act_scales32(a), a);
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
