// Floats as sums of two halves, for products on the tensor cores: the second has what the first one lacks, and what
// both leave out is of the size of a rounding of float32.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace strata::kernels::cuda {

// Halves from row to row in shared memory: 16 bytes more than the elements, so that eight rows meet all banks.
__host__ __device__ constexpr int halves_stride(int dim) { return dim + 8; }

// Two floats as a pair of halves, and what that leaves.
struct Halves {
  uint32_t high, low;
};
__device__ __forceinline__ Halves halves_of(float x, float y) {
  const __half2 high = __floats2half2_rn(x, y);
  const float2 back = __half22float2(high);
  const __half2 low = __floats2half2_rn(x - back.x, y - back.y);
  return {*reinterpret_cast<const uint32_t*>(&high), *reinterpret_cast<const uint32_t*>(&low)};
}

}  // namespace strata::kernels::cuda
