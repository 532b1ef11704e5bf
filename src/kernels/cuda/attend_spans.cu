// Attention of each row by itself. A row's context is cut into spans at fixed positions; a block computes the softmax of
// up to eight query heads of one KV head over one span, and a second kernel joins the spans of a head in order.
#include <algorithm>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kHeads = 8;      // queries of a block
constexpr int kChunk = 128;    // elements of values that a warp sums at once, four to a lane
constexpr int kShortest = 64;  // positions of a span
constexpr int kLongest = 512;
constexpr int kSpansWanted = 128;  // of a full context, so that few rows fill the device

struct Spans {
  int length;       // positions
  int64_t max;      // a row can see at most
  int head_groups;  // blocks for the queries of a KV head
};

size_t shared_bytes(const AttendArgs& a, int length) {
  const int key_floats = (a.kv.key_dim + 3) / 4 * 4;
  return (static_cast<size_t>(kHeads) * key_floats + static_cast<size_t>(kHeads) * length + kWarps * kHeads * kChunk) *
         sizeof(float);
}

Spans spans_of(const AttendArgs& a) {
  constexpr size_t kSharedBytes = 46 * 1024;
  const int64_t context = a.places.max_blocks * a.kv.block_tokens;
  const int64_t even = (context + kSpansWanted - 1) / kSpansWanted;
  Spans s{};
  s.length = static_cast<int>(std::clamp<int64_t>((even + kShortest - 1) / kShortest * kShortest, kShortest, kLongest));
  while (s.length > kShortest && shared_bytes(a, s.length) > kSharedBytes) s.length -= kShortest;
  s.max = (context + s.length - 1) / s.length;
  if (a.window > 0) s.max = std::min(s.max, (a.window + s.length - 2) / s.length + 1);
  s.head_groups = (a.n_heads / a.kv.n_kv_heads + kHeads - 1) / kHeads;
  return s;
}

// A softmax over a span: its sum of exponents over the maximum, and the weighted sum of values.
struct State {
  float* acc;      // [value_dim]
  float* maximum;  // then the sum
};
__device__ __forceinline__ State state_of(const AttendArgs& a, float* states, const Spans& s, int64_t row, int head,
                                          int64_t nth) {
  float* at = states + ((row * a.n_heads + head) * s.max + nth) * (a.kv.value_dim + 2);
  return {at, at + a.kv.value_dim};
}

// Elements [i, i + 4) of a head that has n; zeros behind.
__device__ __forceinline__ float4 four_elements(KvType type, const uint8_t* head, int i, int n) {
  if (i + 4 <= n) {
    const uint8_t* at = head + (type == KvType::kQ8_0 ? i / 32 * 34 + 2 + i % 32 : i * (type == KvType::kF32 ? 4 : 2));
    if (type == KvType::kF32) {
      const Words4 w = load16(at);
      return make_float4(float_of_bits(w.w[0]), float_of_bits(w.w[1]), float_of_bits(w.w[2]), float_of_bits(w.w[3]));
    }
    if (type == KvType::kQ8_0) {
      const uint32_t codes = load4(at);
      const float d = load_half(head + i / 32 * 34);
      return make_float4(d * static_cast<float>(static_cast<int8_t>(codes)),
                         d * static_cast<float>(static_cast<int8_t>(codes >> 8)),
                         d * static_cast<float>(static_cast<int8_t>(codes >> 16)),
                         d * static_cast<float>(static_cast<int8_t>(codes >> 24)));
    }
    uint32_t w[2];
    load8(at, w);
    if (type == KvType::kF16) {
      return make_float4(half_value(w[0] & 0xFFFF), half_value(w[0] >> 16), half_value(w[1] & 0xFFFF),
                         half_value(w[1] >> 16));
    }
    return make_float4(float_of_bits(w[0] << 16), float_of_bits(w[0] & 0xFFFF0000u), float_of_bits(w[1] << 16),
                       float_of_bits(w[1] & 0xFFFF0000u));
  }
  float v[4];
  for (int e = 0; e < 4; e++) v[e] = i + e < n ? head_element(type, head, i + e) : 0;
  return make_float4(v[0], v[1], v[2], v[3]);
}

// Scores of the span's positions [begin, begin + n), each by one warp, for all queries at once: scores[t * kHeads + h].
__device__ void score_span(const AttendArgs& a, const float* queries, int n_heads, int64_t begin, int n, int32_t slot,
                           size_t head_offset, float* scores) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int width = (a.kv.key_dim + 3) / 4 * 4;
  for (int t = warp; t < n; t += kWarps) {
    const uint8_t* key = a.kv.k + token_at(a.places, a.kv, slot, begin + t) * a.kv.k_token_bytes + head_offset;
    float dot[kHeads] = {};
    for (int i = 4 * lane; i < a.kv.key_dim; i += kChunk) {
      const float4 k = four_elements(a.kv.type, key, i, a.kv.key_dim);
#pragma unroll
      for (int h = 0; h < kHeads; h++) {
        if (h >= n_heads) break;
        const float4 q = *reinterpret_cast<const float4*>(queries + h * width + i);
        dot[h] = fmaf(q.x, k.x, fmaf(q.y, k.y, fmaf(q.z, k.z, fmaf(q.w, k.w, dot[h]))));
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; h++) {
      if (h >= n_heads) break;
      const float sum = warp_sum(dot[h]);
      if (lane == 0) scores[t * kHeads + h] = sum * a.scale;
    }
  }
}

// Scores become weights; maximum and sum go to the state.
__device__ void soften_span(const AttendArgs& a, int n_heads, int n, float* scores, float* states, const Spans& s,
                            int64_t row, int first_head, int64_t nth) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (int h = warp; h < n_heads; h += kWarps) {
    float maximum = -__builtin_inff();
    for (int t = lane; t < n; t += kWarp) maximum = fmaxf(maximum, scores[t * kHeads + h]);
    maximum = warp_max(maximum);
    float total = 0;
    for (int t = lane; t < n; t += kWarp) {
      const float weight = expf(scores[t * kHeads + h] - maximum);
      scores[t * kHeads + h] = weight;
      total += weight;
    }
    total = warp_sum(total);
    if (lane != 0) continue;
    const State state = state_of(a, states, s, row, first_head + h, nth);
    state.maximum[0] = maximum;
    state.maximum[1] = total;
  }
}

// Weighted sums of kChunk elements of the values, every fourth position by each warp; the warps' sums are added in
// order. `partial`: [kWarps][kHeads][kChunk].
__device__ void sum_values(const AttendArgs& a, const float* weights, int n_heads, int64_t begin, int n, int32_t slot,
                           size_t head_offset, int first_element, float* partial, float* states, const Spans& s,
                           int64_t row, int first_head, int64_t nth) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int i = first_element + 4 * lane;
  float4 acc[kHeads] = {};
  if (i < a.kv.value_dim) {
    for (int t = warp; t < n; t += kWarps) {
      const uint8_t* value = a.kv.v + token_at(a.places, a.kv, slot, begin + t) * a.kv.v_token_bytes + head_offset;
      const float4 v = four_elements(a.kv.type, value, i, a.kv.value_dim);
#pragma unroll
      for (int h = 0; h < kHeads; h++) {
        const float w = weights[t * kHeads + h];
        acc[h].x = fmaf(w, v.x, acc[h].x);
        acc[h].y = fmaf(w, v.y, acc[h].y);
        acc[h].z = fmaf(w, v.z, acc[h].z);
        acc[h].w = fmaf(w, v.w, acc[h].w);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; h++)
    *reinterpret_cast<float4*>(partial + (warp * kHeads + h) * kChunk + 4 * lane) = acc[h];
  __syncthreads();
  for (int e = threadIdx.x; e < n_heads * kChunk; e += kThreads) {
    const int h = e / kChunk, element = first_element + e % kChunk;
    if (element >= a.kv.value_dim) continue;
    float total = 0;
    for (int w = 0; w < kWarps; w++) total += partial[w * kHeads * kChunk + e];
    state_of(a, states, s, row, first_head + h, nth).acc[element] = total;
  }
  __syncthreads();
}

__device__ __forceinline__ int64_t first_visible(const AttendArgs& a, int64_t position) {
  return a.window > 0 && position >= a.window ? position - a.window + 1 : 0;
}

__global__ void __launch_bounds__(kThreads)
    attend_span(const __grid_constant__ AttendArgs a, LiveRows rows, Spans s, float* states) {
  extern __shared__ float4 shared[];
  const int64_t row = blockIdx.z;
  if (row >= *rows.live) return;
  const int64_t position = a.places.positions[row];
  const int64_t visible = first_visible(a, position);
  const int64_t span = visible / s.length + blockIdx.x;
  const int64_t begin = visible > span * s.length ? visible : span * s.length;
  const int64_t end = position + 1 < (span + 1) * s.length ? position + 1 : (span + 1) * s.length;
  if (begin >= end) return;
  const int n = static_cast<int>(end - begin);
  const int group = a.n_heads / a.kv.n_kv_heads;
  const int kv_head = static_cast<int>(blockIdx.y) / s.head_groups;
  const int first = static_cast<int>(blockIdx.y) % s.head_groups * kHeads;
  const int n_heads = group - first < kHeads ? group - first : kHeads;
  const int first_head = kv_head * group + first;
  const int32_t slot = a.places.slots[row];

  const int width = (a.kv.key_dim + 3) / 4 * 4;
  float* queries = reinterpret_cast<float*>(shared);
  float* partial = queries + kHeads * width;
  float* scores = partial + kWarps * kHeads * kChunk;
  for (int e = threadIdx.x; e < kHeads * width; e += kThreads) {
    const int h = e / width, i = e % width;
    const bool there = h < n_heads && i < a.kv.key_dim;
    queries[e] = there ? a.q[row * a.q_stride + int64_t{first_head + h} * a.q_head_stride + i] : 0;
  }
  for (int e = threadIdx.x; e < n * kHeads; e += kThreads) scores[e] = 0;  // of heads that are not there
  __syncthreads();
  score_span(a, queries, n_heads, begin, n, slot, kv_head * a.kv.k_head_bytes, scores);
  __syncthreads();
  soften_span(a, n_heads, n, scores, states, s, row, first_head, blockIdx.x);
  __syncthreads();
  for (int i = 0; i < a.kv.value_dim; i += kChunk) {
    sum_values(a, scores, n_heads, begin, n, slot, kv_head * a.kv.v_head_bytes, i, partial, states, s, row, first_head,
               blockIdx.x);
  }
}

__global__ void __launch_bounds__(kThreads)
    join_spans(const __grid_constant__ AttendArgs a, LiveRows rows, Spans s, float* states) {
  const int64_t row = blockIdx.x;
  const int head = blockIdx.y;
  if (row >= *rows.live) return;
  const int64_t position = a.places.positions[row];
  const int64_t n = position / s.length - first_visible(a, position) / s.length + 1;
  const float sink = a.sinks != nullptr ? a.sinks[head] : -__builtin_inff();
  float maximum = sink;
  for (int64_t i = 0; i < n; i++) maximum = fmaxf(maximum, state_of(a, states, s, row, head, i).maximum[0]);
  float total = a.sinks != nullptr ? expf(sink - maximum) : 0;
  for (int64_t i = 0; i < n; i++) {
    const State state = state_of(a, states, s, row, head, i);
    total = fmaf(state.maximum[1], expf(state.maximum[0] - maximum), total);
  }
  const float* query = a.q + row * a.q_stride + int64_t{head} * a.q_head_stride;
  for (int d = threadIdx.x; d < a.kv.value_dim; d += kThreads) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) {
      const State state = state_of(a, states, s, row, head, i);
      sum = fmaf(state.acc[d], expf(state.maximum[0] - maximum), sum);
    }
    float out = sum / total;
    if (a.gated) out *= sigmoid(query[a.kv.key_dim + d]);
    a.y[row * a.y_stride + int64_t{head} * a.kv.value_dim + d] = out;
  }
}

}  // namespace

size_t attend_spans_workspace(const AttendArgs& a, int64_t rows) {
  return static_cast<size_t>(rows * a.n_heads * spans_of(a).max * (a.kv.value_dim + 2)) * sizeof(float);
}

void launch_attend_spans(const AttendArgs& a, const LiveRows& rows, void* workspace, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const Spans s = spans_of(a);
  auto* states = static_cast<float*>(workspace);
  const dim3 grid(static_cast<unsigned>(s.max), static_cast<unsigned>(a.kv.n_kv_heads * s.head_groups),
                  static_cast<unsigned>(rows.rows));
  attend_span<<<grid, kThreads, shared_bytes(a, s.length), stream>>>(a, rows, s, states);
  join_spans<<<dim3(static_cast<unsigned>(rows.rows), static_cast<unsigned>(a.n_heads)), kThreads, 0, stream>>>(
      a, rows, s, states);
}

}  // namespace strata::kernels::cuda
