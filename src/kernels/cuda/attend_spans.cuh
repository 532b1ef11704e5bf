// What the kernels of attention by spans share: how a row's context is cut, what a block computes of it, and how the
// spans of a head are joined.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {

inline constexpr int kSpanWarps = 8;
inline constexpr int kSpanThreads = kSpanWarps * kWarp;
inline constexpr int kSpanHeads = 8;      // queries of a block: not more than warps
inline constexpr int kSpanChunk = 128;    // elements of values that a warp sums at once, four to a lane
inline constexpr int kShortestSpan = 64;  // positions

// How contexts are cut: the length of a row's spans depends on its own position only.
struct Spans {
  int longest;      // positions of a span
  int wanted;       // spans of a row, at most, when it sees its whole context
  int64_t max;      // spans that a row can see, at most
  int head_groups;  // blocks for the queries of a KV head
};
Spans spans_of(const AttendArgs& a);
// Blocks for spans, query groups and rows.
inline dim3 span_blocks(const AttendArgs& a, const Spans& s, int64_t rows) {
  return dim3(static_cast<unsigned>(s.max), static_cast<unsigned>(a.kv.n_kv_heads * s.head_groups),
              static_cast<unsigned>(rows));
}

// Positions have 32 bits, and shorter divisions are faster.
__device__ __forceinline__ int quotient(int64_t position, int by) {
  return static_cast<int>(static_cast<uint32_t>(position) / static_cast<uint32_t>(by));
}

// Positions of the spans of a row.
__device__ __forceinline__ int span_length(const Spans& s, int64_t position) {
  const int even = quotient(position, s.wanted) + 1;
  return min(s.longest, (even + kShortestSpan - 1) / kShortestSpan * kShortestSpan);
}

// A softmax over a span: its sum of exponents over the maximum, and the weighted sum of values.
struct State {
  float* acc;      // [value_dim]
  float* maximum;  // then the sum
};
// `row` counts from the first of those computed together.
__device__ __forceinline__ State state_of(const AttendArgs& a, float* states, const Spans& s, int64_t row, int head,
                                          int64_t nth) {
  float* at = states + ((row * a.n_heads + head) * s.max + nth) * (a.kv.value_dim + 2);
  return {at, at + a.kv.value_dim};
}

__device__ __forceinline__ int64_t first_visible(const AttendArgs& a, int64_t position) {
  return a.window > 0 && position >= a.window ? position - a.window + 1 : 0;
}

// What a block computes: positions [begin, begin + n) of a row's context with heads [first_head, first_head + n_heads)
// of a KV head.
struct Work {
  int64_t row, position, begin;
  int32_t slot;
  int n;        // 0: nothing
  int n_spans;  // of the row
  int kv_head, first_head, n_heads;
};
template <int kHeads = kSpanHeads>
__device__ __forceinline__ Work work_of(const AttendArgs& a, const LiveRows& rows, const Spans& s, int64_t first_row) {
  Work w{};
  w.row = first_row + blockIdx.z;
  const int32_t live = *rows.live;  // three loads at once
  w.slot = a.places.slots[w.row];
  w.position = a.places.positions[w.row];
  if (a.places.by_row && w.row < live) {
    wait_for_kernel_before();  // which has written what the row sees
    const RowPlace place = place_of(a.places, a.kv, w.row);
    w.slot = place.slot;
    w.position = place.position;
  }
  const int64_t visible = first_visible(a, w.position);
  const int length = span_length(s, w.position);
  const int first_span = quotient(visible, length);
  const int64_t span = int64_t{first_span} + blockIdx.x;
  const int64_t end = min(w.position + 1, (span + 1) * length);
  w.begin = max(visible, span * length);
  w.n_spans = quotient(w.position, length) - first_span + 1;
  w.n = w.row < live && w.begin < end ? static_cast<int>(end - w.begin) : 0;
  const int group = a.n_heads / a.kv.n_kv_heads;
  const int first = static_cast<int>(blockIdx.y) % s.head_groups * kHeads;
  w.kv_head = static_cast<int>(blockIdx.y) / s.head_groups;
  w.first_head = w.kv_head * group + first;
  w.n_heads = min(group - first, kHeads);
  return w;
}

// The states of a head's spans joined to its output, by a warp; span by span, and kAtOnce of them asked for together.
__device__ __forceinline__ void join_head(const AttendArgs& a, const Spans& s, const Work& w, int head,
                                          int64_t state_row, float* states) {
  constexpr int kAtOnce = 8, kOfLane = kSpanChunk / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int64_t state_floats = a.kv.value_dim + 2;
  const float* sums = state_of(a, states, s, state_row, head, 0).acc;
  const auto load = [&](float (&part)[kAtOnce][kOfLane], float (&of)[kAtOnce], int first, int i0) {
#pragma unroll
    for (int i = 0; i < kAtOnce; i++) {
      const float* at = sums + min(i0 + i, w.n_spans - 1) * state_floats;
      of[i] = __ldcg(at + a.kv.value_dim);
#pragma unroll
      for (int e = 0; e < kOfLane; e++) {
        const int d = first + e * kWarp + lane;
        part[i][e] = d < a.kv.value_dim ? __ldcg(at + d) : 0;
      }
    }
  };
  float part[kAtOnce][kOfLane], of[kAtOnce];
  load(part, of, 0, 0);
  float own = -__builtin_inff(), total = 0;  // of the lane's spans
  for (int i = lane; i < w.n_spans; i += kWarp) {
    const float* at = sums + i * state_floats + a.kv.value_dim;
    const float maximum = __ldcg(at), sum = __ldcg(at + 1);
    const float raised = fmaxf(own, maximum);
    total = total * expf(own - raised) + sum * expf(maximum - raised);
    own = raised;
  }
  const float sink = a.sinks != nullptr ? a.sinks[head] : -__builtin_inff();
  const float maximum = fmaxf(warp_max(own), sink);
  total = warp_sum(total * expf(own - maximum)) + expf(sink - maximum);
  const float* gate = a.q + w.row * a.q_stride + int64_t{head} * a.q_head_stride + a.kv.key_dim;
  float* y = a.y + w.row * a.y_stride + int64_t{head} * a.kv.value_dim;
  for (int first = 0; first < a.kv.value_dim; first += kSpanChunk) {
    float sum[kOfLane] = {};
    for (int i0 = 0; i0 < w.n_spans; i0 += kAtOnce) {
      if (first > 0 || i0 > 0) load(part, of, first, i0);
#pragma unroll
      for (int i = 0; i < kAtOnce; i++) {
        if (i0 + i >= w.n_spans) break;
        const float factor = expf(of[i] - maximum);
#pragma unroll
        for (int e = 0; e < kOfLane; e++) sum[e] = fmaf(part[i][e], factor, sum[e]);
      }
    }
#pragma unroll
    for (int e = 0; e < kOfLane; e++) {
      const int d = first + e * kWarp + lane;
      if (d >= a.kv.value_dim) continue;
      const float out = sum[e] / total;
      y[d] = a.gated ? out * sigmoid(gate[d]) : out;
    }
  }
}

}  // namespace strata::kernels::cuda
