// Weighted sums of values: acc_i = rescale_i * acc_i + sum_t weight_i[t] * value_t, in order of t.
#pragma once

#include "kernels/cpu/attention/scores.inl.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

struct ValueSums {
  float* acc;  // [n_queries][acc_stride]
  int64_t acc_stride;
  const float* rescale;  // [n_queries]
  FloatRows weights;     // [n_queries][n]
};

// kQueries queries from `first` on, kVecs vectors of the values from element d on.
template <int kQueries, int kVecs>
static inline void add_values_at(const ValueSums& sums, FloatRows values, int n, int first, int d) {
  Vec total[kQueries][kVecs];
  for (int i = 0; i < kQueries; i++) {
    const Vec rescale = Vec::set(sums.rescale[first + i]);
    const float* acc = sums.acc + (first + i) * sums.acc_stride + d;
    for (int v = 0; v < kVecs; v++) total[i][v] = Vec::load(acc + v * Vec::kLanes) * rescale;
  }
  const float* value = values.data + d;
  const float* weights = sums.weights[first];
  for (int t = 0; t < n; t++, value += values.stride) {
    Vec x[kVecs];
    for (int v = 0; v < kVecs; v++) x[v] = Vec::load(value + v * Vec::kLanes);
    for (int i = 0; i < kQueries; i++) {
      const Vec weight = Vec::set(weights[i * sums.weights.stride + t]);
      for (int v = 0; v < kVecs; v++) total[i][v] = total[i][v].fma(weight, x[v]);
    }
  }
  for (int i = 0; i < kQueries; i++) {
    float* acc = sums.acc + (first + i) * sums.acc_stride + d;
    for (int v = 0; v < kVecs; v++) total[i][v].store(acc + v * Vec::kLanes);
  }
}

// As many sums at once as registers hold, and enough of them that no addition waits for the one before.
static constexpr int kSumVecs = Vec::kLanes == 16 ? 4 : 2;

template <int kQueries, int kVecs>
static inline void add_values_of(const ValueSums& sums, FloatRows values, int n, int first, int width) {
  int d = 0;
  for (; d + kVecs * Vec::kLanes <= width; d += kVecs * Vec::kLanes)
    add_values_at<kQueries, kVecs>(sums, values, n, first, d);
  for (; d < width; d += Vec::kLanes) add_values_at<kQueries, 1>(sums, values, n, first, d);
}

// n values of `width` elements, a multiple of kLanes.
static void add_values(const ValueSums& sums, int n_queries, FloatRows values, int n, int width) {
  int i = 0;
  for (; i + 4 <= n_queries; i += 4) add_values_of<4, kSumVecs>(sums, values, n, i, width);
  for (; i + 2 <= n_queries; i += 2) add_values_of<2, kSumVecs>(sums, values, n, i, width);
  for (; i < n_queries; i++) add_values_of<1, 2 * kSumVecs>(sums, values, n, i, width);
}

}  // namespace strata::kernels::STRATA_ISA_NS
