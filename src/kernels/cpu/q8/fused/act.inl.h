// What the fused products share on all instruction sets: four weight rows side by side, and the activations as they
// want them.
//
// Sums of four rows come into being together, a lane for each: what is the same for the rows is done once, and their
// partial sums are added up in a quarter of the steps.
#pragma once

#include "kernels/cpu/q8/rows.inl.h"

#if defined(__AVX2__)

namespace strata::kernels::STRATA_ISA_NS {

constexpr int kFusedRows = 4;
// Columns of the types that take four groups of 32 at a time: the last ones of a row may be fewer. Other types take as
// many as a block has.
constexpr int64_t kFourGroupCols = 128;

// The bytes of four rows from some column on.
struct FourRows {
  const uint8_t* at[kFusedRows];
};

// An activation row from some column on, prepared for a type; zeros behind its last column.
struct FusedAct {
  const int8_t* codes;   // in the type's order
  const uint8_t* sums;   // as the type's kSums says
  const float* d;        // one per 256 or 32 columns
  const void* codebook;  // the type's own, or null
};

// What a type's products need of the sums of activations.
enum class FusedSums : uint8_t {
  kNone,
  kMins32,          // int16 [2][8] for 256 columns: four zeros, then the sums of four groups of 32
  kPlain32,         // int16 [8], of groups of 32
  kPlain16,         // int16 [16], as they are
  kOffset,          // int32: of all 256, times -offset of the codes
  kNegated16,       // int16 [16], times -1
  kOffsets16,       // int32 [16], of groups of 16, times -offset of the codes
  kSplitOffsets16,  // the same, of groups 0 and 1 of each four, then of groups 2 and 3 of each
  kOffsets32,       // int32 [8], of groups of 32, times -offset of the codes
  kTwinOffsets32,   // the same, each twice
  // Of each 128 columns int32 [16], times -offset of the codes:
  kSpreadOffsets32,  // of four groups of 32, each four times
  kLaneOffsets,      // of what lane i multiplies: codes 4 * i to 4 * i + 3, and those 64 further, in the type's order
  kFloats32          // float [8], of groups of 32
};

// How the columns of an order are dealt out, where it is not one of pieces.
enum class ActDeal : uint8_t {
  kNone,
  kFourths,       // column 0 of each four, then column 1 of each, and so on
  kEighths,       // the same with eight
  kTwinEighths,   // the same, each four columns twice
  kFourthsOf64,   // the same with four, 64 columns at a time
  kSplitFourths,  // the same with four, each of the first 32 of each 64 columns, then of the others
  kEighthsOf128,
  kRunPairs,       // columns 0, 2, 4 and 6 of each sixteen, then 1, 3, 5 and 7, then 8 to 14, then 9 to 15
  kSplitRunPairs,  // the same, each of the eight of the first 32 of each 64 columns, then of the others
};

// An order of 256 columns: of sixteen pieces of 16, or dealt out.
struct ActOrder {
  uint8_t piece[16];
  ActDeal deal = ActDeal::kNone;
};
// How often an order has each column.
constexpr int act_copies(const ActOrder& order) { return order.deal == ActDeal::kTwinEighths ? 2 : 1; }
constexpr ActOrder kPlainOrder = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
// Nibbles of 32 bytes: 0-31 and 64-95, then 32-63 and 96-127.
constexpr ActOrder kNibbles32Order = {{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}};
// Nibbles of 16 bytes: the lower halves of four groups of 32, then the upper ones.
constexpr ActOrder kNibbles16Order = {{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15}};
constexpr ActOrder kRunsOrder = {{}, ActDeal::kEighths};
constexpr ActOrder kTwinRunsOrder = {{}, ActDeal::kTwinEighths};
constexpr ActOrder kQuadsOrder = {{}, ActDeal::kFourths};
constexpr ActOrder kSplitQuadsOrder = {{}, ActDeal::kSplitFourths};
constexpr ActOrder kQuads64Order = {{}, ActDeal::kFourthsOf64};
constexpr ActOrder kRuns128Order = {{}, ActDeal::kEighthsOf128};
constexpr ActOrder kSplitRunPairsOrder = {{}, ActDeal::kSplitRunPairs};
constexpr ActOrder kRunPairsOrder = {{}, ActDeal::kRunPairs};

inline uint64_t u64_at(const uint8_t* p) {
  uint64_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

// The first of the prepared sums that are int32, in all lanes.
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

// Of float16 d and dmin of each row: d times the activations' scale, then dmin times it.
inline __m256 scales_and_mins(__m128i both, const FusedAct& a) {
  const __m128i halves = _mm_shuffle_epi8(both, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  return _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_broadcast_ss(a.d));
}

// y + isum * d_w * d_a, as q8/rows.inl.h defines it.
inline __m128 add_scaled(__m128 y, __m128i isums, __m128 scales) {
  return _mm_fmadd_ps(_mm_cvtepi32_ps(isums), scales, y);
}

// Bytes ahead of the block at hand that are asked for in each row; measured best of 0 to 4096.
constexpr size_t kPrefetchBytes = 1536;

// Asks for a line to be brought near. Not by __builtin_prefetch: GCC takes a function that does nothing else for one
// without effects, and drops calls of it (those of types that are templates).
inline void prefetch(const uint8_t* p) { asm volatile("prefetcht0 %0" : : "m"(*p)); }

// Asks for the bytes of a block far ahead to be brought near, a block at a time: in bursts they would fill the queue of
// outstanding lines and hold up the loads behind them.
template <size_t kBytes>
inline void prefetch_block(const FourRows& rows) {
  for (const uint8_t* p : rows.at) {
    for (size_t i = 0; i < kBytes; i += 64) prefetch(p + kPrefetchBytes + i);
  }
}

// Asks for all that prefetch_block takes for granted at the first block: the bytes up to those it asks for itself. The
// rows take turns, so that what is needed first comes first.
inline void prefetch_start(const FourRows& rows) {
  for (size_t i = 0; i < kPrefetchBytes; i += 64) {
    for (const uint8_t* p : rows.at) prefetch(p + i);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
