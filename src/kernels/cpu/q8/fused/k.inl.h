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

// Each of four words from `first` on eight times.
inline __m512i four_words(int first, __m512i words) {
  static constexpr WordIndices kIndices = [] {
    WordIndices indices{};
    for (int i = 0; i < 32; i++) indices.at[i] = static_cast<int16_t>(word_index(i / 8));
    return indices;
  }();
  const int16_t step = static_cast<int16_t>(first * (word_index(1) - word_index(0)));
  return permute_words(_mm512_add_epi16(load512(kIndices.at), _mm512_set1_epi16(step)), words);
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

  // Codes of half kHalf of a block: of groups 4 * kHalf and two further, and of those one further.
  template <int kHalf>
  static NibbleCodes codes(const uint8_t* block, __m512i fifth) {
    const __m512i qs = load512(block + (kFive ? 48 : 16) + 64 * kHalf);
    if constexpr (!kFive) return {low_nibbles(qs), high_nibbles(qs)};
      // Bit g of a byte is the fifth bit of group g.
#if defined(__GFNI__)
    static constexpr Matrices kPlaces =
        two_matrices({{2 << 4 * kHalf, 0, 0, 0, 1 << 4 * kHalf}}, {{8 << 4 * kHalf, 0, 0, 0, 4 << 4 * kHalf}});
    return join_fifths(qs, _mm512_gf2p8affine_epi64_epi8(fifth, load512(kPlaces.at), 0));
#else
    const __m512i low = low_nibbles(qs), high = high_nibbles(qs), bit = _mm512_set1_epi8(16);
    const auto joined = [&](__m512i nibbles, __m512i bits) {
      return _mm512_ternarylogic_epi32(nibbles, bits, bit, 0xF8);
    };
    if constexpr (kHalf == 0) {
      return {joined(low, _mm512_sllv_epi16(fifth, words_index(4, 2))),
              joined(high, _mm512_sllv_epi16(fifth, words_index(3, 1)))};
    } else {
      return {joined(low, _mm512_srlv_epi16(fifth, words_index(0, 2))),
              joined(high, _mm512_srlv_epi16(fifth, words_index(1, 3)))};
    }
#endif
  }

  // Products of half kHalf of row kRow's block, times the scales of its groups, join its sums. words: of group_scales.
  template <int kRow, int kHalf>
  static __m512i add_half(__m512i sums, const uint8_t* block, __m512i fifth, __m512i words, const FusedAct& a) {
    // What four products come to fits a word: so two groups share a vector, four words each.
    static constexpr WordIndices kScales = [] {
      WordIndices indices{};
      for (int i = 0; i < 32; i++) {
        indices.at[i] = static_cast<int16_t>(word_index(8 * kRow + i / 16 * 2 + i / 4 % 2));
      }
      return indices;
    }();
    const NibbleCodes code = codes<kHalf>(block, fifth);
    const __m512i pairs = _mm512_packs_epi32(dot4_small(code.low, load512(a.codes + 128 * kHalf)),
                                             dot4_small(code.high, load512(a.codes + 128 * kHalf + 64)));
    return add_pairs(sums, pairs, permute_words(load512(kScales.at), words));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m512i heads = four_quarters(rows, 0);
    const __m512i scales = group_scales(heads);
    const __m512i words[2] = {_mm512_unpacklo_epi8(scales, _mm512_setzero_si512()),
                              _mm512_unpackhi_epi8(scales, _mm512_setzero_si512())};
    __m512i sums[kFusedRows];
    for_each_row([&](auto r) {
      __m512i fifth = _mm512_setzero_si512();
      if constexpr (kFive) fifth = broadcast256(rows.at[r] + 16);
      sums[r] = add_half<r, 0>(_mm512_setzero_si512(), rows.at[r], fifth, words[0], a);
      sums[r] = add_half<r, 1>(sums[r], rows.at[r], fifth, words[1], a);
    });
    // Words 4 to 7 of each row are mins, before them zeros: lanes 2 and 3 of each four have sums.
    __m512i mins = add_pairs(_mm512_setzero_si512(), words[0], broadcast128(a.sums));
    mins = add_pairs(mins, words[1], broadcast128(a.sums + 16));
    mins = _mm512_add_epi32(mins, _mm512_shuffle_epi32(mins, _MM_PERM_CDAB));
    const __m512i third = _mm512_castsi128_si512(_mm_setr_epi32(2, 6, 10, 14));
    const __m128i msums = _mm512_castsi512_si128(_mm512_maskz_permutexvar_epi32(0xFFFF, third, mins));
    static constexpr WordIndices kScales = [] {
      WordIndices indices{};
      for (int i = 0; i < 8; i++) indices.at[i] = static_cast<int16_t>(word_index(i % 4 * 8 + i / 4));
      return indices;
    }();
    const __m512i halves = permute_words(load512(kScales.at), heads);
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
                        four_words(8 * h + 4 * k, scales));
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
