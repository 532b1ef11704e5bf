// Norm and rope of a head by one warp.
#pragma once

#include "kernels/cuda/elementwise.cuh"

namespace strata::kernels::cuda {

struct HeadShape {
  int dim;
  int n_pairs;       // that are turned, from the start of the head on
  bool interleaved;  // pairs are (2p, 2p + 1), else (p, p + n_pairs)
  float eps;
};

// The first 2 * n_pairs values, by the angles whose cos and then sin are given. `held`: shared memory.
__device__ __forceinline__ void turn_pairs(float* held, const float* cos_sin, int n_pairs, bool interleaved, int lane) {
  for (int p = lane; p < n_pairs; p += kWarp) {
    const int first = interleaved ? 2 * p : p;
    const int second = interleaved ? 2 * p + 1 : p + n_pairs;
    const float u = held[first], v = held[second];
    const float cos = cos_sin[p], sin = cos_sin[n_pairs + p];
    held[first] = u * cos - v * sin;
    held[second] = u * sin + v * cos;
  }
  __syncwarp();
}

// From x, which may be `held`, to `held`: dim floats of shared memory. gain null: no norm.
__device__ __forceinline__ void norm_and_turn(const HeadShape& head, const float* x, const float* gain,
                                              const float* cos_sin, int lane, float* held) {
  float squares = 0;
  for (int i = lane; i < head.dim; i += kWarp) {
    held[i] = x[i];
    squares = fmaf(held[i], held[i], squares);
  }
  if (gain != nullptr) {
    const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(head.dim) + head.eps);
    for (int i = lane; i < head.dim; i += kWarp) held[i] = held[i] * factor * gain[i];
  }
  __syncwarp();
  turn_pairs(held, cos_sin, head.n_pairs, head.interleaved, lane);
}

}  // namespace strata::kernels::cuda
