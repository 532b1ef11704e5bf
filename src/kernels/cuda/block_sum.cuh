// Sums over the threads of a block.
#pragma once

#include "kernels/cuda/elementwise.cuh"

namespace strata::kernels::cuda {

// Of kN numbers of each of kThreads threads, in every thread; the order of the additions is fixed.
template <int kThreads, int kN>
__device__ __forceinline__ void block_sums(float (&x)[kN]) {
  __shared__ float warps[kThreads / kWarp][kN];
  __syncthreads();  // the sums before have been read
#pragma unroll
  for (int n = 0; n < kN; n++) {
    x[n] = warp_sum(x[n]);
    if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp][n] = x[n];
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kN; n++) {
    x[n] = 0;
#pragma unroll
    for (int i = 0; i < kThreads / kWarp; i++) x[n] += warps[i][n];
  }
}
template <int kThreads>
__device__ __forceinline__ float block_sum(float x) {
  float sums[1] = {x};
  block_sums<kThreads>(sums);
  return sums[0];
}

}  // namespace strata::kernels::cuda
