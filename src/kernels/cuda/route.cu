// One block for each row; the first warp chooses. Formulas and ties are those of kernels/route.cpp; exponents and their
// sums are formed in double, as there, in another order.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/route.h"

namespace strata::kernels::cuda {
namespace {

constexpr double kWeightSumMin = 6.103515625e-05;

__device__ __forceinline__ float lowest() { return -__builtin_inff(); }
__device__ __forceinline__ double sigmoid_of(double x) { return 1.0 / (1.0 + exp(-x)); }

constexpr int kThreads = 128;

// Folds the values of all threads in a fixed order; the result in every thread.
template <class T, class Fold>
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
__device__ double exponents_of(const float* logits, int n, double* exponents) {
  float maximum = lowest();
  for (int i = threadIdx.x; i < n; i += kThreads) maximum = fmaxf(maximum, logits[i]);
  maximum = fold_block(maximum, [](float x, float y) { return fmaxf(x, y); });
  double total = 0;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    exponents[i] = exp(double{logits[i]} - double{maximum});
    total += exponents[i];
  }
  return fold_block(total, [](double x, double y) { return x + y; });
}

// A score and where it stands: the better of two is the larger one, of equals the one in front.
struct Best {
  float score;
  int at;
};
__device__ __forceinline__ Best better(Best a, Best b) {
  if (b.at < 0 || (a.at >= 0 && (a.score > b.score || (a.score == b.score && a.at < b.at)))) return a;
  return b;
}
__device__ Best warp_best(Best x) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    x = better(x, {__shfl_xor_sync(kAllLanes, x.score, step), __shfl_xor_sync(kAllLanes, x.at, step)});
  }
  return x;
}

// Sum of the two best scores of a group; of the one where there is only one.
__device__ float group_score(const float* scores, int size) {
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
__device__ void mask_groups(const RouteParams& params, float* scores, float* group_scores, int lane) {
  const int size = params.n_experts / params.n_groups;
  for (int g = lane; g < params.n_groups; g += kWarp) group_scores[g] = group_score(scores + g * size, size);
  __syncwarp();
  for (int g = lane; g < params.n_groups; g += kWarp) {
    int ahead = 0;
    for (int other = 0; other < params.n_groups; other++) {
      const bool beats =
          group_scores[other] > group_scores[g] || (group_scores[other] == group_scores[g] && other < g);
      if (beats) ahead++;
    }
    if (ahead < params.n_groups_used) continue;
    for (int i = 0; i < size; i++) scores[g * size + i] = lowest();
  }
  __syncwarp();
}

// The lane's best expert that is not taken.
__device__ Best lane_best(const float* scores, const uint8_t* taken, int n, int lane) {
  Best best{lowest(), -1};
  for (int e = lane; e < n; e += kWarp) {
    if (taken[e] == 0) best = better(best, {scores[e], e});
  }
  return best;
}

// The k best experts in order, by the first warp: ids, and their places in `chosen`. Each lane keeps its best; only the
// lane that loses it looks again.
__device__ void choose(const float* scores, uint8_t* taken, int n, int k, int lane, int32_t* ids, int32_t* chosen) {
  Best mine = lane_best(scores, taken, n, lane);
  for (int j = 0; j < k; j++) {
    const Best best = warp_best(mine);
    if (lane == 0) ids[j] = chosen[j] = best.at;
    if (best.at % kWarp != lane) continue;
    taken[best.at] = 1;
    mine = lane_best(scores, taken, n, lane);
  }
  __syncwarp();
}

// The weights of the chosen experts, by the first warp. parts: see below.
__device__ void finish_weights(const RouteArgs& a, int64_t row, const float* logits, double* parts,
                               const int32_t* chosen, double total, int lane) {
  const RouteParams& params = a.params;
  const int k = params.n_used;
  if (params.gating == Gating::kSoftmaxSelected) {
    float maximum = lowest();
    for (int j = lane; j < k; j += kWarp) maximum = fmaxf(maximum, logits[chosen[j]]);
    maximum = warp_max(maximum);
    double sum = 0;
    for (int j = lane; j < k; j += kWarp) {
      parts[chosen[j]] = exp(double{logits[chosen[j]]} - double{maximum});
      sum += parts[chosen[j]];
    }
    total = warp_sum(sum);
  }
  double sum = 0;
  for (int j = lane; j < k; j += kWarp) sum += parts[chosen[j]] / total;
  sum = warp_sum(sum);
  double factor = 1;
  if (params.normalize) factor /= sum > kWeightSumMin ? sum : kWeightSumMin;
  if (params.scale != 0) factor *= double{params.scale};
  float* weights = a.weights + row * a.weights_stride;
  for (int j = lane; j < k; j += kWarp) weights[j] = static_cast<float>(parts[chosen[j]] / total * factor);
}

// `parts` are the numbers that an expert's weight is in proportion to: exponents, or sigmoids of the logits.
// Scratch of a row: parts [n], scores [n], group scores or the chosen [n], logits [n], taken [n] bytes.
__global__ void __launch_bounds__(kThreads) route_row(const __grid_constant__ RouteArgs a, LiveRows rows) {
  extern __shared__ double scratch[];
  start_kernel_behind();
  const int64_t row = blockIdx.x;
  if (row >= *rows.live) return;
  const RouteParams& params = a.params;
  const int n = params.n_experts, k = params.n_used, lane = threadIdx.x % kWarp;
  double* parts = scratch;
  auto* scores = reinterpret_cast<float*>(parts + n);
  float* group_scores = scores + n;
  float* logits = group_scores + n;
  auto* taken = reinterpret_cast<uint8_t*>(logits + n);
  auto* chosen = reinterpret_cast<int32_t*>(group_scores);
  for (int e = threadIdx.x; e < n; e += kThreads) logits[e] = a.logits[row * a.logits_stride + e];
  __syncthreads();

  double total = 1;
  if (params.gating == Gating::kSoftmax) total = exponents_of(logits, n, parts);
  for (int e = threadIdx.x; e < n; e += kThreads) {
    if (params.gating == Gating::kSigmoid) parts[e] = sigmoid_of(logits[e]);
    const double score = params.gating == Gating::kSoftmaxSelected ? double{logits[e]} : parts[e] / total;
    const float sum = static_cast<float>(score) + (a.selection_bias != nullptr ? a.selection_bias[e] : 0.0f);
    scores[e] = isnan(sum) ? lowest() : sum;
    taken[e] = 0;
  }
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  if (params.n_groups > 1) mask_groups(params, scores, group_scores, lane);
  choose(scores, taken, n, k, lane, a.ids + row * a.ids_stride, chosen);
  finish_weights(a, row, logits, parts, chosen, total, lane);
}

}  // namespace

void launch_route(const RouteArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const size_t shared = static_cast<size_t>(args.params.n_experts) * (sizeof(double) + 3 * sizeof(float) + 1);
  route_row<<<static_cast<unsigned>(rows.rows), kThreads, shared, stream>>>(args, rows);
}

}  // namespace strata::kernels::cuda
