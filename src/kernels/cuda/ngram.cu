#include "kernels/cuda/ngram.h"

#include <algorithm>

#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/segments.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float gate_of(float score) {
  constexpr float kLeastScore = 1e-6f;
  if (score == 0) return 0.5f;
  return sigmoid(copysignf(sqrtf(fmaxf(fabsf(score), kLeastScore)), score));
}

// A block for each row and stream: one pass for all sums, one for the outputs.
__global__ void __launch_bounds__(kThreads) stream_gate(const __grid_constant__ StreamGateArgs a, LiveRows rows) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x, at = blockIdx.y * a.dim;
  if (row >= *rows.live) return;
  const float* x = a.x + row * a.x_stride + at;
  const float* value = a.value + row * a.value_stride;
  float* key = a.key + row * a.key_stride + at;
  float sums[4] = {};  // squares of keys, of x and of values, and products of keys with x after their gains
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
    const float k = key[i], q = x[i], v = value[i];
    sums[0] = fmaf(k, k, sums[0]);
    sums[1] = fmaf(q, q, sums[1]);
    sums[2] = fmaf(v, v, sums[2]);
    sums[3] = fmaf(k * a.key_gain[at + i], q * a.query_gain[at + i], sums[3]);
  }
  block_sums<kThreads>(sums);
  const auto dim = static_cast<float>(a.dim);
  const auto factor = [&](float squares) { return 1.0f / sqrtf(squares / dim + a.eps); };
  const float gate = gate_of(sums[3] * factor(sums[0]) * factor(sums[1]) / sqrtf(dim));
  const float out = factor(gate * gate * sums[2]);
  float* normed = a.normed + row * a.normed_stride + at;
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
    const float gated = gate * value[i];
    key[i] = gated;
    normed[i] = gated * out * a.out_gain[at + i];
  }
}

__device__ __forceinline__ float* history_row(const DistantConvArgs& a, const Segment& s, int64_t position) {
  return a.history + s.slot * a.history_stride + position % a.depth * a.channels;
}

// y of a channel `back` rows before row r of the segment, whose first row is at `position`.
__device__ __forceinline__ float conv_input(const DistantConvArgs& a, const Segment& s, int64_t position, int64_t r,
                                            int64_t back, int64_t channel) {
  if (back <= r) return a.y[(s.first + r - back) * a.y_stride + channel];
  const int64_t at = position + r - back;
  return at < 0 ? 0 : history_row(a, s, at)[channel];
}

__device__ void conv_row(const DistantConvArgs& a, const Segment& s, int64_t position, int64_t r, int64_t channel) {
  float sum = 0;
#pragma unroll 4
  for (int j = 0; j < a.kernel; j++) {
    const int64_t back = int64_t{a.kernel - 1 - j} * a.distance;
    sum = fmaf(a.taps[channel * a.kernel + j], conv_input(a, s, position, r, back, channel), sum);
  }
  const int64_t row = s.first + r;
  float& x = a.x[row * a.x_stride + channel];
  x += a.add[row * a.add_stride + channel] + silu(sum);
}

// The last rows of the segment go into the history. Each thread has a channel of its own.
__device__ void keep_rows(const DistantConvArgs& a, const Segment& s, int64_t position, int64_t channel) {
  for (int64_t r = max(s.rows - a.depth, int64_t{0}); r < s.rows; r++) {
    history_row(a, s, position + r)[channel] = a.y[(s.first + r) * a.y_stride + channel];
  }
}

__device__ __forceinline__ int64_t channel_of_thread() { return int64_t{blockIdx.y} * kThreads + threadIdx.x; }

// Rows beside each other; the next kernel keeps them.
__global__ void __launch_bounds__(kThreads)
    conv_rows(const __grid_constant__ DistantConvArgs a, const __grid_constant__ Segments map) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x, channel = channel_of_thread();
  const Segment s = segment_of(map, row);
  if (s.rows > 0 && channel < a.channels) conv_row(a, s, a.positions[s.first], row - s.first, channel);
}
__global__ void __launch_bounds__(kThreads)
    conv_histories(const __grid_constant__ DistantConvArgs a, const __grid_constant__ Segments map) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t channel = channel_of_thread();
  if (blockIdx.x >= *map.count || channel >= a.channels) return;
  const Segment s = segment(map, blockIdx.x);
  if (s.rows > 0) keep_rows(a, s, a.positions[s.first], channel);
}
// Short segments row by row, in one launch.
__global__ void __launch_bounds__(kThreads)
    conv_segments(const __grid_constant__ DistantConvArgs a, const __grid_constant__ Segments map) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t channel = channel_of_thread();
  if (blockIdx.x >= *map.count || channel >= a.channels) return;
  const Segment s = segment(map, blockIdx.x);
  if (s.rows == 0) return;
  const int64_t position = a.positions[s.first];
  for (int64_t r = 0; r < s.rows; r++) conv_row(a, s, position, r, channel);
  keep_rows(a, s, position, channel);
}

}  // namespace

void launch_stream_gate(const StreamGateArgs& args, const LiveRows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>(args.n_streams));
  if (rows.rows > 0) launch_after(stream_gate, grid, kThreads, 0, stream, args, rows);
}

void launch_distant_conv(const DistantConvArgs& args, const Segments& segments, cudaStream_t stream) {
  if (args.rows == 0 || segments.max_segments == 0) return;
  constexpr int64_t kFewRows = 16;
  const auto groups = static_cast<unsigned>((args.channels + kThreads - 1) / kThreads);
  const dim3 by_segment(static_cast<unsigned>(std::min(segments.max_segments, args.rows)), groups);
  if (args.rows <= kFewRows) return launch_after(conv_segments, by_segment, kThreads, 0, stream, args, segments);
  const dim3 by_row(static_cast<unsigned>(args.rows), groups);
  launch_after(conv_rows, by_row, kThreads, 0, stream, args, segments);
  launch_after(conv_histories, by_segment, kThreads, 0, stream, args, segments);
}

}  // namespace strata::kernels::cuda
