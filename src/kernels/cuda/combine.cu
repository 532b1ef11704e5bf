#include "kernels/cuda/combine.h"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 128;
// Pairs whose values are asked for together: they may come over the link.
constexpr int kAtOnce = 8;

// Where the row of a pair is; null for one that adds nothing.
__device__ __forceinline__ const float* pair_row(const CombineArgs& a, int64_t row, int j) {
  const int64_t pair = row * a.k + j;
  if (a.slot_of != nullptr && a.slot_of[a.ids[row * a.ids_stride + j]] < 0) {
    return a.arrived == nullptr ? nullptr : a.arrived + pair * a.arrived_stride;
  }
  return a.pairs + pair * a.pairs_stride;
}

__global__ void combine(CombineArgs a, LiveRows rows) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x;
  const int64_t col = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (row >= int64_t{*rows.live} || col >= a.cols) return;
  float total = 0;
  for (int first = 0; first < a.k; first += kAtOnce) {
    float values[kAtOnce];
    bool adds[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; i++) {
      const float* from = first + i < a.k ? pair_row(a, row, first + i) : nullptr;
      adds[i] = from != nullptr;
      values[i] = adds[i] ? from[col] : 0;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; i++) {
      if (!adds[i]) continue;
      total = __fadd_rn(total, __fmul_rn(a.weights[row * a.weights_stride + first + i], values[i]));
    }
  }
  float& x = a.x[row * a.x_stride + col];
  x = __fadd_rn(x, total);
}

}  // namespace

void launch_combine(const CombineArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>((args.cols + kThreads - 1) / kThreads));
  launch_after(combine, grid, kThreads, 0, stream, args, rows);
}

}  // namespace strata::kernels::cuda
