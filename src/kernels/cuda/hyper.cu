#include "kernels/cuda/hyper.h"

#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

dim3 grid_of(const LiveRows& rows, int64_t cols) {
  return dim3(static_cast<unsigned>(rows.rows), static_cast<unsigned>((cols + kThreads - 1) / kThreads));
}
__device__ __forceinline__ int64_t column() { return int64_t{blockIdx.y} * kThreads + threadIdx.x; }

// Of the products of `inject` with a row, the part that stream c has: sum j goes to parts[c * n_streams + j].
__device__ void multiply_inject(const MixArgs& a, int c, const float* normed, float* parts) {
  constexpr int kAtOnce = 4;
  for (int j0 = 0; j0 < a.n_streams; j0 += kAtOnce) {
    float sums[kAtOnce] = {};
    for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
#pragma unroll
      for (int j = 0; j < kAtOnce; j++) {
        if (j0 + j < a.n_streams) {
          sums[j] = fmaf(a.inject[(j0 + j) * a.inject_stride + c * a.dim + i], normed[i], sums[j]);
        }
      }
    }
    block_sums<kThreads>(sums);
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) {
      if (threadIdx.x == 0 && j0 + j < a.n_streams) parts[c * a.n_streams + j0 + j] = sums[j];
    }
  }
}

// A block for each row and stream.
__global__ void __launch_bounds__(kThreads) norm_streams(const __grid_constant__ MixArgs a, LiveRows rows) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x, at = blockIdx.y * a.dim;
  if (row >= *rows.live) return;
  const float* x = a.x + row * a.x_stride + at;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) squares = fmaf(x[i], x[i], squares);
  const float factor = 1.0f / sqrtf(block_sum<kThreads>(squares) / static_cast<float>(a.dim) + a.eps);
  float* y = a.normed + row * a.normed_stride + at;
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) y[i] = x[i] * factor * a.gain[at + i];
  if (a.inject != nullptr) multiply_inject(a, static_cast<int>(blockIdx.y), y, a.gates + row * a.gates_stride);
}

__global__ void __launch_bounds__(kThreads) activate_low(const __grid_constant__ MixArgs a, LiveRows rows) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x, col = column();
  if (row >= *rows.live) return;
  const auto streams = static_cast<float>(a.n_streams);
  if (col < a.rank) {
    float& low = a.low[row * a.low_stride + col];
    low = silu(low / streams);
  } else if (a.amounts != nullptr && col < a.rank + a.n_streams) {
    const int64_t j = col - a.rank;
    float& amount = a.amounts[row * a.amounts_stride + j];
    float sum = amount;
    if (a.inject != nullptr) {
      const float* parts = a.gates + row * a.gates_stride + j;
      sum = 0;
      for (int c = 0; c < a.n_streams; c++) sum += parts[c * a.n_streams];
    }
    amount = 2.0f * sigmoid(sum / streams);
  }
}

__global__ void __launch_bounds__(kThreads) mix_streams(const __grid_constant__ MixArgs a, LiveRows rows) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x, col = column();
  if (row >= *rows.live || col >= a.dim) return;
  const float share = 1.0f / static_cast<float>(a.n_streams);
  const float* normed = a.normed + row * a.normed_stride + col;
  const float* gates = a.gates + row * a.gates_stride + col;
  float sum = 0;
#pragma unroll 4
  for (int c = 0; c < a.n_streams; c++) sum = fmaf(share, normed[c * a.dim] * sigmoid(gates[c * a.dim]), sum);
  a.y[row * a.y_stride + col] = sum;
}

__global__ void __launch_bounds__(kThreads) add_streams(const __grid_constant__ StreamAddArgs a, LiveRows rows) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x, col = column();
  if (row >= *rows.live || col >= a.dim) return;
  float& y = a.y[row * a.y_stride + col];
  const float added = y;
  const float* amounts = a.amounts + row * a.amounts_stride;
  float* x = a.x + row * a.x_stride + col;
#pragma unroll 4
  for (int c = 0; c < a.n_streams; c++) x[c * a.dim] = fmaf(amounts[c], added, x[c * a.dim]);
  y = 0;
}

}  // namespace

void launch_norm_streams(const MixArgs& args, const LiveRows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>(args.n_streams));
  if (rows.rows > 0) launch_after(norm_streams, grid, kThreads, 0, stream, args, rows);
}

void launch_activate_low(const MixArgs& args, const LiveRows& rows, cudaStream_t stream) {
  const dim3 grid = grid_of(rows, args.rank + args.n_streams);
  if (rows.rows > 0) launch_after(activate_low, grid, kThreads, 0, stream, args, rows);
}

void launch_mix_streams(const MixArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows > 0) launch_after(mix_streams, grid_of(rows, args.dim), kThreads, 0, stream, args, rows);
}

void launch_add_streams(const StreamAddArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows > 0) launch_after(add_streams, grid_of(rows, args.dim), kThreads, 0, stream, args, rows);
}

}  // namespace strata::kernels::cuda
