// Attention of each row by itself. A row's context is cut into spans at fixed positions; a block computes the softmax
// of up to eight query heads of one KV head over one span, and a second kernel joins the spans of a head in order.
#include <algorithm>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kHeads = 8;      // queries of a block
constexpr int kChunk = 128;    // elements of values that a warp sums at once, four to a lane
constexpr int kShortest = 64;  // positions of a span
constexpr int kLongest = 512;
constexpr int kSpansWanted = 128;  // of a row, so that few rows fill the device
// Rows computed at a time: their spans' states are to stay small beside the cache.
constexpr int64_t kSliceRows = 32;

// How contexts are cut: the length of a row's spans depends on its own position only.
struct Spans {
  int longest;      // positions of a span
  int wanted;       // spans of a row, at most, when it sees its whole context
  int64_t max;      // spans that a row can see, at most
  int head_groups;  // blocks for the queries of a KV head
};

size_t shared_bytes(const AttendArgs& a, int length) {
  const int key_floats = (a.kv.key_dim + 3) / 4 * 4;
  return (static_cast<size_t>(kHeads) * key_floats + static_cast<size_t>(kHeads + 1) * length +
          kWarps * kHeads * kChunk) *
         sizeof(float);
}

Spans spans_of(const AttendArgs& a) {
  constexpr size_t kSharedBytes = 46 * 1024;
  const int64_t context = a.places.max_blocks * a.kv.block_tokens;
  Spans s{};
  s.longest = kLongest;
  while (s.longest > kShortest && shared_bytes(a, s.longest) > kSharedBytes) s.longest -= kShortest;
  s.wanted = static_cast<int>(std::max<int64_t>(kSpansWanted, (context + s.longest - 1) / s.longest));
  s.max = std::min<int64_t>(s.wanted, (context + kShortest - 1) / kShortest);
  if (a.window > 0) s.max = std::min(s.max, (a.window + kShortest - 2) / kShortest + 1);
  s.head_groups = (a.n_heads / a.kv.n_kv_heads + kHeads - 1) / kHeads;
  return s;
}

// Positions of the spans of a row.
__device__ __forceinline__ int span_length(const Spans& s, int64_t position) {
  const int even = static_cast<int>(position / s.wanted) + 1;
  return min(s.longest, (even + kShortest - 1) / kShortest * kShortest);
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

// Positions that a warp scores at once: with kHeads each, a score for every lane.
constexpr int kTogether = kWarp / kHeads;

// Finds the span's tokens in the cache and asks for their keys and values: `tokens`, [n].
__device__ void find_tokens(const AttendArgs& a, int kv_head, int64_t begin, int n, int32_t slot, int32_t* tokens) {
  for (int t = threadIdx.x / 2; t < n; t += kThreads / 2) {
    const bool of_value = threadIdx.x % 2 != 0;
    const int64_t token = token_at(a.places, a.kv, slot, begin + t);
    if (!of_value) tokens[t] = static_cast<int32_t>(token);
    const uint8_t* head = of_value ? a.kv.v + token * a.kv.v_token_bytes + kv_head * a.kv.v_head_bytes
                                   : a.kv.k + token * a.kv.k_token_bytes + kv_head * a.kv.k_head_bytes;
    const size_t bytes = of_value ? a.kv.v_head_bytes : a.kv.k_head_bytes;
    for (size_t at = 0; at < bytes; at += 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(head + at));
  }
}

// Scores of the span's n positions for all queries: scores[t * kHeads + h]. Several positions at once, so that their
// loads are under way together.
__device__ void score_span(const AttendArgs& a, const float* queries, const int32_t* tokens, int n, size_t head_offset,
                           float* scores) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int width = (a.kv.key_dim + 3) / 4 * 4;
  for (int t0 = warp * kTogether; t0 < n; t0 += kWarps * kTogether) {
    const uint8_t* keys[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; j++) {
      const int t = t0 + j < n ? t0 + j : n - 1;
      keys[j] = a.kv.k + tokens[t] * a.kv.k_token_bytes + head_offset;
    }
    float dot[kWarp] = {};  // [position][head]
    for (int i = 4 * lane; i < a.kv.key_dim; i += kChunk) {
      float4 k[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; j++) k[j] = four_elements(a.kv.type, keys[j], i, a.kv.key_dim);
#pragma unroll
      for (int h = 0; h < kHeads; h++) {
        const float4 q = *reinterpret_cast<const float4*>(queries + h * width + i);
#pragma unroll
        for (int j = 0; j < kTogether; j++) {
          float& to = dot[j * kHeads + h];
          to = fmaf(q.x, k[j].x, fmaf(q.y, k[j].y, fmaf(q.z, k[j].z, fmaf(q.w, k[j].w, to))));
        }
      }
    }
    const float score = warp_sums(dot, lane) * a.scale;
    if (t0 + lane / kHeads < n) scores[t0 * kHeads + lane] = score;
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

// Weighted sums of kChunk elements of the values, every kWarps-th position by each warp; the warps' sums are added in
// order. `partial`: [kWarps][kHeads][kChunk].
__device__ void sum_values(const AttendArgs& a, const float* weights, int n_heads, const int32_t* tokens, int n,
                           size_t head_offset, int first_element, float* partial, float* states, const Spans& s,
                           int64_t row, int first_head, int64_t nth) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int i = first_element + 4 * lane;
  float4 acc[kHeads] = {};
  if (i < a.kv.value_dim) {
#pragma unroll 8
    for (int t = warp; t < n; t += kWarps) {
      const uint8_t* value = a.kv.v + tokens[t] * a.kv.v_token_bytes + head_offset;
      const float4 v = four_elements(a.kv.type, value, i, a.kv.value_dim);
      const float4 low = *reinterpret_cast<const float4*>(weights + t * kHeads);
      const float4 high = *reinterpret_cast<const float4*>(weights + t * kHeads + 4);
      const float weight[kHeads] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int h = 0; h < kHeads; h++) {
        const float w = weight[h];
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

__global__ void __launch_bounds__(kThreads, 2)
    attend_span(const __grid_constant__ AttendArgs a, LiveRows rows, Spans s, int64_t first_row, float* states) {
  extern __shared__ float4 shared[];
  const int64_t row = first_row + blockIdx.z;
  const int32_t live = *rows.live, slot = a.places.slots[row];  // three loads at once
  const int64_t position = a.places.positions[row];
  if (row >= live) return;
  const int64_t visible = first_visible(a, position);
  const int length = span_length(s, position);
  const int64_t span = visible / length + blockIdx.x;
  const int64_t begin = visible > span * length ? visible : span * length;
  const int64_t end = position + 1 < (span + 1) * length ? position + 1 : (span + 1) * length;
  if (begin >= end) return;
  const int n = static_cast<int>(end - begin);
  const int group = a.n_heads / a.kv.n_kv_heads;
  const int kv_head = static_cast<int>(blockIdx.y) / s.head_groups;
  const int first = static_cast<int>(blockIdx.y) % s.head_groups * kHeads;
  const int n_heads = group - first < kHeads ? group - first : kHeads;
  const int first_head = kv_head * group + first;

  const int width = (a.kv.key_dim + 3) / 4 * 4;
  float* queries = reinterpret_cast<float*>(shared);
  float* partial = queries + kHeads * width;
  float* scores = partial + kWarps * kHeads * kChunk;
  auto* tokens = reinterpret_cast<int32_t*>(scores + kHeads * s.longest);
  find_tokens(a, kv_head, begin, n, slot, tokens);
  for (int e = threadIdx.x; e < kHeads * width; e += kThreads) {
    const int h = e / width, i = e % width;
    const bool there = h < n_heads && i < a.kv.key_dim;
    queries[e] = there ? a.q[row * a.q_stride + int64_t{first_head + h} * a.q_head_stride + i] : 0;
  }
  __syncthreads();
  score_span(a, queries, tokens, n, kv_head * a.kv.k_head_bytes, scores);
  __syncthreads();
  soften_span(a, n_heads, n, scores, states, s, blockIdx.z, first_head, blockIdx.x);
  __syncthreads();
  for (int i = 0; i < a.kv.value_dim; i += kChunk) {
    sum_values(a, scores, n_heads, tokens, n, kv_head * a.kv.v_head_bytes, i, partial, states, s, blockIdx.z,
               first_head, blockIdx.x);
  }
}

constexpr int kJoinThreads = 512;
constexpr int kJoinElements = 128;  // of the values at a time, each by kJoinGroups threads
constexpr int kJoinGroups = kJoinThreads / kJoinElements;

// Folds the values of all threads of a block in a fixed order; the result in every thread.
template <class Fold>
__device__ float fold_block(float x, const Fold& fold) {
  __shared__ float warps[kJoinThreads / kWarp];
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x = fold(x, __shfl_xor_sync(kAllLanes, x, step));
  __syncthreads();  // the fold before has been read
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = warps[0];
  for (int i = 1; i < kJoinThreads / kWarp; i++) x = fold(x, warps[i]);
  return x;
}

// The spans' states joined to the output of a head.
__global__ void __launch_bounds__(kJoinThreads)
    join_spans(const __grid_constant__ AttendArgs a, LiveRows rows, Spans s, int64_t first_row, float* states) {
  extern __shared__ float factors[];  // [spans] that bring each to the common maximum
  __shared__ float partial[kJoinGroups][kJoinElements];
  start_kernel_behind();
  const int64_t row = first_row + blockIdx.x;
  const int head = blockIdx.y;
  const int32_t live = *rows.live;
  const int64_t position = a.places.positions[row];
  if (row >= live) return;
  const int length = span_length(s, position);
  const int n = static_cast<int>(position / length - first_visible(a, position) / length + 1);
  const bool has_sink = a.sinks != nullptr;
  float maximum = has_sink ? a.sinks[head] : -__builtin_inff();
  for (int i = threadIdx.x; i < n; i += kJoinThreads) {
    maximum = fmaxf(maximum, state_of(a, states, s, blockIdx.x, head, i).maximum[0]);
  }
  maximum = fold_block(maximum, [](float x, float y) { return fmaxf(x, y); });
  float total = 0;
  for (int i = threadIdx.x; i < n; i += kJoinThreads) {
    const State state = state_of(a, states, s, blockIdx.x, head, i);
    factors[i] = expf(state.maximum[0] - maximum);
    total = fmaf(state.maximum[1], factors[i], total);
  }
  total = fold_block(total, [](float x, float y) { return x + y; });
  if (has_sink) total += expf(a.sinks[head] - maximum);

  const int group = threadIdx.x / kJoinElements, element = threadIdx.x % kJoinElements;
  const float* gate = a.q + row * a.q_stride + int64_t{head} * a.q_head_stride + a.kv.key_dim;
  const float* sums = state_of(a, states, s, blockIdx.x, head, 0).acc;
  const int64_t state_floats = a.kv.value_dim + 2;
  for (int first = 0; first < a.kv.value_dim; first += kJoinElements) {
    const int d = first + element;
    float sum = 0;
    if (d < a.kv.value_dim) {
#pragma unroll 8
      for (int i = group; i < n; i += kJoinGroups) sum = fmaf(sums[i * state_floats + d], factors[i], sum);
    }
    partial[group][element] = sum;
    __syncthreads();
    if (group == 0 && d < a.kv.value_dim) {
      for (int g = 1; g < kJoinGroups; g++) sum += partial[g][element];
      const float out = sum / total;
      a.y[row * a.y_stride + int64_t{head} * a.kv.value_dim + d] = a.gated ? out * sigmoid(gate[d]) : out;
    }
    __syncthreads();
  }
}

}  // namespace

size_t attend_spans_workspace(const AttendArgs& a, int64_t rows) {
  const int64_t states = std::min(rows, kSliceRows) * a.n_heads * spans_of(a).max;
  return static_cast<size_t>(states * (a.kv.value_dim + 2)) * sizeof(float);
}

void launch_attend_spans(const AttendArgs& a, const LiveRows& rows, void* workspace, cudaStream_t stream) {
  const Spans s = spans_of(a);
  auto* states = static_cast<float*>(workspace);
  for (int64_t first = 0; first < rows.rows; first += kSliceRows) {
    const auto n = static_cast<unsigned>(std::min(kSliceRows, rows.rows - first));
    const dim3 blocks(static_cast<unsigned>(s.max), static_cast<unsigned>(a.kv.n_kv_heads * s.head_groups), n);
    attend_span<<<blocks, kThreads, shared_bytes(a, s.longest), stream>>>(a, rows, s, first, states);
    const dim3 heads(n, static_cast<unsigned>(a.n_heads));
    join_spans<<<heads, kJoinThreads, static_cast<size_t>(s.max) * sizeof(float), stream>>>(a, rows, s, first, states);
  }
}

}  // namespace strata::kernels::cuda
