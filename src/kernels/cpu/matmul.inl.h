// Products of float32 activations with weight rows of any type.
//
// Every sum of products has one order, whatever is computed beside it. A row is cut into chunks of kChunk columns. In a
// chunk, step s multiplies vector s (kLanes elements, the last one padded with zeros) and adds to accumulator
// s % kAccumulators; in the end accumulators are added pairwise and then the lanes (sum in simd.h). The chunks' sums
// are added in their order.
//
// A chunk of several decoded rows stays in the first-level cache beside a tile of tokens, so that activations come from
// farther away once for the group of rows and not once a row.
#pragma once

#include "kernels/cpu/decode.inl.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

// A multiple of every block. 4 KiB of each token and row.
constexpr int64_t kChunk = 1024;
// Rows decoded together, when the scratch row has room for them.
constexpr int64_t kRowGroup = 8;
// Four independent chains hide most of the latency of a fused multiply-add.
constexpr int kAccumulators = 4;
// Tokens that share one pass over a row: as many as the vector registers hold accumulators for.
constexpr int kTokenTile = Vec::kLanes == 16 ? 6 : 3;

// sums[t] = sum_i w[i] * x[t * x_stride + i] for kTokens tokens, as one chunk.
template <int kTokens>
inline void dot_tokens(const float* w, const float* x, int64_t x_stride, int64_t n, float* sums) {
  Vec acc[kTokens][kAccumulators];
  for (auto& token : acc) {
    for (Vec& a : token) a = Vec::zero();
  }
  int64_t i = 0;
  for (; i + kAccumulators * Vec::kLanes <= n; i += kAccumulators * Vec::kLanes) {
#pragma GCC unroll 4
    for (int a = 0; a < kAccumulators; a++) {
      const Vec row = Vec::load(w + i + a * Vec::kLanes);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; t++) {
        acc[t][a] = acc[t][a].fma(row, Vec::load(x + t * x_stride + i + a * Vec::kLanes));
      }
    }
  }
#pragma GCC unroll 4
  for (int a = 0; a < kAccumulators; a++, i += Vec::kLanes) {
    if (i >= n) break;
    const Vec row = load_upto(w + i, n - i);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; t++) {
      acc[t][a] = acc[t][a].fma(row, load_upto(x + t * x_stride + i, n - i));
    }
  }
  for (int t = 0; t < kTokens; t++) sums[t] = sum((acc[t][0] + acc[t][1]) + (acc[t][2] + acc[t][3]));
}

// The same columns of neighbouring rows as floats.
struct RowGroup {
  const float* row[kRowGroup];  // [n_rows], n_cols values each
  int64_t n_rows;
  int64_t n_cols;
  bool first;  // the rows' first columns: sums start here
};

// x and y of the tokens at hand, at the group's first column and first row.
struct Tokens {
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  Tokens from(int64_t t) const { return {x + t * x_stride, x_stride, y + t * y_stride, y_stride}; }
};

template <int kTokens>
inline void add_products(const RowGroup& rows, const Tokens& tokens) {
  for (int64_t r = 0; r < rows.n_rows; r++) {
    float sums[kTokens];
    dot_tokens<kTokens>(rows.row[r], tokens.x, tokens.x_stride, rows.n_cols, sums);
    for (int t = 0; t < kTokens; t++) {
      float& y = tokens.y[t * tokens.y_stride + r];
      y = rows.first ? sums[t] : y + sums[t];
    }
  }
}

// Fewer tokens than a tile: one pass of exactly that width.
template <int kTokens>
inline void add_rest(const RowGroup& rows, const Tokens& tokens, int64_t n_tokens) {
  if constexpr (kTokens > 0) {
    if (n_tokens == kTokens) {
      add_products<kTokens>(rows, tokens);
    } else {
      add_rest<kTokens - 1>(rows, tokens, n_tokens);
    }
  }
}

// n columns of a row from `column` on, a multiple of the block: in place where they are an array of float32 already,
// else decoded into scratch.
static const float* row_floats(const Matrix& w, int64_t row, int64_t column, int64_t n, float* scratch) {
  const quant::TypeInfo& layout = kFormats.by_id[static_cast<uint32_t>(w.type)].info;
  const uint8_t* packed = w.data + static_cast<size_t>(row) * w.row_bytes +
                          static_cast<size_t>(column) / layout.block_elems * layout.block_bytes;
  if (w.type == quant::Type::F32 && reinterpret_cast<uintptr_t>(packed) % alignof(float) == 0) {
    return reinterpret_cast<const float*>(packed);
  }
  decode(w.type, packed, scratch, static_cast<size_t>(n));
  return scratch;
}

static void matmul(const Matrix& w, int64_t row_begin, int64_t row_end, const float* x, int64_t x_stride,
                   int64_t n_tokens, float* y, int64_t y_stride, float* scratch) {
  const int64_t rows_fit = w.cols < 2 * kChunk ? 1 : w.cols / kChunk;
  const int64_t group_rows = rows_fit < kRowGroup ? rows_fit : kRowGroup;
  for (int64_t r = row_begin; r < row_end; r += group_rows) {
    RowGroup rows{};
    rows.n_rows = row_end - r < group_rows ? row_end - r : group_rows;
    int64_t column = 0;
    do {
      rows.n_cols = w.cols - column < kChunk ? w.cols - column : kChunk;
      rows.first = column == 0;
      for (int64_t i = 0; i < rows.n_rows; i++) {
        rows.row[i] = row_floats(w, r + i, column, rows.n_cols, scratch + i * kChunk);
      }
      const Tokens tokens{x + column, x_stride, y + r, y_stride};
      int64_t t = 0;
      for (; t + kTokenTile <= n_tokens; t += kTokenTile) add_products<kTokenTile>(rows, tokens.from(t));
      add_rest<kTokenTile - 1>(rows, tokens.from(t), n_tokens - t);
      column += kChunk;
    } while (column < w.cols);
  }
}

static float dot(const float* a, const float* b, int64_t n) {
  float out;
  dot_tokens<1>(a, b, 0, n, &out);
  return out;
}

static void axpy(float a, const float* x, float* y, int64_t n) {
  const Vec scale = Vec::set(a);
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    store_upto(load_upto(y + i, n - i).fma(scale, load_upto(x + i, n - i)), y + i, n - i);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
