// Fused products of IQ3_XXS and IQ3_S; the layouts are described beside their decoders in quant/decode/iq3.inl.h.
//
// A super-block has 64 quads: byte k of a vector is of quad k.
#pragma once

#include "kernels/cpu/q8/fused/codebook.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

// What a row of the type adds up to, times d * kFraction.
template <class Type>
inline __m128 add_quad_rows(const FourRows& rows, const FusedAct& a, __m128 y) {
  __m512i sums[kFusedRows];
  for (int r = 0; r < kFusedRows; r++) sums[r] = Type::row(rows.at[r], a);
  const __m128 d = _mm_mul_ps(four_f16(rows, 0), _mm_set1_ps(Type::kFraction));
  return add_scaled(y, add_lanes(add_rows(sums)), _mm_mul_ps(d, _mm_set1_ps(*a.d)));
}

// Signs are given to the activations, so magnitudes need no offset.
struct FusedIq3Xxs {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 98;
  static constexpr float kFraction = 0.25f;
  static constexpr ActOrder kOrder = kQuadsOrder;
  static constexpr FusedSums kSums = FusedSums::kNone;

  static const PackedCodebook<256>& make_codebook() {
    static const PackedCodebook<256> kPacked = pack_codebook<Iq3XxsMagnitudes>(quant::kIq3Xxs);
    return kPacked;
  }
  static const PackedCodebook<256>& codebook(const FusedAct& a) {
    return *static_cast<const PackedCodebook<256>*>(a.codebook);
  }

  // signs: bits 0 to 3 of an even byte, bits 4 to 7 of an odd one, of positions 0 to 3.
  template <int kHalf, int kPosition>
  static __m512i add_position(__m512i sums, __m512i codes, __m512i signs, const FusedAct& a) {
    constexpr int kInQuad = 2 * kHalf + kPosition;
    const __mmask64 negative = _mm512_test_epi8_mask(signs, load512(codebook(a).sign[kInQuad]));
    return add_dot4(sums, magnitudes<Iq3XxsMagnitudes, kPosition>(codes),
                    with_signs(load512(a.codes + 64 * kInQuad), negative));
  }
  template <int kHalf>
  static __m512i add_half(__m512i sums, __m512i codes, __m512i signs, const FusedAct& a) {
    return add_position<kHalf, 1>(add_position<kHalf, 0>(sums, codes, signs, a), codes, signs, a);
  }
  static __m512i row(const uint8_t* block, const FusedAct& a) {
    const Indices index = indices_of(load512(block + 2));
    const __m512i words = _mm512_maskz_cvtepu32_epi64(0xFF, load256(block + 66));
    const __m512i sevens = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x1515'0E0E'0707'0000), words);
    const __m512i signs = signs_of_sevens(sevens);
    // Both before the signs, which want mask registers too.
    const __m512i codes0 = look_up<256>(codebook(a).half[0], index);
    const __m512i codes1 = look_up<256>(codebook(a).half[1], index);
    const __m512i sums = add_half<1>(add_half<0>(_mm512_setzero_si512(), codes0, signs, a), codes1, signs, a);
    return _mm512_mullo_epi32(sums, top_scales(_mm512_shuffle_epi32(words, _MM_PERM_CCAA)));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    return add_quad_rows<FusedIq3Xxs>(rows, a, y);
  }
};

// Signs join the codes.
struct FusedIq3S {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 110;
  static constexpr float kFraction = 1;
  static constexpr ActOrder kOrder = kQuadsOrder;
  static constexpr FusedSums kSums = FusedSums::kOffsets16;
  static_assert(kIq3SOffset == 16);

  static const PackedCodebook<512>& make_codebook() {
    static const PackedCodebook<512> kPacked = pack_codebook<Iq3SMagnitudes>(quant::kIq3S);
    return kPacked;
  }

  // Positions 2 * kHalf and the next of each quad; bits 0 to 3 of a byte of signs are those of positions 0 to 3.
  template <int kHalf>
  static __m512i add_half(__m512i sums, __m512i magnitude_codes, __m512i signs, const FusedAct& a) {
    constexpr BitRows kPlaces = {{0, 0, 0, 1 << (2 * kHalf), 0, 0, 0, 2 << (2 * kHalf)}};
    const __m512i codes = _mm512_or_si512(magnitude_codes, map_bits<kPlaces>(signs));
    sums = add_dot4(sums, magnitudes<Iq3SCodes, 0>(codes), load512(a.codes + 128 * kHalf));
    return add_dot4(sums, magnitudes<Iq3SCodes, 1>(codes), load512(a.codes + 128 * kHalf + 64));
  }
  static __m512i row(const uint8_t* block, const FusedAct& a) {
    const auto& codebook = *static_cast<const PackedCodebook<512>*>(a.codebook);
    const Indices index = indices_of(load512(block + 2), u64_at(block + 66));
    // A byte for two quads, then its upper half for the second.
    const __m512i words = _mm512_maskz_cvtepu8_epi16(~__mmask32{0}, load256(block + 74));
    const __m512i signs = _mm512_or_si512(words, _mm512_slli_epi16(words, 4));
    __m512i sums = add_half<0>(load512(a.sums), look_up<512>(codebook.half[0], index), signs, a);
    sums = add_half<1>(sums, look_up<512>(codebook.half[1], index), signs, a);
    // 2 * s + 1 of nibble g for group g
    const __m512i nibbles =
        _mm512_rolv_epi32(_mm512_set1_epi32(static_cast<int>(u32_at(block + 106))),
                          _mm512_set_epi32(5, 5, 9, 9, 13, 13, 17, 17, 21, 21, 25, 25, 29, 29, 1, 1));
    return _mm512_mullo_epi32(sums,
                              _mm512_ternarylogic_epi32(nibbles, _mm512_set1_epi32(0x1E), _mm512_set1_epi32(1), 0xEA));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    return add_quad_rows<FusedIq3S>(rows, a, y);
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
