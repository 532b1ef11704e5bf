// Vectors of 512 bits of four weight rows.
#pragma once

#include <type_traits>

#include "kernels/cpu/q8/fused/act.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// f of each row's number as a constant.
template <class F>
inline void for_each_row(F f) {
  f(std::integral_constant<int, 0>{});
  f(std::integral_constant<int, 1>{});
  f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 3>{});
}

// Thirty-two bytes of each place.
inline __m512i two_halves(const uint8_t* low, const uint8_t* high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(load256(low)), load256(high), 1);
}
// Sixteen bytes of each place.
inline __m512i four_quarters(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
  const __m512i ab = _mm512_inserti32x4(_mm512_castsi128_si512(load128(a)), load128(b), 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(ab, load128(c), 2), load128(d), 3);
}
inline __m512i four_quarters(const FourRows& rows, size_t offset) {
  return four_quarters(rows.at[0] + offset, rows.at[1] + offset, rows.at[2] + offset, rows.at[3] + offset);
}
// The same sixteen bytes four times.
inline __m512i broadcast128(const void* p) { return _mm512_maskz_broadcast_i32x4(0xFFFF, load128(p)); }
inline __m512i broadcast256(const void* p) { return _mm512_maskz_broadcast_i64x4(0xFF, load256(p)); }

#if defined(__GFNI__)
// Bytes of which bit i is the parity of those bits of a byte that row i of kRows chooses, exclusively or'ed with
// kConstant.
struct BitRows {
  uint8_t row[8];
};
constexpr int64_t bit_matrix(const BitRows& rows) {
  uint64_t matrix = 0;
  for (int i = 0; i < 8; i++) matrix |= uint64_t{rows.row[i]} << (8 * (7 - i));
  return static_cast<int64_t>(matrix);
}
// A matrix for each eight bytes: one for the first 32, one for the others.
struct Matrices {
  alignas(64) int64_t at[8];
};
constexpr Matrices two_matrices(const BitRows& first, const BitRows& second) {
  const int64_t a = bit_matrix(first), b = bit_matrix(second);
  return {{a, a, a, a, b, b, b, b}};
}
template <BitRows kRows, uint8_t kConstant = 0>
inline __m512i map_bits(__m512i bytes) {
  return _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64(bit_matrix(kRows)), kConstant);
}
#endif

inline __m512i low_nibbles(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
inline __m512i high_nibbles(__m512i x) {
#if defined(__GFNI__)
  return map_bits<BitRows{{16, 32, 64, 128}}>(x);
#else
  return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15));
#endif
}
// A table for each group of four lanes.
inline __m512i bytes_table(const int8_t* table, int offset) {
  return _mm512_maskz_broadcast_i32x4(0xFFFF, (Codes{load_codes(table)} + splat(offset)).v);
}

// Permutations of words. Where there are permutations of bytes those are used: one step, those of words take two.
constexpr int word_index(int word) {
#if defined(__AVX512VBMI__)
  return (2 * word + 1) << 8 | 2 * word;
#else
  return word;
#endif
}
// index: of word_index.
inline __m512i permute_words(__m512i index, __m512i words) {
#if defined(__AVX512VBMI__)
  return _mm512_permutexvar_epi8(index, words);
#else
  return _mm512_permutexvar_epi16(index, words);
#endif
}
// Those words of `old` are replaced that kWords has bits of.
template <uint32_t kWords>
inline __m512i replace_words(__m512i old, __m512i index, __m512i words) {
#if defined(__AVX512VBMI__)
  constexpr uint64_t kBytes = [] {
    uint64_t bytes = 0;
    for (int i = 0; i < 32; i++) bytes |= (kWords >> i & 1) != 0 ? uint64_t{3} << (2 * i) : 0;
    return bytes;
  }();
  return _mm512_mask_permutexvar_epi8(old, kBytes, index, words);
#else
  return _mm512_mask_permutexvar_epi16(old, kWords, index, words);
#endif
}
// A word for each of 32.
struct WordIndices {
  alignas(64) int16_t at[32];
};

// Codes of 64 bytes' nibbles.
struct NibbleCodes {
  __m512i low, high;
};
#if defined(__GFNI__)
// fifths: bit 4 of a byte joins its lower nibble, bit 0 its upper one; bits 5 to 7 are zeros.
inline NibbleCodes join_fifths(__m512i nibbles, __m512i fifths) {
  const __m512i lower = _mm512_set1_epi8(15);
  const __m512i low = _mm512_ternarylogic_epi32(nibbles, fifths, lower, 0xE4);    // lower ? nibbles : fifths
  const __m512i upper = _mm512_ternarylogic_epi32(nibbles, fifths, lower, 0xD8);  // lower ? fifths : nibbles
  return {low, map_bits<BitRows{{16, 32, 64, 128, 1}}>(upper)};
}
#endif
// Entries of a table, `offset` larger.
inline NibbleCodes look_up_nibbles(const int8_t* table, int offset, __m512i nibbles) {
  const __m512i entries = bytes_table(table, offset);
#if defined(__AVX512VBMI__)
  // Of a byte's lower six bits two choose one of four equal tables, whatever they are.
  return {_mm512_permutexvar_epi8(nibbles, entries), _mm512_permutexvar_epi8(_mm512_srli_epi16(nibbles, 4), entries)};
#else
  return {_mm512_shuffle_epi8(entries, low_nibbles(nibbles)), _mm512_shuffle_epi8(entries, high_nibbles(nibbles))};
#endif
}

// Partial sums of four rows: lane 4 * l + r is what lanes 4 * l to 4 * l + 3 of row r add up to.
inline __m512i add_rows(const __m512i (&rows)[kFusedRows]) {
  return add_quads(add_halves(rows[0], rows[1]), add_halves(rows[2], rows[3]));
}
// The same of lanes that are no larger than kMost. As words they are added up in pairs by products with ones, in fewer
// steps and with half as much to rearrange.
template <int kMost>
inline __m512i add_small_rows(const __m512i (&rows)[kFusedRows]) {
  constexpr int kMostWord = 32767;
  if constexpr (kMost > kMostWord) {
    return add_rows(rows);
  } else {
    const __m512i ones = _mm512_set1_epi16(1);
    const __m512i first = _mm512_madd_epi16(_mm512_packs_epi32(rows[0], rows[1]), ones);
    const __m512i second = _mm512_madd_epi16(_mm512_packs_epi32(rows[2], rows[3]), ones);
    if constexpr (2 * kMost <= kMostWord) {
      return _mm512_madd_epi16(_mm512_packs_epi32(first, second), ones);
    } else {
      const __m512 x = _mm512_castsi512_ps(first), y = _mm512_castsi512_ps(second);
      return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)),
                              _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xDD)));
    }
  }
}
// Lanes 4 * l + r added up over l.
inline __m128i add_lanes(__m512i x) {
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
