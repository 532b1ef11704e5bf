// From the logits of a row to its experts and their weights, by one block. Formulas and ties are those of
// kernels/route.cpp; exponents and their sums are formed in double, as there, in another order.
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/route.h"

namespace strata::kernels::cuda {

inline constexpr double kRouteWeightSumMin = 6.103515625e-05;

__device__ __forceinline__ float lowest() { return -__builtin_inff(); }
__device__ __forceinline__ double sigmoid_of(double x) { return 1.0 / (1.0 + exp(-x)); }

// Folds the values of all threads in a fixed order; the result in every thread.
template <int kThreads, class T, class Fold>
__device__ T fold_block(T x, const Fold& fold) {
  __shared__ T warps[kThreads / kWarp];
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x = fold(x, __shfl_xor_sync(kAllLanes, x, step));
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = warps[0];
  for (int i = 1; i < kThreads / kWarp; i++) x = fold(x, warps[i]);
  return x;
}

// The exponents of n logits over their maximum go to `exponents`; their sum. A NaN ends up in it.
template <int kThreads>
__device__ double exponents_of(const float* logits, int n, double* exponents) {
  float maximum = lowest();
  for (int i = threadIdx.x; i < n; i += kThreads) maximum = fmaxf(maximum, logits[i]);
  maximum = fold_block<kThreads>(maximum, [](float x, float y) { return fmaxf(x, y); });
  double total = 0;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    exponents[i] = exp(double{logits[i]} - double{maximum});
    total += exponents[i];
  }
  return fold_block<kThreads>(total, [](double x, double y) { return x + y; });
}

// Sum of the two best scores of a group; of the one where there is only one.
__device__ inline float group_score(const float* scores, int size) {
  float best = lowest(), second = lowest();
  for (int i = 0; i < size; i++) {
    if (scores[i] > best) {
      second = best;
      best = scores[i];
    } else if (scores[i] > second) {
      second = scores[i];
    }
  }
  return size > 1 ? best + second : best;
}

// Lowers the scores of the experts outside the best groups.
__device__ inline void mask_groups(const RouteParams& params, float* scores, float* group_scores, int lane) {
  const int size = params.n_experts / params.n_groups;
  for (int g = lane; g < params.n_groups; g += kWarp) group_scores[g] = group_score(scores + g * size, size);
  __syncwarp();
  for (int g = lane; g < params.n_groups; g += kWarp) {
    int ahead = 0;
    for (int other = 0; other < params.n_groups; other++) {
      const bool beats = group_scores[other] > group_scores[g] || (group_scores[other] == group_scores[g] && other < g);
      if (beats) ahead++;
    }
    if (ahead < params.n_groups_used) continue;
    for (int i = 0; i < size; i++) scores[g * size + i] = lowest();
  }
  __syncwarp();
}

// A number that is the larger the larger the score; 0 is less than that of any score.
__device__ __forceinline__ unsigned score_key(float score) {
  const unsigned bits = __float_as_uint(score + 0.0f);  // one zero for both
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// Puts the k best experts in order into `chosen`, by all threads of the block: an expert's place is the number of those
// that beat it, with a larger key or the same one and a smaller number. keys: [n], and zeros behind to a multiple of 4.
template <int kThreads>
__device__ void choose(const unsigned* keys, int n, int k, int32_t* chosen) {
  for (int e = threadIdx.x; e < n; e += kThreads) {
    const unsigned own = keys[e];
    int place = 0;
#pragma unroll 4
    for (int i = 0; i < n; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(keys + i);
      place += four.x > own || (four.x == own && i < e);
      place += four.y > own || (four.y == own && i + 1 < e);
      place += four.z > own || (four.z == own && i + 2 < e);
      place += four.w > own || (four.w == own && i + 3 < e);
    }
    if (place < k) chosen[place] = e;
  }
}

// Shared memory of a row: numbers of each expert, whose count is rounded up to a multiple of 4.
struct RouteScratch {
  double* parts;  // what an expert's weight is in proportion to: exponents, or sigmoids of the logits
  float* scores;
  unsigned* keys;
  float* logits;
  int32_t* chosen;
  float* group_scores;
  __device__ RouteScratch(void* at, int n) {
    const int padded = (n + 3) / 4 * 4;
    parts = static_cast<double*>(at);
    scores = reinterpret_cast<float*>(parts + padded);
    keys = reinterpret_cast<unsigned*>(scores + padded);
    logits = reinterpret_cast<float*>(keys + padded);
    chosen = reinterpret_cast<int32_t*>(logits + padded);
    group_scores = reinterpret_cast<float*>(chosen);  // which are not there yet
  }
};
inline size_t route_scratch_bytes(int n_experts) {
  return static_cast<size_t>((n_experts + 3) / 4 * 4) * (sizeof(double) + 4 * sizeof(float));
}

// The weights of the chosen experts, by the first warp. total: of all parts; with `selected` parts are made here.
__device__ inline void finish_weights(const RouteArgs& a, int64_t row, const RouteScratch& s, bool selected,
                                      double total, int lane) {
  const RouteParams& params = a.params;
  const int k = params.n_used;
  if (selected) {
    const double maximum = s.logits[s.chosen[0]];
    double sum = 0;
    for (int j = lane; j < k; j += kWarp) {
      s.parts[s.chosen[j]] = exp(double{s.logits[s.chosen[j]]} - maximum);
      sum += s.parts[s.chosen[j]];
    }
    total = warp_sum(sum);
  }
  double factor = 1;
  if (params.normalize && !selected) {
    double sum = 0;
    for (int j = lane; j < k; j += kWarp) sum += s.parts[s.chosen[j]] / total;
    sum = warp_sum(sum);
    factor /= sum > kRouteWeightSumMin ? sum : kRouteWeightSumMin;
  }
  if (params.scale != 0) factor *= double{params.scale};
  float* weights = a.weights + row * a.weights_stride;
  for (int j = lane; j < k; j += kWarp) weights[j] = static_cast<float>(s.parts[s.chosen[j]] / total * factor);
}

// Whether weights are in proportion to the exponents of the logits that are chosen, and those are the largest ones: the
// sum over all experts cancels then, as the least sum that it is divided by is far below that of any k of them.
__host__ __device__ inline bool by_logits(const RouteArgs& a) {
  if (a.params.gating == Gating::kSoftmaxSelected) return true;
  return a.params.gating == Gating::kSoftmax && a.params.normalize && a.selection_bias == nullptr &&
         a.params.n_groups <= 1;
}

// What a softmax over all logits makes of a row with one that is not a number.
__device__ inline void route_broken(const RouteArgs& a, int64_t row) {
  for (int j = static_cast<int>(threadIdx.x); j < a.params.n_used; j += static_cast<int>(blockDim.x)) {
    a.ids[row * a.ids_stride + j] = j;
    a.weights[row * a.weights_stride + j] = __builtin_nanf("");
  }
}

// The score that has a key.
__device__ __forceinline__ float score_of_key(unsigned key) {
  return __uint_as_float((key >> 31) != 0 ? key ^ 0x80000000u : ~key);
}

inline constexpr int kOfLane = 4;  // experts of a lane where one warp chooses

// The k best of kOfLane * kWarp experts, of which lane l has keys of four from 4 l on, 0 for none. Expert and key of
// rank j come to lane j; of equal keys the one of the smaller number comes first.
__device__ inline void choose_by_warp(unsigned (&keys)[kOfLane], int k, int lane, int& expert, unsigned& key) {
  expert = 0;
#pragma unroll 1
  for (int j = 0; j < k; j++) {
    const unsigned own = max(max(keys[0], keys[1]), max(keys[2], keys[3]));
    const unsigned best = warp_max(own);
    const int first = __ffs(static_cast<int>(__ballot_sync(kAllLanes, own == best))) - 1;
    const int at = keys[0] == best ? 0 : keys[1] == best ? 1 : keys[2] == best ? 2 : 3;
    const int found = __shfl_sync(kAllLanes, lane * kOfLane + at, first);
#pragma unroll
    for (int i = 0; i < kOfLane; i++) keys[i] = lane == first && at == i ? 0 : keys[i];
    key = lane == j ? best : key;
    expert = lane == j ? found : expert;
  }
}

// Whether route_by_one_warp() serves: weights are by_logits(), and experts are few.
__host__ __device__ inline bool one_warp_routes(const RouteArgs& a) {
  return by_logits(a) && a.selection_bias == nullptr && a.params.n_groups <= 1 &&
         a.params.n_experts <= kOfLane * kWarp && a.params.n_used <= kWarp;
}

// route_logits() where one_warp_routes(), by the first warp of a block; weights are formed in float32.
__device__ inline void route_by_one_warp(const RouteArgs& a, int64_t row, const RouteScratch& s) {
  const int n = a.params.n_experts, k = a.params.n_used, lane = static_cast<int>(threadIdx.x);
  unsigned keys[kOfLane];
  bool numbers = true;
#pragma unroll
  for (int i = 0; i < kOfLane; i++) {
    const int e = lane * kOfLane + i;
    const float logit = e < n ? s.logits[e] : 0;
    numbers = numbers && !isnan(logit);
    keys[i] = e < n ? score_key(isnan(logit) ? lowest() : logit) : 0;
  }
  numbers = __all_sync(kAllLanes, numbers) != 0;
  if (!numbers && a.params.gating == Gating::kSoftmax) return route_broken(a, row);
  int expert;
  unsigned key = 0;
  choose_by_warp(keys, k, lane, expert, key);
  const float logit = numbers ? score_of_key(key) : s.logits[expert], largest = __shfl_sync(kAllLanes, logit, 0);
  const float part = lane < k ? expf(logit - largest) : 0;
  const float weight = part / warp_sum(part) * (a.params.scale != 0 ? a.params.scale : 1.0f);
  if (lane >= k) return;
  a.ids[row * a.ids_stride + lane] = expert;
  a.weights[row * a.weights_stride + lane] = weight;
}

// Routes a row whose logits are in s.logits, by all kThreads threads of the block, which has seen them.
template <int kThreads>
__device__ void route_logits(const RouteArgs& a, int64_t row, const RouteScratch& s) {
  const RouteParams& params = a.params;
  const int n = params.n_experts, k = params.n_used, lane = threadIdx.x % kWarp;
  const bool selected = by_logits(a), grouped = params.n_groups > 1;
  double total = 1;
  if (!selected && params.gating == Gating::kSoftmax) total = exponents_of<kThreads>(s.logits, n, s.parts);
  bool broken = false;
  for (int e = threadIdx.x; e < (n + 3) / 4 * 4; e += kThreads) {
    s.keys[e] = 0;
    if (e >= n) continue;
    broken = broken || isnan(s.logits[e]);
    if (params.gating == Gating::kSigmoid) s.parts[e] = sigmoid_of(s.logits[e]);
    const float score = selected ? s.logits[e] : static_cast<float>(s.parts[e] / total);
    const float sum = score + (a.selection_bias != nullptr ? a.selection_bias[e] : 0.0f);
    const float chosen_by = isnan(sum) ? lowest() : sum;
    s.scores[e] = chosen_by;
    s.keys[e] = score_key(chosen_by);
  }
  if (__syncthreads_or(broken) != 0 && params.gating == Gating::kSoftmax && selected) return route_broken(a, row);
  if (grouped) {
    if (threadIdx.x < kWarp) {
      mask_groups(params, s.scores, s.group_scores, lane);
      for (int e = lane; e < n; e += kWarp) s.keys[e] = score_key(s.scores[e]);
    }
    __syncthreads();
  }
  choose<kThreads>(s.keys, n, k, s.chosen);
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  for (int j = lane; j < k; j += kWarp) a.ids[row * a.ids_stride + j] = s.chosen[j];
  finish_weights(a, row, s, selected, total, lane);
}

}  // namespace strata::kernels::cuda
