// Integer products of a few rows of 8-bit activations with weight rows.
//
// The result of a (weight row, activation row) has one definition, whatever computes it: blocks in order,
//   super-blocks: y = fma(isum, d_w * d_a, y), then with mins y = fma(msum, -(dmin_w * d_a), y), where the integers
//     isum = sum_g scale[g] * sum_i (code - offset) * a and msum = sum_g min[g] * sum_i a are exact;
//   blocks: y = fma(isum, d_w * d_a, y), then with addends y = fma(asum, m_w * d_a, y).
// So its bits depend neither on the instruction set (where it has fused multiply-add) nor on what is computed beside
// it.
#pragma once

#include "kernels/cpu/q8/sums256.inl.h"
#include "kernels/cpu/q8/sums512.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

// What the products of a strip are formed in; one per thread, in the caller's scratch.
struct RowsScratch {
  alignas(64) uint8_t codes[kSuperChunk];
  int16_t scales[kSuperChunk / kGroup];
  int16_t mins[kSuperChunk / kGroup];
  float d[kMaxGroups * kStripRows];  // [group or super-block][row]
  float m[kMaxGroups * kStripRows];
  float y[kTokensAtOnce];
#if defined(__AVX512F__)
  alignas(64) __m512i parts[kFewRows][kMaxGroups / 4 * kStripRows];
#elif defined(__AVX2__)
  alignas(64) __m256i parts[kFewRows][kMaxGroups / 2 * kRowLanes];
#endif
};
static_assert(kSuperChunk / kSuperCols <= kMaxGroups / 4 && kBlockChunk / 64 <= kMaxGroups / 4);
static_assert(2 * kSuperChunk / kSuperCols <= kMaxGroups / 2 && kBlockChunk / 32 <= kMaxGroups / 2);

static void unpack_row(const Q8Call& call, int64_t row, int64_t column, int64_t n_cols, RowsScratch& s, int lane) {
  const uint8_t* packed = call.packed(row, column);
  const int64_t n = call.blocks(n_cols);
  if (call.format.kind == ActFormat::kSuper) {
    call.format.super.unpack(packed, n, {s.codes, s.scales, s.mins, s.d + lane, s.m + lane, kStripRows});
  } else {
    call.format.block.unpack(packed, n, {s.codes, s.d + lane, s.m + lane, kStripRows});
    for (int64_t i = n_cols; i < act_cols(n_cols); i++) s.codes[i] = 0;
  }
}

#if defined(__AVX512F__)

template <bool kMins, bool kWide>
static void super_row(const RowsScratch& s, int64_t n_cols, int offset, const ActRow& a, const Parts& parts, int lane) {
  for (int64_t b = 0; b < n_cols / kSuperCols; b++) {
    *parts.unit(b, lane) =
        super_part<kMins, kWide>(s.codes + b * kSuperCols, s.scales + b * kSuperGroups, s.mins + b * kSuperGroups,
                                 offset, a.codes + b * kSuperCols, a.sums + b * kSuperGroups);
  }
}

static void row_parts(const Q8Format& format, const RowsScratch& s, int64_t n_cols, const ActRow& a, const Parts& parts,
                      int lane) {
  if (format.kind == ActFormat::kSuper) {
    const SuperFormat& super = format.super;
    if (super.mins()) return super_row<true, false>(s, n_cols, super.offset, a, parts, lane);
    if (super.wide()) return super_row<false, true>(s, n_cols, super.offset, a, parts, lane);
    return super_row<false, false>(s, n_cols, super.offset, a, parts, lane);
  }
  for (int64_t u = 0; u < act_cols(n_cols) / 64; u++) {
    *parts.unit(u, lane) = add_dot4(_mm512_setzero_si512(), load512(s.codes + 64 * u), load512(a.codes + 64 * u));
  }
}

#elif defined(__AVX2__)

template <bool kWide>
static void super_row(const SuperFormat& format, const RowsScratch& s, int64_t n_cols, const ActRow& a,
                      const Parts& parts, int lane) {
  for (int64_t b = 0; b < n_cols / kSuperCols; b++) {
    const __m256i sums = load256(a.sums + b * kSuperGroups);
    *parts.unit(2 * b, lane) = super_part<kWide>(s.codes + b * kSuperCols, s.scales + b * kSuperGroups, format.offset,
                                                 a.codes + b * kSuperCols, sums);
    if (format.mins()) *parts.unit(2 * b + 1, lane) = _mm256_madd_epi16(load256(s.mins + b * kSuperGroups), sums);
  }
}

template <bool kWide>
static void block_row(const RowsScratch& s, int64_t n_cols, const ActRow& a, const Parts& parts, int lane) {
  for (int64_t u = 0; u < n_cols / 32; u++) {
    *parts.unit(u, lane) = dot4<kWide>(load256(s.codes + 32 * u), load256(a.codes + 32 * u));
  }
}

static void row_parts(const Q8Format& format, const RowsScratch& s, int64_t n_cols, const ActRow& a, const Parts& parts,
                      int lane) {
  if (format.kind == ActFormat::kSuper) {
    if (format.super.wide()) return super_row<true>(format.super, s, n_cols, a, parts, lane);
    return super_row<false>(format.super, s, n_cols, a, parts, lane);
  }
  if (format.block.wide()) return block_row<true>(s, n_cols, a, parts, lane);
  block_row<false>(s, n_cols, a, parts, lane);
}

#endif

#if defined(__AVX2__)

// At most kFewRows activation rows.
static void few_rows(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, RowsScratch& s) {
  const int64_t chunk = call.chunk();
  for (int64_t first = row_begin; first < row_end; first += kRowLanes) {
    const int rows = static_cast<int>(row_end - first < kRowLanes ? row_end - first : kRowLanes);
    Vec sums[kFewRows];
    for (Vec& sum : sums) sum = Vec::zero();
    for (int64_t column = 0; column < call.w.cols; column += chunk) {
      const int64_t n_cols = call.w.cols - column < chunk ? call.w.cols - column : chunk;
      for (int r = 0; r < rows; r++) {
        unpack_row(call, first + r, column, n_cols, s, r);
        for (int64_t t = 0; t < n_tokens; t++) row_parts(call.format, s, n_cols, call.act(t, column), {s.parts[t]}, r);
      }
      for (int64_t t = 0; t < n_tokens; t++) {
        const ActRow a = call.act(t, column);
        if (call.format.kind == ActFormat::kSuper) {
          finish_super({s.parts[t]}, n_cols / kSuperCols, call.format.super.mins(), s.d, s.m, a.d, sums[t]);
        } else {
          finish_blocks({s.parts[t]}, n_cols, call.format.block, s.d, s.m, a, sums[t]);
        }
      }
    }
    for (int64_t t = 0; t < n_tokens; t++) store_sums(call.out, sums[t], t, first, rows);
  }
}

static void rows_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, void* scratch) {
  for (int64_t t = 0; t < n_tokens; t += kFewRows) {
    few_rows(call.from(t), row_begin, row_end, n_tokens - t < kFewRows ? n_tokens - t : kFewRows,
             *static_cast<RowsScratch*>(scratch));
  }
}

#else

// isum and msum of one super-block.
struct SuperSums {
  int32_t isum;
  int32_t msum;
};

static SuperSums super_sums(const SuperFormat& format, const uint8_t* codes, const int16_t* scales, const int16_t* mins,
                            const int8_t* a, const int16_t* a_sums) {
  SuperSums total{0, 0};
  for (int g = 0; g < kSuperGroups; g++) {
    int32_t dot = 0;
    for (int i = 0; i < kGroup; i++) dot += codes[kGroup * g + i] * a[kGroup * g + i];
    total.isum += scales[g] * (dot - format.offset * a_sums[g]);
    if (format.mins()) total.msum += mins[g] * a_sums[g];
  }
  return total;
}

static int32_t group_sum(const uint8_t* codes, const int8_t* a, int n) {
  int32_t dot = 0;
  for (int i = 0; i < n; i++) dot += codes[i] * a[i];
  return dot;
}

// A stretch of a weight row with one activation row.
static float row_product(const Q8Format& format, const RowsScratch& s, int64_t n_cols, const ActRow& a, float y) {
  if (format.kind == ActFormat::kSuper) {
    for (int64_t b = 0; b < n_cols / kSuperCols; b++) {
      const SuperSums sums = super_sums(format.super, s.codes + b * kSuperCols, s.scales + b * kSuperGroups,
                                        s.mins + b * kSuperGroups, a.codes + b * kSuperCols, a.sums + b * kSuperGroups);
      y += static_cast<float>(sums.isum) * (s.d[b * kStripRows] * a.d[b]);
      if (format.super.mins()) y -= static_cast<float>(sums.msum) * (s.m[b * kStripRows] * a.d[b]);
    }
    return y;
  }
  const BlockFormat& block = format.block;
  for (int64_t g = 0; g < n_cols / block.group; g++) {
    const int64_t at = g * block.group;
    const int32_t a_sum = a.sums[at / 16] + (block.group == 32 ? a.sums[at / 16 + 1] : 0);
    const int32_t isum = group_sum(s.codes + at, a.codes + at, block.group) - block.offset * a_sum;
    const float a_d = a.d[at / 32];
    y += static_cast<float>(isum) * (s.d[g * kStripRows] * a_d);
    if (block.addends) y += static_cast<float>(a_sum) * (s.m[g * kStripRows] * a_d);
  }
  return y;
}

static void rows_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, void* scratch) {
  RowsScratch& s = *static_cast<RowsScratch*>(scratch);
  const int64_t chunk = call.chunk();
  for (int64_t first = 0; first < n_tokens; first += kTokensAtOnce) {
    const int64_t tokens = n_tokens - first < kTokensAtOnce ? n_tokens - first : kTokensAtOnce;
    for (int64_t r = row_begin; r < row_end; r++) {
      for (int64_t column = 0; column < call.w.cols; column += chunk) {
        const int64_t n_cols = call.w.cols - column < chunk ? call.w.cols - column : chunk;
        unpack_row(call, r, column, n_cols, s, 0);
        for (int64_t t = 0; t < tokens; t++) {
          s.y[t] = row_product(call.format, s, n_cols, call.act(first + t, column), column == 0 ? 0.0f : s.y[t]);
        }
      }
      for (int64_t t = 0; t < tokens; t++) {
        float sum = s.y[t];
        if (call.out.bias != nullptr) sum += call.out.bias[r];
        float& y = call.out.y[(first + t) * call.out.y_stride + r];
        y = call.out.accumulate ? y + sum : sum;
      }
    }
  }
}

#endif

}  // namespace strata::kernels::STRATA_ISA_NS
