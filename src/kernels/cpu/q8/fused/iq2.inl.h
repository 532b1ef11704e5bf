// Fused products of IQ2_XXS, IQ2_XS and IQ2_S; the layouts are described beside their decoders in
// quant/decode/iq2.inl.h.
//
// A super-block has 32 runs of 8, so two rows make a vector: byte r is of run r of the first, byte 32 + r of the
// second. Signs are given to the activations, so magnitudes need no offset.
#pragma once

#include "kernels/cpu/q8/fused/codebook.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

// What the runs of two rows are.
struct RunPair {
  Indices index;
  __m512i signs;   // bit q of a byte: of position q
  __m512i scales;  // as the type adds up
};

// Lanes 0 to 7 of each of two pairs of rows are the first row's, the others the second's.
inline __m128i add_pair_lanes(__m512i first, __m512i second) {
  __m512i x = add_halves(first, second);  // first, second, first, second
  x = _mm512_add_epi32(x, _mm512_shuffle_epi32(x, _MM_PERM_BADC));
  x = _mm512_add_epi32(x, _mm512_shuffle_i32x4(x, x, 0xB1));
  const __m512i order = _mm512_castsi128_si512(_mm_setr_epi32(0, 8, 1, 9));
  return _mm512_castsi512_si128(_mm512_maskz_permutexvar_epi32(0xFFFF, order, x));
}

template <class Type>
struct FusedIq2 {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = kRunsOrder;
  static constexpr FusedSums kSums = FusedSums::kNone;

  static const PackedCodebook<Type::kEntries>& make_codebook() { return Type::packed(); }
  static const PackedCodebook<Type::kEntries>& codebook(const FusedAct& a) {
    return *static_cast<const PackedCodebook<Type::kEntries>*>(a.codebook);
  }

  template <int kHalf, int kPosition>
  static __m512i add_position(__m512i sums, __m512i codes, const RunPair& runs, const FusedAct& a) {
    constexpr int kInRun = 4 * kHalf + kPosition;
    const __mmask64 negative = _mm512_test_epi8_mask(runs.signs, load512(codebook(a).sign[kInRun]));
    return Type::add(sums, magnitudes<Iq2Magnitudes, kPosition>(codes),
                     with_signs(broadcast256(a.codes + 32 * kInRun), negative), runs.scales);
  }
  template <int kHalf>
  static __m512i add_half(__m512i sums, __m512i codes, const RunPair& runs, const FusedAct& a) {
    sums = add_position<kHalf, 0>(sums, codes, runs, a);
    sums = add_position<kHalf, 1>(sums, codes, runs, a);
    sums = add_position<kHalf, 2>(sums, codes, runs, a);
    return add_position<kHalf, 3>(sums, codes, runs, a);
  }
  static __m512i pair(const uint8_t* first, const uint8_t* second, const FusedAct& a) {
    const RunPair runs = Type::runs(first, second);
    // Both before the signs, which want mask registers too.
    const __m512i first_codes = look_up<Type::kEntries>(codebook(a).half[0], runs.index);
    const __m512i second_codes = look_up<Type::kEntries>(codebook(a).half[1], runs.index);
    const __m512i sums = add_half<0>(_mm512_setzero_si512(), first_codes, runs, a);
    return Type::total(add_half<1>(sums, second_codes, runs, a), runs.scales);
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m128i isums = add_pair_lanes(pair(rows.at[0], rows.at[1], a), pair(rows.at[2], rows.at[3], a));
    const __m128 d = _mm_mul_ps(four_f16(rows, 0), _mm_set1_ps(0.125f));
    return add_scaled(y, isums, _mm_mul_ps(d, _mm_set1_ps(*a.d)));
  }
};

// A scale for each four runs: sums of four bytes are multiplied once.
struct Iq2Xxs {
  static constexpr size_t kBytes = 66;
  static constexpr int kEntries = 256;
  static const PackedCodebook<kEntries>& packed() {
    static const PackedCodebook<kEntries> kPacked = pack_codebook<Iq2Magnitudes>(quant::kIq2Xxs);
    return kPacked;
  }
  static RunPair runs(const uint8_t* first, const uint8_t* second) {
    const __m512i a = load512(first + 2), b = load512(second + 2);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i low = _mm512_permutex2var_epi32(a, even, b);
    const __m512i words = _mm512_permutex2var_epi32(a, _mm512_or_si512(even, _mm512_set1_epi32(1)), b);
    const __m512i sevens = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x352E'2720'150E'0700), words);
    return {indices_of(low), signs_of_sevens<0>(sevens), top_scales(words)};
  }
  static __m512i add(__m512i sums, __m512i magnitude, __m512i a, __m512i) { return add_dot4(sums, magnitude, a); }
  static __m512i total(__m512i sums, __m512i scales) { return _mm512_mullo_epi32(sums, scales); }
};

// A scale for each two runs: sums of two bytes are multiplied, and added up.
struct Iq2ScaledPairs {
  static __m512i add(__m512i sums, __m512i magnitude, __m512i a, __m512i scales) {
    return add_pairs(sums, _mm512_maddubs_epi16(magnitude, a), scales);
  }
  static __m512i total(__m512i sums, __m512i) { return sums; }
  // Scales 2 * s + 1 of the nibbles s of eight bytes of each row.
  static __m512i scales(const uint8_t* first, const uint8_t* second) {
    const __m512i bytes = _mm512_zextsi128_si512(eight_of_two(first, second));
    // Byte i / 2 becomes the upper half of word i.
    const __m512i halves =
        _mm512_set_epi32(0x0F000F00, 0x0E000E00, 0x0D000D00, 0x0C000C00, 0x0B000B00, 0x0A000A00, 0x09000900, 0x08000800,
                         0x07000700, 0x06000600, 0x05000500, 0x04000400, 0x03000300, 0x02000200, 0x01000100, 0);
    const __m512i words = _mm512_maskz_permutexvar_epi8(0xAAAAAAAAAAAAAAAA, halves, bytes);
    const __m512i twice = _mm512_srlv_epi16(words, _mm512_set1_epi32(11 << 16 | 7));
    return _mm512_ternarylogic_epi32(twice, _mm512_set1_epi16(0x1E), _mm512_set1_epi16(1), 0xEA);
  }
  static __m128i eight_of_two(const uint8_t* first, const uint8_t* second) {
    return _mm_set_epi64x(static_cast<int64_t>(u64_at(second)), static_cast<int64_t>(u64_at(first)));
  }
};

struct Iq2Xs : Iq2ScaledPairs {
  static constexpr size_t kBytes = 74;
  static constexpr int kEntries = 512;
  static const PackedCodebook<kEntries>& packed() {
    static const PackedCodebook<kEntries> kPacked = pack_codebook<Iq2Magnitudes>(quant::kIq2Xs);
    return kPacked;
  }
  static RunPair runs(const uint8_t* first, const uint8_t* second) {
    const __m512i a = load512(first + 2), b = load512(second + 2);
    const __m512i low = _mm512_permutex2var_epi8(a, every_other(0), b);
    const __m512i high = _mm512_permutex2var_epi8(a, every_other(1), b);
    const __mmask64 ninth = _mm512_test_epi8_mask(high, _mm512_set1_epi8(1));
    return {indices_of(low, ninth), signs_of_sevens<1>(high), scales(first + 66, second + 66)};
  }
  // 0, 2, 4 to 126, with `first` added.
  static __m512i every_other(int8_t first) {
    alignas(64) static constexpr auto kEven = [] {
      struct {
        uint8_t at[64];
      } even{};
      for (int i = 0; i < 64; i++) even.at[i] = static_cast<uint8_t>(2 * i);
      return even;
    }();
    return _mm512_add_epi8(load512(kEven.at), _mm512_set1_epi8(first));
  }
};

struct Iq2S : Iq2ScaledPairs {
  static constexpr size_t kBytes = 82;
  static constexpr int kEntries = 1024;
  static const PackedCodebook<kEntries>& packed() {
    static const PackedCodebook<kEntries> kPacked = pack_codebook<Iq2Magnitudes>(quant::kIq2S);
    return kPacked;
  }
  static RunPair runs(const uint8_t* first, const uint8_t* second) {
    const __m512i low = two_halves(first + 2, second + 2);
    // Each byte four times; run i has bits 2 * (i % 4) and the next.
    const __m512i fourths =
        _mm512_set_epi32(0x0F0F0F0F, 0x0E0E0E0E, 0x0D0D0D0D, 0x0C0C0C0C, 0x0B0B0B0B, 0x0A0A0A0A, 0x09090909, 0x08080808,
                         0x07070707, 0x06060606, 0x05050505, 0x04040404, 0x03030303, 0x02020202, 0x01010101, 0);
    const __m512i upper =
        _mm512_permutexvar_epi8(fourths, _mm512_zextsi128_si512(eight_of_two(first + 66, second + 66)));
    return {indices_of(low, _mm512_test_epi8_mask(upper, _mm512_set1_epi32(0x40100401)),
                       _mm512_test_epi8_mask(upper, _mm512_set1_epi32(static_cast<int>(0x80200802)))),
            two_halves(first + 34, second + 34), scales(first + 74, second + 74)};
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
