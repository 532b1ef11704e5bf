// Vectors of 512 bits of four weight rows.
#pragma once

#include "kernels/cpu/q8/fused/act.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

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

// Partial sums of four rows: lane 4 * l + r is what lanes 4 * l to 4 * l + 3 of row r add up to.
inline __m512i add_rows(const __m512i (&rows)[kFusedRows]) {
  return add_quads(add_halves(rows[0], rows[1]), add_halves(rows[2], rows[3]));
}
// Lanes 4 * l + r added up over l.
inline __m128i add_lanes(__m512i x) {
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
