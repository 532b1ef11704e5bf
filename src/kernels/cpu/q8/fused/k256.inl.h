// Fused products of Q2_K to Q6_K and IQ4_XS in vectors of 256 bits; the layouts are described beside their decoders in
// quant/decode: k and iq4.
#pragma once

#include "kernels/cpu/q8/fused/act.inl.h"

#if defined(__AVX2__) && !defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// Sums of all lanes of each of four rows.
inline __m128i sum_four(const __m256i (&rows)[kFusedRows]) {
  const __m256i x = _mm256_hadd_epi32(_mm256_hadd_epi32(rows[0], rows[1]), _mm256_hadd_epi32(rows[2], rows[3]));
  return _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

// Eight int16 for each half of a vector, twice.
inline __m256i twice(__m128i words) { return _mm256_broadcastsi128_si256(words); }
// Of eight words that are there twice: word `first` in the lower half, `second` in the upper one.
inline __m256i pick_words(__m256i words, int first, int second) {
  const auto bytes = [](int i) { return static_cast<int16_t>((2 * i + 1) << 8 | 2 * i); };
  const __m256i index = _mm256_set_m128i(_mm_set1_epi16(bytes(second)), _mm_set1_epi16(bytes(first)));
  return _mm256_shuffle_epi8(words, index);
}

inline __m256i low_nibbles(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
inline __m256i high_nibbles(__m256i x) { return low_nibbles(_mm256_srli_epi16(x, 4)); }
// sums + codes * a * scales, of 32 columns.
inline __m256i add_scaled_dot(__m256i sums, __m256i codes, const int8_t* a, __m256i scales) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, load256(a)), scales));
}

// Sixteen scales, one for each 16 columns.
struct SixteenScales {
  __m256i low, high;  // eight each, twice
  explicit SixteenScales(__m256i words)
      : low(twice(_mm256_castsi256_si128(words))), high(twice(_mm256_extracti128_si256(words, 1))) {}
  // Of the 32 columns from 32 * i on.
  __m256i of(int i) const { return pick_words(i < 4 ? low : high, i % 4 * 2, i % 4 * 2 + 1); }
};

template <bool kFive>
struct Fused256K4 {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = kFive ? 176 : 144;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kPlain32;

  // Bit `group` of 32 bytes as the fifth bit of that group's codes.
  static __m256i fifth_bits(__m256i bits, int group) {
    const __m256i moved = group < 4 ? _mm256_slli_epi16(bits, 4 - group) : _mm256_srli_epi16(bits, group - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(16));
  }

  static __m256i row(const uint8_t* block, __m128i scale_words, const int8_t* a) {
    const __m256i scales = twice(scale_words);
    __m256i fifth = _mm256_setzero_si256(), sums = _mm256_setzero_si256();
    if constexpr (kFive) fifth = load256(block + 16);
    for (int i = 0; i < 4; i++) {
      const __m256i qs = load256(block + (kFive ? 48 : 16) + 32 * i);
      __m256i low = low_nibbles(qs), high = high_nibbles(qs);
      if constexpr (kFive) {
        low = _mm256_or_si256(low, fifth_bits(fifth, 2 * i));
        high = _mm256_or_si256(high, fifth_bits(fifth, 2 * i + 1));
      }
      sums = add_scaled_dot(sums, low, a + 64 * i, pick_words(scales, 2 * i, 2 * i));
      sums = add_scaled_dot(sums, high, a + 64 * i + 32, pick_words(scales, 2 * i + 1, 2 * i + 1));
    }
    return sums;
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m256i sums[kFusedRows];
    __m128i mins[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      const Codes groups = k_scales_and_mins(rows.at[r] + 4);
      sums[r] = row(rows.at[r], _mm_cvtepu8_epi16(groups.v), a.codes);
      mins[r] = _mm_madd_epi16(_mm_cvtepu8_epi16(_mm_unpackhi_epi64(groups.v, groups.v)), load128(a.sums));
    }
    const __m128i msums = _mm_hadd_epi32(_mm_hadd_epi32(mins[0], mins[1]), _mm_hadd_epi32(mins[2], mins[3]));
    const __m256 d = scales_and_mins(four_u32(rows, 0), a);
    y = add_scaled(y, sum_four(sums), _mm256_castps256_ps128(d));
    return _mm_fnmadd_ps(_mm_cvtepi32_ps(msums), _mm256_extractf128_ps(d, 1), y);
  }
};

// Two bits of each of 32 bytes: columns 128 * half + 32 * plane on of a super-block.
inline __m256i plane(const uint8_t* qs, int half, int plane) {
  return _mm256_and_si256(_mm256_srli_epi16(load256(qs + 32 * half), 2 * plane), _mm256_set1_epi8(3));
}

struct Fused256Q2K {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 84;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kPlain16;

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m256i sums[kFusedRows], mins[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      const Codes groups = load_codes(rows.at[r]);
      const SixteenScales scales(_mm256_cvtepu8_epi16(low_nibbles(groups).v));
      sums[r] = _mm256_setzero_si256();
      for (int i = 0; i < 8; i++) {
        sums[r] = add_scaled_dot(sums[r], plane(rows.at[r] + 16, i / 4, i % 4), a.codes + 32 * i, scales.of(i));
      }
      mins[r] = _mm256_madd_epi16(_mm256_cvtepu8_epi16(high_nibbles(groups).v), load256(a.sums));
    }
    const __m256 d = scales_and_mins(four_u32(rows, 80), a);
    y = add_scaled(y, sum_four(sums), _mm256_castps256_ps128(d));
    return _mm_fnmadd_ps(_mm_cvtepi32_ps(sum_four(mins)), _mm256_extractf128_ps(d, 1), y);
  }
};

// What a row's partial sums begin with where codes are 2^kBits more than what they stand for.
template <int kBits>
inline __m256i offset_sums(__m256i scale_words, const FusedAct& a) {
  return _mm256_madd_epi16(_mm256_slli_epi16(scale_words, kBits), load256(a.sums));
}

struct Fused256Q3K {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 110;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kNegated16;

  // Bit i of 32 bytes as the third of codes.
  static __m256i third_bits(__m256i bits, int i) {
    const __m256i moved = i < 2 ? _mm256_slli_epi16(bits, 2 - i) : _mm256_srli_epi16(bits, i - 2);
    return _mm256_and_si256(moved, _mm256_set1_epi8(4));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m256i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      const uint8_t* block = rows.at[r];
      const __m256i words = _mm256_cvtepi8_epi16(q3_k_scales(block + 96).v);
      const SixteenScales scales(words);
      const __m256i bits = load256(block);
      sums[r] = offset_sums<2>(words, a);
      for (int i = 0; i < 8; i++) {
        const __m256i codes = _mm256_or_si256(plane(block + 32, i / 4, i % 4), third_bits(bits, i));
        sums[r] = add_scaled_dot(sums[r], codes, a.codes + 32 * i, scales.of(i));
      }
    }
    return add_scaled(y, sum_four(sums), _mm_mul_ps(four_f16(rows, 108), _mm_set1_ps(*a.d)));
  }
};

struct Fused256Q6K {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 210;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kNegated16;

  static __m256i upper_bits(__m256i moved) { return _mm256_and_si256(moved, _mm256_set1_epi8(0x30)); }

  static __m256i row(const uint8_t* block, const FusedAct& a) {
    const __m256i words = _mm256_cvtepi8_epi16(load128(block + 192));
    const SixteenScales scales(words);
    __m256i sums = offset_sums<5>(words, a);
    for (int h = 0; h < 2; h++) {
      const __m256i first = load256(block + 64 * h), second = load256(block + 64 * h + 32);
      const __m256i qh = load256(block + 128 + 32 * h);
      const __m256i codes[4] = {_mm256_or_si256(low_nibbles(first), upper_bits(_mm256_slli_epi16(qh, 4))),
                                _mm256_or_si256(low_nibbles(second), upper_bits(_mm256_slli_epi16(qh, 2))),
                                _mm256_or_si256(high_nibbles(first), upper_bits(qh)),
                                _mm256_or_si256(high_nibbles(second), upper_bits(_mm256_srli_epi16(qh, 2)))};
      for (int i = 0; i < 4; i++) {
        sums = add_scaled_dot(sums, codes[i], a.codes + 128 * h + 32 * i, scales.of(4 * h + i));
      }
    }
    return sums;
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m256i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) sums[r] = row(rows.at[r], a);
    return add_scaled(y, sum_four(sums), _mm_mul_ps(four_f16(rows, 208), _mm_set1_ps(*a.d)));
  }
};

// Nibbles of sixteen bytes: the lower ones, then the upper ones.
inline __m256i nibbles_of_16(const void* p) {
  const __m256i both = twice(load128(p));
  return low_nibbles(_mm256_srlv_epi64(both, _mm256_set_epi64x(4, 4, 0, 0)));
}
// Sums of neighbouring products of signed bytes, of which one is not -128: magnitudes times activations that have been
// given the signs.
inline __m256i signed_pairs(__m256i values, const int8_t* a) {
  return _mm256_maddubs_epi16(_mm256_abs_epi8(values), _mm256_sign_epi8(load256(a), values));
}
// Values of a table of sixteen.
inline __m256i look_up16(const int8_t* table, __m256i nibbles) {
  return _mm256_shuffle_epi8(twice(load128(table)), nibbles);
}

struct Fused256Iq4Xs {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 136;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kNone;

  // Signed scales of eight groups.
  static __m128i scales(const uint8_t* block) {
    const __m128i bytes = _mm_cvtsi32_si128(static_cast<int>(u32_at(block + 4)));
    const __m128i nibbles = _mm_and_si128(_mm_unpacklo_epi8(bytes, _mm_srli_epi16(bytes, 4)), _mm_set1_epi8(15));
    // Two bits for each, moved to the top of a word of its own.
    const __m128i places = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1);
    const __m128i pairs =
        _mm_srli_epi16(_mm_mullo_epi16(_mm_set1_epi16(static_cast<int16_t>(u16_at(block + 2))), places), 14);
    const __m128i six = _mm_or_si128(_mm_cvtepu8_epi16(nibbles), _mm_slli_epi16(pairs, 4));
    return _mm_sub_epi16(six, _mm_set1_epi16(32));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m256i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      const __m256i words = twice(scales(rows.at[r]));
      sums[r] = _mm256_setzero_si256();
      for (int g = 0; g < 8; g++) {
        const __m256i values = look_up16(quant::kIq4nl, nibbles_of_16(rows.at[r] + 8 + 16 * g));
        const __m256i products = _mm256_madd_epi16(signed_pairs(values, a.codes + 32 * g), pick_words(words, g, g));
        sums[r] = _mm256_add_epi32(sums[r], products);
      }
    }
    return add_scaled(y, sum_four(sums), _mm_mul_ps(four_f16(rows, 0), _mm_set1_ps(*a.d)));
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
