// What the fused products share: four weight rows side by side, and the activations as they want them.
//
// Sums of four rows come into being together, a lane for each: what is the same for the rows is done once, and their
// partial sums are added up in a quarter of the steps.
#pragma once

#include "kernels/cpu/q8/rows.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

constexpr int kFusedRows = 4;

// The bytes of four rows from some column on.
struct FourRows {
  const uint8_t* at[kFusedRows];
};

// An activation row from some column on, prepared for a type; zeros behind its last column.
struct FusedAct {
  const int8_t* codes;   // in the type's order
  const uint8_t* sums;   // as the type's kSums says, kSumBytes for each 256 columns
  const float* d;        // one per 256 or 32 columns
  const void* codebook;  // the type's own, or null
};

// What a type's products need of the sums of activations.
enum class FusedSums : uint8_t {
  kNone,
  kMins32,     // int16 [2][8] for 256 columns: four zeros, then the sums of four groups of 32
  kPlain16,    // int16 [16], as they are
  kOffset,     // int32: of all 256, times -offset of the codes
  kNegated16,  // int16 [16], times -1
  kOffsets16,  // int32 [16], of groups of 16, times -offset of the codes
  kOffsets32,  // int32 [8], of groups of 32, times -offset of the codes
  kRuns,       // int16 [32], of runs of 8 columns
  kFloats32    // float [8], of groups of 32
};

// An order of 256 columns: of sixteen pieces of 16, or with a stride n column 0 of each n, then column 1 of each.
struct ActOrder {
  uint8_t piece[16];
  int stride = 1;
};
constexpr ActOrder kPlainOrder = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
// Nibbles of 32 bytes: 0-31 and 64-95, then 32-63 and 96-127.
constexpr ActOrder kNibbles32Order = {{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}};
// Nibbles of 16 bytes: the lower halves of four groups of 32, then the upper ones.
constexpr ActOrder kNibbles16Order = {{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15}};

constexpr ActOrder kRunsOrder = {{}, 8};
constexpr ActOrder kQuadsOrder = {{}, 4};

inline uint64_t u64_at(const uint8_t* p) {
  uint64_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

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

// The sum that kOffset prepares.
inline __m128i broadcast_sum(const FusedAct& a) { return _mm_set1_epi32(static_cast<int>(u32_at(a.sums))); }

// A float16 of each row, `offset` bytes behind its place.
inline __m128 four_f16(const FourRows& rows, size_t offset) {
  const auto at = [&](int r) { return uint64_t{u16_at(rows.at[r] + offset)}; };
  return _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<int64_t>(at(0) | at(1) << 16 | at(2) << 32 | at(3) << 48)));
}

// Four bytes of each row.
inline __m128i four_u32(const FourRows& rows, size_t offset) {
  const auto at = [&](int r) { return static_cast<int>(u32_at(rows.at[r] + offset)); };
  return _mm_setr_epi32(at(0), at(1), at(2), at(3));
}

// y + isum * d_w * d_a, as q8/rows.inl.h defines it.
inline __m128 add_scaled(__m128 y, __m128i isums, __m128 scales) {
  return _mm_fmadd_ps(_mm_cvtepi32_ps(isums), scales, y);
}

// Bytes ahead of the block at hand that are asked for in each row; measured best of 0 to 4096.
constexpr size_t kPrefetchBytes = 1536;

// Asks for the bytes of a block far ahead to be brought near, a block at a time: in bursts they would fill the queue of
// outstanding lines and hold up the loads behind them.
template <size_t kBytes>
inline void prefetch_block(const FourRows& rows) {
  for (const uint8_t* p : rows.at) {
    for (size_t i = 0; i < kBytes; i += 64) __builtin_prefetch(p + kPrefetchBytes + i, 0, 3);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
