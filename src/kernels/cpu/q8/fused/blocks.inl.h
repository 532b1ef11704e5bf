// Fused products of the types with a float scale per 32 codes, four groups of 32 columns at a time; the layouts are
// described beside their decoders in quant/decode: blocks32, iq4 and fp4. Numbers of the groups of four rows lie in
// lanes 4 * group + row.
#pragma once

#include "kernels/cpu/q8/fused/four_rows.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// Element g of four in lanes 4 * g to 4 * g + 3.
inline __m512i group_lanes() { return _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0); }
inline __m512i spread_groups(const void* four) {
  return _mm512_maskz_permutexvar_epi32(0xFFFF, group_lanes(), _mm512_castsi128_si512(load128(four)));
}

// The activations' scales of four groups of 32.
inline __m512 act_scales32(const FusedAct& a) { return _mm512_castsi512_ps(spread_groups(a.d)); }

// The groups join y in order. sums: of products, less those of the codes' offset; da: the activations' scales. With
// addends the type's kSums are sums of activations as floats.
template <bool kAddends>
inline __m128 add_groups(__m128 y, __m512i sums, __m512 d, __m512 m, __m512 da, const FusedAct& a) {
  const __m512 scales = _mm512_mul_ps(d, da);
  const __m512 isums = _mm512_maskz_cvtepi32_ps(0xFFFF, sums);
  const __m512 addends = kAddends ? _mm512_mul_ps(m, da) : m;
  const auto step = [&](__m128 isum, __m128 scale, __m128 addend, int g) {
    y = _mm_fmadd_ps(isum, scale, y);
    if constexpr (kAddends) y = _mm_fmadd_ps(_mm_broadcast_ss(reinterpret_cast<const float*>(a.sums) + g), addend, y);
  };
  step(_mm512_castps512_ps128(isums), _mm512_castps512_ps128(scales), _mm512_castps512_ps128(addends), 0);
  step(_mm512_maskz_extractf32x4_ps(0xF, isums, 1), _mm512_maskz_extractf32x4_ps(0xF, scales, 1),
       _mm512_maskz_extractf32x4_ps(0xF, addends, 1), 1);
  step(_mm512_maskz_extractf32x4_ps(0xF, isums, 2), _mm512_maskz_extractf32x4_ps(0xF, scales, 2),
       _mm512_maskz_extractf32x4_ps(0xF, addends, 2), 2);
  step(_mm512_maskz_extractf32x4_ps(0xF, isums, 3), _mm512_maskz_extractf32x4_ps(0xF, scales, 3),
       _mm512_maskz_extractf32x4_ps(0xF, addends, 3), 3);
  return y;
}

// Where the bytes at kOffset of four blocks of kBytes lie, as 16-bit words of the first 64 bytes or of 64 others.
template <size_t kBytes, size_t kOffset>
struct WordPlaces {
  static constexpr size_t kOthers = 4 * kBytes - 64 < 2 * kBytes ? 4 * kBytes - 64 : 2 * kBytes;
  static constexpr size_t at(size_t g) { return g * kBytes + kOffset; }
  static constexpr bool in_first(size_t g) { return at(g) < 63; }
  static constexpr int16_t word(size_t g) { return static_cast<int16_t>((in_first(g) ? at(g) : at(g) - kOthers) / 2); }
  // The groups of a row that are taken from one of the two.
  static constexpr uint32_t mask(bool first, int row) {
    uint32_t bits = 0;
    for (size_t g = 0; g < 4; g++) bits |= uint32_t{in_first(g) == first} << (4 * g + static_cast<size_t>(row));
    return bits;
  }
};

// The words at kOffset of blocks of kBytes, four of each row; where the place is odd, the words that have it.
template <size_t kBytes, size_t kOffset = 0>
inline __m256i group_words(const FourRows& rows) {
  using Places = WordPlaces<kBytes, kOffset>;
  static constexpr WordIndices kIndices = [] {
    WordIndices indices{};
    for (size_t i = 0; i < 16; i++) indices.at[i] = static_cast<int16_t>(word_index(Places::word(i / 4)));
    return indices;
  }();
  const __m512i index = load512(kIndices.at);
  __m512i words = _mm512_setzero_si512();
  for_each_row([&](auto r) {
    words = replace_words<Places::mask(true, r)>(words, index, load512(rows.at[r]));
    if constexpr (Places::mask(false, 0) != 0) {
      words = replace_words<Places::mask(false, r)>(words, index, load512(rows.at[r] + Places::kOthers));
    }
  });
  return _mm512_castsi512_si256(words);
}
inline __m512 halves(__m256i words) { return _mm512_maskz_cvtph_ps(0xFFFF, words); }

// What each of four groups of 32 adds up to, of two vectors a row: the first two groups' products and the last two's.
inline __m512i add_pairs_of_groups(const __m512i (&first)[kFusedRows], const __m512i (&second)[kFusedRows]) {
  const __m512i x = add_rows(first), y = add_rows(second);
  return _mm512_add_epi32(_mm512_shuffle_i32x4(x, y, 0x88), _mm512_shuffle_i32x4(x, y, 0xDD));
}

struct FusedQ80 {
  static constexpr int64_t kCols = kFourGroupCols;
  static constexpr size_t kBytes = 4 * 34;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kSpreadOffsets32;

  // Of two groups.
  static __m512i codes(const uint8_t* p) { return _mm512_xor_si512(two_halves(p + 2, p + 36), _mm512_set1_epi8(-128)); }
  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i parts[2][kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      for (int pair = 0; pair < 2; pair++) {
        parts[pair][r] = add_dot4(_mm512_setzero_si512(), codes(rows.at[r] + 68 * pair), load512(a.codes + 64 * pair));
      }
    }
    const __m512i sums = _mm512_add_epi32(add_pairs_of_groups(parts[0], parts[1]), load512(a.sums));
    return add_groups<false>(y, sums, halves(group_words<34>(rows)), _mm512_setzero_ps(), act_scales32(a), a);
  }
};

// NVFP4: four groups of 16.
struct FusedNvfp4 {
  static constexpr int64_t kCols = 64;
  static constexpr size_t kBytes = 36;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kOffsets16;

  static __m512i row(const uint8_t* p, const FusedAct& a) {
    const __m512i twice = _mm512_maskz_permutexvar_epi64(0xFF, _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0),
                                                         _mm512_zextsi256_si512(load256(p + 4)));
    const __m512i nibbles = low_nibbles(_mm512_srlv_epi64(twice, _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0)));
    const __m512i codes = _mm512_shuffle_epi8(bytes_table(quant::kFp4X2, kFp4Offset), nibbles);
    return add_dot4(_mm512_setzero_si512(), codes, load512(a.codes));
  }

  // half_ue4m3 of a byte for each group and row.
  static __m512 d(const FourRows& rows) {
    const __m128i bytes =
        _mm_shuffle_epi8(four_u32(rows, 0), _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i x = _mm512_and_si512(_mm512_maskz_cvtepu8_epi32(0xFFFF, bytes), _mm512_set1_epi32(0x7F));
    const __m512i normal = _mm512_add_epi32(_mm512_slli_epi32(x, 20), _mm512_set1_epi32(119 << 23));
    const __mmask16 tiny = _mm512_cmplt_epi32_mask(x, _mm512_set1_epi32(8));
    const __m512 any = _mm512_mask_mul_ps(_mm512_castsi512_ps(normal), tiny, _mm512_maskz_cvtepi32_ps(0xFFFF, x),
                                          _mm512_set1_ps(0x1p-10f));
    return _mm512_maskz_mov_ps(_mm512_cmpneq_epi32_mask(x, _mm512_set1_epi32(0x7F)), any);
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i parts[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) parts[r] = row(rows.at[r], a);
    const __m512i sums = _mm512_add_epi32(add_rows(parts), spread_groups(a.sums));
    const __m512 da = _mm512_maskz_insertf32x8(0xFFFF, _mm512_castps256_ps512(_mm256_broadcast_ss(a.d)),
                                               _mm256_broadcast_ss(a.d + 1), 1);
    return add_groups<false>(y, sums, d(rows), _mm512_setzero_ps(), da, a);
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
