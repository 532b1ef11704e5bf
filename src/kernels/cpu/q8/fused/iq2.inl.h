// Fused products of IQ2_XXS; the layout is described beside its decoder in quant/decode/iq2.inl.h. The other types of
// about two bits are in fused/gathered.inl.h.
//
// A super-block has 32 runs of 8, so two rows make a vector: byte r is of run r of the first, byte 32 + r of the
// second. Signs are given to the activations, so magnitudes need no offset.
#pragma once

#include "kernels/cpu/q8/fused/codebook.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

// Lanes 0 to 7 of each of two pairs of rows are the first row's, the others the second's.
inline __m128i add_pair_lanes(__m512i first, __m512i second) {
  __m512i x = add_halves(first, second);  // first, second, first, second
  x = _mm512_add_epi32(x, _mm512_shuffle_epi32(x, _MM_PERM_BADC));
  x = _mm512_add_epi32(x, _mm512_shuffle_i32x4(x, x, 0xB1));
  const __m512i order = _mm512_castsi128_si512(_mm_setr_epi32(0, 8, 1, 9));
  return _mm512_castsi512_si128(_mm512_maskz_permutexvar_epi32(0xFFFF, order, x));
}

struct FusedIq2Xxs {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 66;
  static constexpr ActOrder kOrder = kRunsOrder;
  static constexpr FusedSums kSums = FusedSums::kNone;

  static const PackedCodebook<256>& make_codebook() {
    static const PackedCodebook<256> kPacked = pack_codebook<Iq2Magnitudes>(quant::kIq2Xxs);
    return kPacked;
  }
  static const PackedCodebook<256>& codebook(const FusedAct& a) {
    return *static_cast<const PackedCodebook<256>*>(a.codebook);
  }

  template <int kHalf, int kPosition>
  static __m512i add_position(__m512i sums, __m512i codes, __m512i signs, const FusedAct& a) {
    constexpr int kInRun = 4 * kHalf + kPosition;
    const __mmask64 negative = _mm512_test_epi8_mask(signs, load512(codebook(a).sign[kInRun]));
    return add_dot4(sums, magnitudes<Iq2Magnitudes, kPosition>(codes),
                    with_signs(broadcast256(a.codes + 32 * kInRun), negative));
  }

  static __m512i pair(const uint8_t* first, const uint8_t* second, const FusedAct& a) {
    // Of each group of 32 four indices, then a word of four times seven signs and the scale.
    const __m512i b0 = load512(first + 2), b1 = load512(second + 2);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const Indices index = indices_of(_mm512_permutex2var_epi32(b0, even, b1));
    const __m512i words = _mm512_permutex2var_epi32(b0, _mm512_or_si512(even, _mm512_set1_epi32(1)), b1);
    const __m512i sevens = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x352E'2720'150E'0700), words);
    const __m512i signs = signs_of_sevens<0>(sevens);
    // Both before the signs, which want mask registers too.
    const __m512i codes0 = look_up<256>(codebook(a).half[0], index);
    const __m512i codes1 = look_up<256>(codebook(a).half[1], index);
    // The halves in turns: two sums wait for each other less than one.
    __m512i sums0 = _mm512_setzero_si512(), sums1 = _mm512_setzero_si512();
    sums0 = add_position<0, 0>(sums0, codes0, signs, a);
    sums1 = add_position<1, 0>(sums1, codes1, signs, a);
    sums0 = add_position<0, 1>(sums0, codes0, signs, a);
    sums1 = add_position<1, 1>(sums1, codes1, signs, a);
    sums0 = add_position<0, 2>(sums0, codes0, signs, a);
    sums1 = add_position<1, 2>(sums1, codes1, signs, a);
    sums0 = add_position<0, 3>(sums0, codes0, signs, a);
    sums1 = add_position<1, 3>(sums1, codes1, signs, a);
    return _mm512_mullo_epi32(_mm512_add_epi32(sums0, sums1), top_scales(words));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m128i isums = add_pair_lanes(pair(rows.at[0], rows.at[1], a), pair(rows.at[2], rows.at[3], a));
    const __m128 d = _mm_mul_ps(four_f16(rows, 0), _mm_set1_ps(0.125f));
    return add_scaled(y, isums, _mm_mul_ps(d, _mm_set1_ps(*a.d)));
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
