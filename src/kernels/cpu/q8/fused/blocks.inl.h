// Fused products of the types with a float scale per 32 codes, four groups of 32 columns at a time; the layouts are
// described beside their decoders in quant/decode: blocks32, iq4 and fp4. Numbers of the groups of four rows lie in
// lanes 4 * group + row.
#pragma once

#include "kernels/cpu/q8/fused/four_rows.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

constexpr int64_t kFourGroupCols = 128;

// Element g of four in lanes 4 * g to 4 * g + 3.
inline __m512i group_lanes() { return _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0); }
inline __m512i spread_groups(const void* four) {
  return _mm512_maskz_permutexvar_epi32(0xFFFF, group_lanes(), _mm512_castsi128_si512(load128(four)));
}

// The groups join y in order. sums: of products, less those of the codes' offset. With addends the type's kSums are
// sums of activations as floats.
template <bool kAddends>
inline __m128 add_groups(__m128 y, __m512i sums, __m512 d, __m512 m, const FusedAct& a) {
  const __m512 da = _mm512_castsi512_ps(spread_groups(a.d));
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
  constexpr int16_t w0 = Places::word(0), w1 = Places::word(1), w2 = Places::word(2), w3 = Places::word(3);
  const __m512i index =
      _mm512_castsi256_si512(_mm256_set_epi16(w3, w3, w3, w3, w2, w2, w2, w2, w1, w1, w1, w1, w0, w0, w0, w0));
  __m512i words = _mm512_setzero_si512();
  for (int r = 0; r < kFusedRows; r++) {
    words = _mm512_mask_permutexvar_epi16(words, Places::mask(true, r), index, load512(rows.at[r]));
    if constexpr (Places::mask(false, 0) != 0) {
      words =
          _mm512_mask_permutexvar_epi16(words, Places::mask(false, r), index, load512(rows.at[r] + Places::kOthers));
    }
  }
  return _mm512_castsi512_si256(words);
}
inline __m512 halves(__m256i words) { return _mm512_maskz_cvtph_ps(0xFFFF, words); }

// Blocks with nibbles of 16 bytes. What a type has beside: where its parts lie, the codes of nibbles.
struct Q40 {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0;
  static constexpr bool kAddends = false;
  static __m512i codes(__m512i nibbles) { return nibbles; }
  static __m512 d(const FourRows& rows) { return halves(group_words<kBytes>(rows)); }
};
struct Q41 {
  static constexpr size_t kBytes = 20, kNibbles = 4, kFifth = 0;
  static constexpr bool kAddends = true;
  static __m512i codes(__m512i nibbles) { return nibbles; }
  static __m512 d(const FourRows& rows) { return halves(group_words<kBytes>(rows)); }
};
struct Q50 {
  static constexpr size_t kBytes = 22, kNibbles = 6, kFifth = 2;
  static constexpr bool kAddends = false;
  static __m512i codes(__m512i nibbles) { return nibbles; }
  static __m512 d(const FourRows& rows) { return halves(group_words<kBytes>(rows)); }
};
struct Q51 {
  static constexpr size_t kBytes = 24, kNibbles = 8, kFifth = 4;
  static constexpr bool kAddends = true;
  static __m512i codes(__m512i nibbles) { return nibbles; }
  static __m512 d(const FourRows& rows) { return halves(group_words<kBytes>(rows)); }
};
struct Iq4Nl {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0;
  static constexpr bool kAddends = false;
  static __m512i codes(__m512i nibbles) { return _mm512_shuffle_epi8(bytes_table(quant::kIq4nl, kIq4Offset), nibbles); }
  static __m512 d(const FourRows& rows) { return halves(group_words<kBytes>(rows)); }
};
struct Mxfp4 {
  static constexpr size_t kBytes = 17, kNibbles = 1, kFifth = 0;
  static constexpr bool kAddends = false;
  static __m512i codes(__m512i nibbles) { return _mm512_shuffle_epi8(bytes_table(quant::kFp4X2, kFp4Offset), nibbles); }
  // half_e8m0 of the byte that each word's lower or, of odd groups, upper half is.
  static __m512 d(const FourRows& rows) {
    const __m512i words = _mm512_maskz_cvtepu16_epi32(0xFFFF, group_words<kBytes>(rows));
    const __m512i shifts = _mm512_set_epi32(8, 8, 8, 8, 0, 0, 0, 0, 8, 8, 8, 8, 0, 0, 0, 0);
    const __m512i e = _mm512_and_si512(_mm512_srlv_epi32(words, shifts), _mm512_set1_epi32(255));
    const __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(bits, tiny, _mm512_set1_epi32(0x00200000), e));
  }
};

template <class Type>
struct FusedNibbles {
  static constexpr int64_t kCols = kFourGroupCols;
  static constexpr size_t kBytes = 4 * Type::kBytes;
  static constexpr ActOrder kOrder = kNibbles16Order;
  static constexpr FusedSums kSums = Type::kAddends ? FusedSums::kFloats32 : FusedSums::kOffsets32;

  // The fifth bits of the lower and of the upper nibbles: words of 16, a group after the other.
  static void add_fifth_bits(const uint8_t* p, __m512i& low, __m512i& high) {
    const auto bits = [&](size_t g) { return uint64_t{u32_at(p + g * Type::kBytes + Type::kFifth)}; };
    const uint64_t b01 = bits(0) | bits(1) << 32, b23 = bits(2) | bits(3) << 32;
    constexpr uint64_t kLow = 0x0000FFFF0000FFFF;
    const __m512i bit = _mm512_set1_epi8(16);
    low = _mm512_mask_add_epi8(low, _pext_u64(b01, kLow) | _pext_u64(b23, kLow) << 32, low, bit);
    high = _mm512_mask_add_epi8(high, _pext_u64(b01, ~kLow) | _pext_u64(b23, ~kLow) << 32, high, bit);
  }

  static __m512i row(const uint8_t* p, const FusedAct& a) {
    const uint8_t* qs = p + Type::kNibbles;
    const __m512i nibbles = four_quarters(qs, qs + Type::kBytes, qs + 2 * Type::kBytes, qs + 3 * Type::kBytes);
    __m512i low = Type::codes(low_nibbles(nibbles)), high = Type::codes(high_nibbles(nibbles));
    if constexpr (Type::kFifth > 0) add_fifth_bits(p, low, high);
    return add_dot4(add_dot4(_mm512_setzero_si512(), low, load512(a.codes)), high, load512(a.codes + 64));
  }

  static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i parts[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) parts[r] = row(rows.at[r], a);
    __m512i sums = add_rows(parts);
    if constexpr (Type::kAddends) {
      return add_groups<true>(y, sums, Type::d(rows), halves(group_words<Type::kBytes, 2>(rows)), a);
    } else {
      sums = _mm512_add_epi32(sums, spread_groups(a.sums));
      return add_groups<false>(y, sums, Type::d(rows), _mm512_setzero_ps(), a);
    }
  }
};

struct FusedQ80 {
  static constexpr int64_t kCols = kFourGroupCols;
  static constexpr size_t kBytes = 4 * 34;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kOffsets32;

  // Groups 2 * pair and 2 * pair + 1.
  static __m512i row(const uint8_t* p, int pair, const FusedAct& a) {
    const __m512i codes = _mm512_xor_si512(two_halves(p + 68 * pair + 2, p + 68 * pair + 36), _mm512_set1_epi8(-128));
    return add_dot4(_mm512_setzero_si512(), codes, load512(a.codes + 64 * pair));
  }

  static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i parts[2][kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      for (int pair = 0; pair < 2; pair++) parts[pair][r] = row(rows.at[r], pair, a);
    }
    const __m512i first = add_rows(parts[0]), second = add_rows(parts[1]);
    const __m512i sums =
        _mm512_add_epi32(_mm512_shuffle_i32x4(first, second, 0x88), _mm512_shuffle_i32x4(first, second, 0xDD));
    return add_groups<false>(y, _mm512_add_epi32(sums, spread_groups(a.sums)), halves(group_words<34>(rows)),
                             _mm512_setzero_ps(), a);
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
