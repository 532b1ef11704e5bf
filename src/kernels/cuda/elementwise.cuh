// Activation functions, and sums over the lanes of a warp.
#pragma once

namespace strata::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// 1 / (1 + e^-x), written so that the only exponent is <= 0: keeps its relative accuracy far below zero.
__device__ __forceinline__ float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }
__device__ __forceinline__ float swiglu_clamped(float gate, float up, float alpha, float limit) {
  const float g = fminf(gate, limit);
  const float u = fmaxf(fminf(up, limit), -limit);
  return g * sigmoid(alpha * g) * (u + 1.0f);
}

// The sum over all lanes, in every lane; the order of the additions is fixed.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

// The largest number of all lanes, in every lane.
__device__ __forceinline__ unsigned warp_max(unsigned x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, x);
#else
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x = max(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
#endif
}

// The sums over all lanes of kN values, a power of two: that of value i in lanes [i * 32 / kN, (i + 1) * 32 / kN). The
// order of the additions is fixed.
template <int kN, int kBit = kWarp / 2>
__device__ __forceinline__ float warp_sums(float (&v)[kN], int lane) {
  if constexpr (kN == 1) {
    float x = v[0];
#pragma unroll
    for (int step = kBit; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
    return x;
  } else {
    const bool upper = (lane & kBit) != 0;
    float half[kN / 2];
#pragma unroll
    for (int i = 0; i < kN / 2; i++) {
      const float given = upper ? v[i] : v[i + kN / 2];
      const float kept = upper ? v[i + kN / 2] : v[i];
      half[i] = kept + __shfl_xor_sync(kAllLanes, given, kBit);
    }
    return warp_sums<kN / 2, kBit / 2>(half, lane);
  }
}

}  // namespace strata::kernels::cuda
