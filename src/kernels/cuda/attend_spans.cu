// Attention of each row by itself. A row's context is cut into spans at fixed positions; a block computes the softmax
// of up to eight query heads of one KV head over one span, and a second kernel joins the spans of a head in order.
#include "kernels/cuda/attend_spans.cuh"

#include <algorithm>

#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kWarps = kSpanWarps;
constexpr int kThreads = kSpanThreads;
constexpr int kHeads = kSpanHeads;
constexpr int kChunk = kSpanChunk;
constexpr int kShortest = kShortestSpan;
constexpr int kLongest = 512;
constexpr int kBlocksWanted = 128;  // of a row with a long context, so that it fills the device
// Rows computed at a time: their spans' states are to stay small beside the cache.
constexpr int64_t kSliceRows = 32;

size_t shared_bytes(const AttendArgs& a, int length) {
  const int key_floats = (a.kv.key_dim + 3) / 4 * 4;
  return (static_cast<size_t>(kHeads) * key_floats + static_cast<size_t>(kHeads + 1) * length +
          kWarps * kHeads * kChunk) *
         sizeof(float);
}

// Shared memory that a block may have without asking to be granted more, and what every device grants where heads are
// too wide for that.
constexpr size_t kSharedBytes = 46 * 1024;
constexpr size_t kMostSharedBytes = 64 * 1024;

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

// The softmax of a block's span, from queries and the cache to the states.
struct SpanShared {
  float* queries;   // [kHeads][width]
  float* partial;   // [kWarps][kHeads][kChunk]
  float* scores;    // [longest][kHeads]
  int32_t* tokens;  // [longest]
};
__device__ __forceinline__ SpanShared shared_of(const AttendArgs& a, const Spans& s, float4* memory) {
  SpanShared shared{};
  shared.queries = reinterpret_cast<float*>(memory);
  shared.partial = shared.queries + kHeads * ((a.kv.key_dim + 3) / 4 * 4);
  shared.scores = shared.partial + kWarps * kHeads * kChunk;
  shared.tokens = reinterpret_cast<int32_t*>(shared.scores + kHeads * s.longest);
  return shared;
}
__device__ void attend_to_span(const AttendArgs& a, const Spans& s, const Work& w, const SpanShared& shared,
                               float* states) {
  score_span(a, shared.queries, shared.tokens, w.n, w.kv_head * a.kv.k_head_bytes, shared.scores);
  __syncthreads();
  soften_span(a, w.n_heads, w.n, shared.scores, states, s, blockIdx.z, w.first_head, blockIdx.x);
  __syncthreads();
  for (int i = 0; i < a.kv.value_dim; i += kChunk) {
    sum_values(a, shared.scores, w.n_heads, shared.tokens, w.n, w.kv_head * a.kv.v_head_bytes, i, shared.partial,
               states, s, blockIdx.z, w.first_head, blockIdx.x);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    attend_span(const __grid_constant__ AttendArgs a, LiveRows rows, Spans s, int64_t first_row, float* states) {
  extern __shared__ float4 memory[];
  start_kernel_behind();
  const Work w = work_of(a, rows, s, first_row);
  const SpanShared shared = shared_of(a, s, memory);
  wait_for_kernel_before();
  if (w.n == 0) return;
  find_tokens(a, w.kv_head, w.begin, w.n, w.slot, shared.tokens);
  const int width = (a.kv.key_dim + 3) / 4 * 4;
  for (int e = threadIdx.x; e < kHeads * width; e += kThreads) {
    const int h = e / width, i = e % width;
    const bool there = h < w.n_heads && i < a.kv.key_dim;
    shared.queries[e] = there ? a.q[w.row * a.q_stride + int64_t{w.first_head + h} * a.q_head_stride + i] : 0;
  }
  __syncthreads();
  attend_to_span(a, s, w, shared, states);
}

// A warp for each head of a KV head's group.
__global__ void __launch_bounds__(kThreads)
    join_spans(const __grid_constant__ AttendArgs a, LiveRows rows, Spans s, int64_t first_row, float* states) {
  start_kernel_behind();
  const Work w = work_of(a, rows, s, first_row);
  wait_for_kernel_before();
  const int warp = threadIdx.x / kWarp;
  if (w.row < *rows.live && warp < w.n_heads) join_head(a, s, w, w.first_head + warp, blockIdx.z, states);
}

}  // namespace

Spans spans_of(const AttendArgs& a) {
  const int64_t context = a.places.max_blocks * a.kv.block_tokens;
  Spans s{};
  s.longest = kLongest;
  const size_t shared = shared_bytes(a, kShortest) > kSharedBytes ? kMostSharedBytes : kSharedBytes;
  while (s.longest > kShortest && shared_bytes(a, s.longest) > shared) s.longest -= kShortest;
  s.head_groups = (a.n_heads / a.kv.n_kv_heads + kHeads - 1) / kHeads;
  const int64_t wanted = std::max(kBlocksWanted / (a.kv.n_kv_heads * s.head_groups), 8);
  s.wanted = static_cast<int>(std::max(wanted, (context + s.longest - 1) / s.longest));
  s.max = std::min<int64_t>(s.wanted, (context + kShortest - 1) / kShortest);
  if (a.window > 0) s.max = std::min(s.max, (a.window + kShortest - 2) / kShortest + 1);
  return s;
}

size_t attend_spans_workspace(const AttendArgs& a, int64_t rows) {
  const int64_t states = std::min(rows, kSliceRows) * a.n_heads * spans_of(a).max;
  return static_cast<size_t>(states * (a.kv.value_dim + 2)) * sizeof(float);
}

void launch_attend_spans(const AttendArgs& a, const LiveRows& rows, void* workspace, cudaStream_t stream) {
  const Spans s = spans_of(a);
  auto* states = static_cast<float*>(workspace);
  const size_t shared = shared_bytes(a, s.longest);
  if (shared > kSharedBytes) {
    cudaFuncSetAttribute(attend_span, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  }
  for (int64_t first = 0; first < rows.rows; first += kSliceRows) {
    const int64_t n = std::min(kSliceRows, rows.rows - first);
    launch_after(attend_span, span_blocks(a, s, n), kThreads, shared, stream, a, rows, s, first, states);
    dim3 heads = span_blocks(a, s, n);
    heads.x = 1;
    launch_after(join_spans, heads, kThreads, 0, stream, a, rows, s, first, states);
  }
}

}  // namespace strata::kernels::cuda
