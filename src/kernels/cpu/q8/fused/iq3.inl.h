// Fused products of IQ3_XXS and IQ3_S; the layouts are described beside their decoders in quant/decode/iq3.inl.h.
//
// A super-block has 64 quads: byte k of a vector is of quad k. Signs are given to the activations, so magnitudes need
// no offset.
#pragma once

#include "kernels/cpu/q8/fused/codebook.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

struct Quads {
  Indices index;
  __m512i signs;   // bits 0 to 3 of an even byte, bits 4 to 7 of an odd one: of positions 0 to 3
  __m512i scales;  // two lanes for each group of 32
};

template <class Type>
struct FusedIq3 {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = kQuadsOrder;
  static constexpr FusedSums kSums = FusedSums::kNone;

  static const PackedCodebook<Type::kEntries>& make_codebook() { return Type::packed(); }
  static const PackedCodebook<Type::kEntries>& codebook(const FusedAct& a) {
    return *static_cast<const PackedCodebook<Type::kEntries>*>(a.codebook);
  }

  template <int kHalf, int kPosition>
  static __m512i add_position(__m512i sums, __m512i codes, const Quads& quads, const FusedAct& a) {
    constexpr int kInQuad = 2 * kHalf + kPosition;
    const __mmask64 negative = _mm512_test_epi8_mask(quads.signs, load512(codebook(a).sign[kInQuad]));
    return add_dot4(sums, magnitudes<typename Type::Magnitudes, kPosition>(codes),
                    with_signs(load512(a.codes + 64 * kInQuad), negative));
  }
  template <int kHalf>
  static __m512i add_half(__m512i sums, __m512i codes, const Quads& quads, const FusedAct& a) {
    return add_position<kHalf, 1>(add_position<kHalf, 0>(sums, codes, quads, a), codes, quads, a);
  }
  static __m512i row(const uint8_t* block, const FusedAct& a) {
    const Quads quads = Type::quads(block);
    // Both before the signs, which want mask registers too.
    const __m512i first_codes = look_up<Type::kEntries>(codebook(a).half[0], quads.index);
    const __m512i second_codes = look_up<Type::kEntries>(codebook(a).half[1], quads.index);
    const __m512i sums = add_half<0>(_mm512_setzero_si512(), first_codes, quads, a);
    return _mm512_mullo_epi32(add_half<1>(sums, second_codes, quads, a), quads.scales);
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) sums[r] = row(rows.at[r], a);
    const __m128 d = _mm_mul_ps(four_f16(rows, 0), _mm_set1_ps(Type::kFraction));
    return add_scaled(y, add_lanes(add_rows(sums)), _mm_mul_ps(d, _mm_set1_ps(*a.d)));
  }
};

struct Iq3Xxs {
  using Magnitudes = Iq3XxsMagnitudes;
  static constexpr size_t kBytes = 98;
  static constexpr float kFraction = 0.25f;
  static constexpr int kEntries = 256;
  static const PackedCodebook<kEntries>& packed() {
    static const PackedCodebook<kEntries> kPacked = pack_codebook<Magnitudes>(quant::kIq3Xxs);
    return kPacked;
  }
  static Quads quads(const uint8_t* block) {
    const __m512i low = load512(block + 2);
    const __m512i words = _mm512_maskz_cvtepu32_epi64(0xFF, load256(block + 66));
    const __m512i sevens = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x1515'0E0E'0707'0000), words);
    return {indices_of(low), signs_of_sevens<0>(sevens), top_scales(_mm512_shuffle_epi32(words, _MM_PERM_CCAA))};
  }
};

struct Iq3S {
  using Magnitudes = Iq3SMagnitudes;
  static constexpr size_t kBytes = 110;
  static constexpr float kFraction = 1;
  static constexpr int kEntries = 512;
  static const PackedCodebook<kEntries>& packed() {
    static const PackedCodebook<kEntries> kPacked = pack_codebook<Magnitudes>(quant::kIq3S);
    return kPacked;
  }
  static Quads quads(const uint8_t* block) {
    const __m512i low = load512(block + 2);
    // Each byte twice.
    const __m512i signs = _mm512_maskz_cvtepu8_epi16(~__mmask32{0}, load256(block + 74));
    // 2 * s + 1 of nibble g for group g
    const __m512i nibbles =
        _mm512_rolv_epi32(_mm512_set1_epi32(static_cast<int>(u32_at(block + 106))),
                          _mm512_set_epi32(5, 5, 9, 9, 13, 13, 17, 17, 21, 21, 25, 25, 29, 29, 1, 1));
    return {indices_of(low, u64_at(block + 66)), _mm512_or_si512(signs, _mm512_slli_epi16(signs, 8)),
            _mm512_ternarylogic_epi32(nibbles, _mm512_set1_epi32(0x1E), _mm512_set1_epi32(1), 0xEA)};
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
