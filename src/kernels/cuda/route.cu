// One warp for each row. Formulas and ties are those of kernels/route.cpp; sums of exponents are formed in double, as
// there, in another order.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/route.h"

namespace strata::kernels::cuda {
namespace {

constexpr double kWeightSumMin = 6.103515625e-05;

__device__ __forceinline__ float lowest() { return -__builtin_inff(); }
__device__ __forceinline__ double sigmoid_of(double x) { return 1.0 / (1.0 + exp(-x)); }

// The maximum of n logits and the sum of the exponents over it; at(i) gives logit i. A NaN ends up in the sum.
struct Softmax {
  double maximum, total;
  __device__ double of(double logit) const { return exp(logit - maximum) / total; }
};
template <class At>
__device__ Softmax softmax_over(int n, int lane, const At& at) {
  float maximum = lowest();
  for (int i = lane; i < n; i += kWarp) maximum = fmaxf(maximum, at(i));
  maximum = warp_max(maximum);
  double total = 0;
  for (int i = lane; i < n; i += kWarp) total += exp(double{at(i)} - double{maximum});
  return {maximum, warp_sum(total)};
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

// Scratch of a row: scores [n], group scores [n], logits [n], taken [n] bytes.
__global__ void route_row(const __grid_constant__ RouteArgs a, LiveRows rows) {
  extern __shared__ float scratch[];
  const int64_t row = blockIdx.x;
  if (row >= *rows.live) return;
  const RouteParams& params = a.params;
  const int lane = threadIdx.x, n = params.n_experts, k = params.n_used;
  float* logits = scratch + 2 * n;
  int32_t* ids = a.ids + row * a.ids_stride;
  float* weights = a.weights + row * a.weights_stride;
  float* scores = scratch;
  auto* taken = reinterpret_cast<uint8_t*>(scratch + 3 * n);
  for (int e = lane; e < n; e += kWarp) logits[e] = a.logits[row * a.logits_stride + e];
  __syncwarp();

  Softmax softmax{0, 1};
  if (params.gating == Gating::kSoftmax) softmax = softmax_over(n, lane, [&](int e) { return logits[e]; });
  for (int e = lane; e < n; e += kWarp) {
    double score = logits[e];
    if (params.gating == Gating::kSoftmax) score = softmax.of(logits[e]);
    if (params.gating == Gating::kSigmoid) score = sigmoid_of(logits[e]);
    const float sum = static_cast<float>(score) + (a.selection_bias != nullptr ? a.selection_bias[e] : 0.0f);
    scores[e] = isnan(sum) ? lowest() : sum;
    taken[e] = 0;
  }
  __syncwarp();
  if (params.n_groups > 1) mask_groups(params, scores, scratch + n, lane);

  // Each lane keeps its best; only the lane that loses it looks again. Afterwards the logits of the chosen stand where
  // the group scores did.
  float* chosen = scratch + n;
  Best mine = lane_best(scores, taken, n, lane);
  for (int j = 0; j < k; j++) {
    const Best best = warp_best(mine);
    if (lane == 0) {
      ids[j] = best.at;
      chosen[j] = logits[best.at];
    }
    if (best.at % kWarp != lane) continue;
    taken[best.at] = 1;
    mine = lane_best(scores, taken, n, lane);
  }
  __syncwarp();

  if (params.gating == Gating::kSoftmaxSelected) softmax = softmax_over(k, lane, [&](int j) { return chosen[j]; });
  const auto weight = [&](int j) {
    const double logit = chosen[j];
    return params.gating == Gating::kSigmoid ? sigmoid_of(logit) : softmax.of(logit);
  };
  double total = 0;
  for (int j = lane; j < k; j += kWarp) total += weight(j);
  total = warp_sum(total);
  double factor = 1;
  if (params.normalize) factor /= total > kWeightSumMin ? total : kWeightSumMin;
  if (params.scale != 0) factor *= double{params.scale};
  for (int j = lane; j < k; j += kWarp) weights[j] = static_cast<float>(weight(j) * factor);
}

}  // namespace

void launch_route(const RouteArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const size_t shared = static_cast<size_t>(args.params.n_experts) * (3 * sizeof(float) + 1);
  route_row<<<static_cast<unsigned>(rows.rows), kWarp, shared, stream>>>(args, rows);
}

}  // namespace strata::kernels::cuda
