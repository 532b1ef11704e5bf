// Products of float32 activations with weight rows of any type.
//
// Every sum of products in this file has one order, whatever is computed beside it: step s multiplies vector s of the
// row (kLanes elements, the last one padded with zeros) and adds to accumulator s % kAccumulators; in the end
// accumulators are added pairwise and then the lanes (sum in simd.h).
#pragma once

#include "kernels/cpu/decode.inl.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

// Four independent chains hide most of the latency of a fused multiply-add.
constexpr int kAccumulators = 4;
// Tokens that share one pass over a row: as many as the vector registers hold accumulators for.
constexpr int kTokenTile = Vec::kLanes == 16 ? 6 : 3;

// out[t * out_stride] = sum_i w[i] * x[t * x_stride + i] for kTokens tokens.
template <int kTokens>
inline void dot_tokens(const float* w, const float* x, int64_t x_stride, int64_t n, float* out, int64_t out_stride) {
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
  for (int t = 0; t < kTokens; t++) {
    out[t * out_stride] = sum((acc[t][0] + acc[t][1]) + (acc[t][2] + acc[t][3]));
  }
}

// One row with the rest of the tokens, fewer than a tile: one pass of exactly that width.
template <int kTokens>
inline void dot_rest(int64_t n_tokens, const float* w, const float* x, int64_t x_stride, int64_t n, float* out,
                     int64_t out_stride) {
  if constexpr (kTokens > 0) {
    if (n_tokens == kTokens) {
      dot_tokens<kTokens>(w, x, x_stride, n, out, out_stride);
    } else {
      dot_rest<kTokens - 1>(n_tokens, w, x, x_stride, n, out, out_stride);
    }
  }
}

// The row as floats: in place where it is an array of float32 already, else decoded into scratch.
static const float* row_floats(const Matrix& w, int64_t row, float* scratch) {
  const uint8_t* packed = w.data + static_cast<size_t>(row) * w.row_bytes;
  if (w.type == quant::Type::F32 && reinterpret_cast<uintptr_t>(packed) % alignof(float) == 0) {
    return reinterpret_cast<const float*>(packed);
  }
  decode(w.type, packed, scratch, static_cast<size_t>(w.cols));
  return scratch;
}

static void matmul(const Matrix& w, int64_t row_begin, int64_t row_end, const float* x, int64_t x_stride,
                   int64_t n_tokens, float* y, int64_t y_stride, float* scratch) {
  for (int64_t r = row_begin; r < row_end; r++) {
    const float* row = row_floats(w, r, scratch);
    int64_t t = 0;
    for (; t + kTokenTile <= n_tokens; t += kTokenTile) {
      dot_tokens<kTokenTile>(row, x + t * x_stride, x_stride, w.cols, y + t * y_stride + r, y_stride);
    }
    dot_rest<kTokenTile - 1>(n_tokens - t, row, x + t * x_stride, x_stride, w.cols, y + t * y_stride + r, y_stride);
  }
}

static float dot(const float* a, const float* b, int64_t n) {
  float out;
  dot_tokens<1>(a, b, 0, n, &out, 0);
  return out;
}

static void axpy(float a, const float* x, float* y, int64_t n) {
  const Vec scale = Vec::set(a);
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    store_upto(load_upto(y + i, n - i).fma(scale, load_upto(x + i, n - i)), y + i, n - i);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
