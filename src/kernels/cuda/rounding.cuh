// Activations rounded to 8 bits as kernels/q8.h defines it, by warps: a lane has eight neighbouring elements, so that
// four lanes hold the 32 that share a scale (kBlock), or all of them the 256 (kSuper).
#pragma once

#include "kernels/cuda/elementwise.cuh"
#include "kernels/q8.h"

namespace strata::kernels::cuda {

struct Eight {
  float v[8];
};

// Eight rounded elements of a lane.
struct RoundedEight {
  uint32_t codes[2];
  float d;
  int sum;  // of the 16 codes of the lane and its neighbour
};

// Elements [col, col + 8) of a row; zeros from `cols` on, a multiple of 8.
__device__ __forceinline__ Eight load_eight(const float* row, int64_t col, int64_t cols) {
  Eight x{};
  if (col >= cols) return x;
  const float* from = row + col;
  if ((reinterpret_cast<uintptr_t>(from) & 15) == 0) {
    const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
#pragma unroll
  for (int i = 0; i < 8; i++) x.v[i] = from[i];
  return x;
}

__device__ __forceinline__ uint32_t pack_codes(int a, int b, int c, int d) {
  return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | static_cast<uint32_t>(d) << 24;
}

// All lanes of the warp take part. kSuper: the scale is positive, whatever the sign of the largest element: that of
// kernels/q8.h with all codes negated makes the same products.
template <bool kSuper>
__device__ __forceinline__ RoundedEight round_eight(const Eight& x) {
  constexpr float kInfinity = __builtin_inff();
  float largest = 0;
#pragma unroll
  for (const float v : x.v) {
    const float magnitude = fabsf(v);
    largest = fmaxf(largest, magnitude < kInfinity ? magnitude : kInfinity);  // of a NaN, too
  }
  float d = 0, inverse;
  if constexpr (kSuper) {
    largest = __uint_as_float(warp_max(__float_as_uint(largest)));  // bits of positive numbers are in order
    inverse = __fdiv_rn(127.0f, largest);
  } else {
#pragma unroll
    for (int step = 2; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    d = __fdiv_rn(largest, 127.0f);
    inverse = __fdiv_rn(1.0f, d);
  }

  RoundedEight out{};
  int code[8];
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int rounded = __float2int_rn(__fmul_rn(x.v[i], inverse));
    code[i] = max(-127, min(127, rounded));
  }
  if (largest == kInfinity) {  // something is not finite, and shows
#pragma unroll
    for (int& c : code) c = 1;
    out.d = __builtin_nanf("");
  } else if (!(fabsf(inverse) < kInfinity)) {  // all zero, or as good as
#pragma unroll
    for (int& c : code) c = 0;
  } else {
    out.d = kSuper ? __fdiv_rn(1.0f, inverse) : __half2float(__float2half_rn(fminf(d, 65504.0f)));
  }
  out.codes[0] = pack_codes(code[0], code[1], code[2], code[3]);
  out.codes[1] = pack_codes(code[4], code[5], code[6], code[7]);
  constexpr int kOnes = 0x01010101;
  const int sum = __dp4a(static_cast<int>(out.codes[1]), kOnes, __dp4a(static_cast<int>(out.codes[0]), kOnes, 0));
  out.sum = sum + __shfl_xor_sync(kAllLanes, sum, 1);
  return out;
}
__device__ __forceinline__ RoundedEight round_eight(ActFormat format, const Eight& x) {
  return format == ActFormat::kSuper ? round_eight<true>(x) : round_eight<false>(x);
}

// What rounding left of the elements.
__device__ __forceinline__ Eight rest_of(const Eight& x, const RoundedEight& rounded) {
  Eight rest;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const auto code = static_cast<int8_t>(rounded.codes[i / 4] >> (8 * (i % 4)));
    rest.v[i] = __fsub_rn(x.v[i], __fmul_rn(rounded.d, static_cast<float>(code)));
  }
  return rest;
}

// Rounded rows as the products on the device take them: codes, and a scale for each 32 and the sum of each 16 codes
// times its scale, whatever the format.
struct RoundedRow {
  int8_t* codes;
  float* d;     // [cols / 32]
  float* sums;  // [cols / 16]
};
// `lane` is at column `col` of the row.
__device__ __forceinline__ void store_rounded(const RoundedRow& row, int64_t col, const RoundedEight& x) {
  *reinterpret_cast<uint2*>(row.codes + col) = make_uint2(x.codes[0], x.codes[1]);
  if (col % 32 == 0) row.d[col / 32] = x.d;
  if (col % 16 == 0) row.sums[col / 16] = x.d * static_cast<float>(x.sum);
}

}  // namespace strata::kernels::cuda
