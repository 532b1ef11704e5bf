#include "kernels/cuda/rows.h"

#include <algorithm>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ bool dead(const LiveRows& rows, int64_t row) {
  return row >= int64_t{*rows.live} * rows.per_live;
}

// A block of threads for each row and stretch of kThreads columns.
dim3 grid_of(const LiveRows& rows, int64_t cols) {
  return dim3(static_cast<unsigned>(rows.rows), static_cast<unsigned>((cols + kThreads - 1) / kThreads));
}
// Calls body(row, col) for each element of the live rows.
template <class Body>
__device__ __forceinline__ void for_element(const LiveRows& rows, int64_t cols, const Body& body) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x;
  const int64_t col = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (!dead(rows, row) && col < cols) body(row, col);
}

constexpr int kNormThreads = 512;

// The sum over the threads of a block of kNormThreads, in every thread.
__device__ float block_sum(float x) {
  __shared__ float warps[kNormThreads / kWarp];
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int i = 0; i < kNormThreads / kWarp; i++) total += warps[i];
  return total;
}

// Rows of up to kHeld elements a thread stay in registers between their sum and their use.
__global__ void __launch_bounds__(kNormThreads) rms_norm(RmsNormArgs a, LiveRows rows) {
  constexpr int kHeld = 8;
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x;
  if (dead(rows, row)) return;
  const float* x = a.x + row * a.x_stride;
  float held[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; i++) {
    const int64_t at = threadIdx.x + i * kNormThreads;
    held[i] = at < a.cols ? x[at] : 0;
  }
  float squares = 0;
#pragma unroll
  for (const float value : held) squares = fmaf(value, value, squares);
  for (int64_t i = threadIdx.x + kHeld * kNormThreads; i < a.cols; i += kNormThreads) {
    squares = fmaf(x[i], x[i], squares);
  }
  const float mean = block_sum(squares) / static_cast<float>(a.cols);
  const float factor = 1.0f / sqrtf(mean + a.eps);
  float* y = a.y + row * a.y_stride;
#pragma unroll
  for (int i = 0; i < kHeld; i++) {
    const int64_t at = threadIdx.x + i * kNormThreads;
    if (at < a.cols) y[at] = held[i] * factor * a.gain[at];
  }
  for (int64_t i = threadIdx.x + kHeld * kNormThreads; i < a.cols; i += kNormThreads) y[i] = x[i] * factor * a.gain[i];
}

// A warp for each head.
__global__ void gated_norm(GatedNormArgs a, LiveRows rows) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x;
  const int64_t head = int64_t{blockIdx.y} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (dead(rows, row) || head >= a.n_heads) return;
  const int lane = threadIdx.x % kWarp;
  float* x = a.x + row * a.x_stride + head * a.dim;
  const float* z = a.z + row * a.z_stride + head * a.dim;
  float squares = 0;
  for (int64_t i = lane; i < a.dim; i += kWarp) squares = fmaf(x[i], x[i], squares);
  const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(a.dim) + a.eps);
  for (int64_t i = lane; i < a.dim; i += kWarp) {
    const float gate = a.sigmoid_gate ? sigmoid(z[i]) : silu(z[i]);
    x[i] = x[i] * factor * a.gain[i] * gate;
  }
}

__global__ void silu_mul(float* gate, int64_t gate_stride, const float* up, int64_t up_stride, int64_t cols,
                         LiveRows rows) {
  for_element(rows, cols, [&](int64_t row, int64_t col) {
    float& g = gate[row * gate_stride + col];
    g = silu(g) * up[row * up_stride + col];
  });
}

__global__ void add_gated(AddGatedArgs a, LiveRows rows) {
  for_element(rows, a.cols, [&](int64_t row, int64_t col) {
    const float factor = a.gate == nullptr ? 1.0f : sigmoid(a.gate[row * a.gate_stride]);
    float& x = a.x[row * a.x_stride + col];
    x = fmaf(factor, a.y[row * a.y_stride + col], x);
  });
}

__global__ void gather(GatherArgs a, LiveRows rows) {
  for_element(rows, a.cols, [&](int64_t row, int64_t col) {
    a.y[row * a.y_stride + col] = a.x[a.from[row] * a.x_stride + col];
  });
}

}  // namespace

void launch_rms_norm(const RmsNormArgs& args, const LiveRows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows.rows));
  if (rows.rows > 0) launch_after(rms_norm, grid, kNormThreads, 0, stream, args, rows);
}

void launch_gated_norm(const GatedNormArgs& args, const LiveRows& rows, cudaStream_t stream) {
  constexpr int64_t kHeads = kThreads / kWarp;
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>((args.n_heads + kHeads - 1) / kHeads));
  if (rows.rows > 0) launch_after(gated_norm, grid, kThreads, 0, stream, args, rows);
}

void launch_silu_mul(float* gate, int64_t gate_stride, const float* up, int64_t up_stride, int64_t cols,
                     const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  launch_after(silu_mul, grid_of(rows, cols), kThreads, 0, stream, gate, gate_stride, up, up_stride, cols, rows);
}

void launch_add_gated(const AddGatedArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows > 0) launch_after(add_gated, grid_of(rows, args.cols), kThreads, 0, stream, args, rows);
}

void launch_gather(const GatherArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows > 0) launch_after(gather, grid_of(rows, args.cols), kThreads, 0, stream, args, rows);
}

}  // namespace strata::kernels::cuda
