// What a block of attend_rows.cu has in shared memory, and the steps by which it goes through keys and values: queries
// and weights are two halves each, as in attend_mma.cu. Warps share the scores of a step by tiles of heads, halves of
// the keys and parts of the dimensions, whose sums are added in order; then each has some dimensions of the values for
// all heads.
#pragma once

#include "kernels/cuda/attend_halves.cuh"
#include "kernels/cuda/attend_spans.cuh"
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/mma.cuh"

namespace strata::kernels::cuda::by_rows {

inline constexpr int kWarps = 8;
inline constexpr int kThreads = kWarps * kWarp;
inline constexpr int kKeys = 64;                // of a step
inline constexpr int kKeysOfWarp = kKeys / 2;   // whose scores a warp forms
inline constexpr int kScoreStride = kKeys + 8;  // floats, and halves of weights

// kTiles of 16 heads; kGroups of 16 dimensions of the values to a warp.
template <int kTiles, int kGroups>
struct Shape {
  static constexpr int kHeads = 16 * kTiles;
  static constexpr int kParts = kWarps / (2 * kTiles);  // of the dimensions of the keys
  static constexpr int kShare = kThreads / kHeads;      // threads of a head's softmax
  static constexpr int kOfThread = kKeys / kShare;      // keys of such a thread
  static constexpr int kMostValueDim = 16 * kGroups * kWarps;
};
using Narrow = Shape<1, 2>;
using Wide = Shape<2, 4>;

template <class S>
size_t shared_bytes(const AttendArgs& a) {
  const size_t rows = 2 * S::kHeads + kKeys;
  const size_t values = a.kv.v == a.kv.k ? 0 : static_cast<size_t>(kKeys * halves_stride(a.kv.value_dim));
  const size_t halves = rows * halves_stride(a.kv.key_dim) + values + 2 * S::kHeads * kScoreStride;
  return halves * sizeof(__half) + (S::kParts * S::kHeads * kScoreStride + S::kHeads) * sizeof(float);
}

struct RowShared {
  __half *high, *low;  // [heads][key stride] queries, and what these halves lack of them
  __half* keys;        // [kKeys][key stride]
  const __half* values;
  int value_stride;
  __half *weights, *rest;  // [heads][kScoreStride], as the queries
  float* scores;           // [parts][heads][kScoreStride]
  float* factors;          // [heads]: of what was summed before, at last of the outputs
};
template <class S>
__device__ RowShared shared_of(const AttendArgs& a, uint4* memory) {
  RowShared s{};
  const int stride = halves_stride(a.kv.key_dim);
  s.high = reinterpret_cast<__half*>(memory);
  s.low = s.high + S::kHeads * stride;
  s.keys = s.low + S::kHeads * stride;
  s.weights = s.keys + kKeys * stride;
  s.values = s.keys;
  s.value_stride = stride;
  if (a.kv.v != a.kv.k) {
    s.values = s.weights;
    s.value_stride = halves_stride(a.kv.value_dim);
    s.weights += kKeys * s.value_stride;
  }
  s.rest = s.weights + S::kHeads * kScoreStride;
  s.scores = reinterpret_cast<float*>(s.rest + S::kHeads * kScoreStride);
  s.factors = s.scores + S::kParts * S::kHeads * kScoreStride;
  return s;
}

// What a block computes: positions [begin, n) of what a row sees, by heads [first_head, first_head + n_heads) of one
// KV head.
struct RowWork {
  int64_t row;
  int32_t slot;
  int begin, n;
  int kv_head, first_head, n_heads;
};

// Positions of a row's spans: whole steps, and no more of them than there are blocks.
__device__ __forceinline__ int row_span(int seen, int64_t most_spans) {
  const int even = (seen + static_cast<int>(most_spans) - 1) / static_cast<int>(most_spans);
  return (even + kKeys - 1) / kKeys * kKeys;
}

template <class S>
__device__ void load_queries(const AttendArgs& a, const RowWork& w, const RowShared& s) {
  const int pairs = a.kv.key_dim / 2, stride = halves_stride(a.kv.key_dim);
  const float* q = a.q + w.row * a.q_stride + int64_t{w.first_head} * a.q_head_stride;
  for (int e = threadIdx.x; e < S::kHeads * pairs; e += kThreads) {
    const int h = e / pairs, i = 2 * (e % pairs);
    const float* from = q + int64_t{h} * a.q_head_stride + i;
    const Halves x = h < w.n_heads ? halves_of(from[0], from[1]) : Halves{0, 0};
    *reinterpret_cast<uint32_t*>(s.high + h * stride + i) = x.high;
    *reinterpret_cast<uint32_t*>(s.low + h * stride + i) = x.low;
  }
}

// Asks for the keys or values of positions [begin, begin + kKeys), four threads for each; zeros from w.n on. The copies
// are a group.
__device__ inline void ask_for_cache(const AttendArgs& a, const RowWork& w, const uint8_t* memory, size_t token_bytes,
                                     size_t head_offset, int dim, int begin, __half* to) {
  constexpr int kShare = kThreads / kKeys;
  const int t = threadIdx.x / kShare;
  const bool there = begin + t < w.n;
  const uint8_t* from = memory;  // of positions behind the last, nothing is read
  if (there) from += token_at(a.places, a.kv, w.slot, begin + t) * token_bytes + head_offset;
  for (int i = threadIdx.x % kShare; i < dim / 8; i += kShare) {
    copy_sixteen(to + t * halves_stride(dim) + 8 * i, there ? from + 16 * i : memory, there);
  }
  commit_copies();
}

// A warp's part of the scores, to shared memory.
template <class S>
__device__ void score_keys(const AttendArgs& a, const RowShared& s, int warp, int lane) {
  constexpr int kTiles = S::kHeads / 16;
  const int tile = warp % kTiles, first_key = warp / kTiles % 2 * kKeysOfWarp, part = warp / (2 * kTiles);
  const int stride = halves_stride(a.kv.key_dim);
  const int query = (16 * tile + lane % 16) * stride + lane / 16 * 8;
  const __half* key = s.keys + (first_key + lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8;
  float score[kKeysOfWarp / 8][4] = {};
#pragma unroll 2
  for (int k = 16 * part; k < a.kv.key_dim; k += 16 * S::kParts) {
    uint32_t high[4], low[4];
    load_matrices(s.high + query + k, high);
    load_matrices(s.low + query + k, low);
#pragma unroll
    for (int j = 0; j < kKeysOfWarp / 16; j++) {
      uint32_t b[4];
      load_matrices(key + 16 * j * stride + k, b);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        multiply_halves(score[2 * j + half], high, b[2 * half], b[2 * half + 1]);
        multiply_halves(score[2 * j + half], low, b[2 * half], b[2 * half + 1]);
      }
    }
  }
  float* to = s.scores + (part * S::kHeads + 16 * tile + lane / 4) * kScoreStride + first_key + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < kKeysOfWarp / 8; j++) {
    *reinterpret_cast<float2*>(to + 8 * j) = make_float2(score[j][0], score[j][1]);
    *reinterpret_cast<float2*>(to + 8 * kScoreStride + 8 * j) = make_float2(score[j][2], score[j][3]);
  }
}

// What the threads of a head know of its softmax; each has the total of its own keys.
struct RowSoftmax {
  float maximum = -__builtin_inff();  // of scores in units of the logarithm of two
  float total = 0;
};

// Scores become weights; the first `n` of the step's keys are seen.
template <class S>
__device__ void soften(const RowShared& s, float scale, int n, RowSoftmax& softmax) {
  constexpr int kOf = S::kOfThread;
  const int head = threadIdx.x / S::kShare, first = threadIdx.x % S::kShare * kOf;
  float x[kOf] = {};
#pragma unroll
  for (int part = 0; part < S::kParts; part++) {
    const float* from = s.scores + (part * S::kHeads + head) * kScoreStride + first;
#pragma unroll
    for (int i = 0; i < kOf; i++) x[i] += from[i];
  }
  float maximum = softmax.maximum;
#pragma unroll
  for (int i = 0; i < kOf; i++) {
    x[i] = first + i < n ? x[i] * scale : -__builtin_inff();
    maximum = fmaxf(maximum, x[i]);
  }
#pragma unroll
  for (int step = S::kShare / 2; step > 0; step /= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, step));
  }
  const float rescale = exp2f(softmax.maximum - maximum);
  float total = 0;
#pragma unroll
  for (int i = 0; i < kOf; i += 2) {
    const float u = exp2f(x[i] - maximum), v = exp2f(x[i + 1] - maximum);
    total += u + v;
    const Halves weights = halves_of(u, v);
    *reinterpret_cast<uint32_t*>(s.weights + head * kScoreStride + first + i) = weights.high;
    *reinterpret_cast<uint32_t*>(s.rest + head * kScoreStride + first + i) = weights.low;
  }
  softmax.maximum = maximum;
  softmax.total = fmaf(softmax.total, rescale, total);
  if (first == 0) s.factors[head] = rescale;
}

// The outputs of a warp: of all heads, dimensions [16 * (warp + i * kWarps), ...) of the values for each group i.
template <int kTiles, int kGroups>
struct Outputs {
  float of[kTiles][kGroups][2][4] = {};
};

template <int kTiles, int kGroups>
__device__ void add_values(const AttendArgs& a, const RowShared& s, int warp, int lane,
                           Outputs<kTiles, kGroups>& out) {
#pragma unroll
  for (int t = 0; t < kTiles; t++) {
    const float upper = s.factors[16 * t + lane / 4], lower = s.factors[16 * t + lane / 4 + 8];
#pragma unroll
    for (auto& group : out.of[t]) {
#pragma unroll
      for (auto& half : group) {
        half[0] *= upper;
        half[1] *= upper;
        half[2] *= lower;
        half[3] *= lower;
      }
    }
  }
  const __half* value = s.values + (lane / 8 % 2 * 8 + lane % 8) * s.value_stride + lane / 16 * 8;
  const int weight = lane % 16 * kScoreStride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kKeys; k += 16) {
    uint32_t high[kTiles][4], low[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; t++) {
      load_matrices(s.weights + 16 * t * kScoreStride + weight + k, high[t]);
      load_matrices(s.rest + 16 * t * kScoreStride + weight + k, low[t]);
    }
#pragma unroll
    for (int i = 0; i < kGroups; i++) {
      const int d = 16 * (warp + i * kWarps);
      if (d >= a.kv.value_dim) break;
      uint32_t b[4];
      load_matrices_transposed(value + k * s.value_stride + d, b);
#pragma unroll
      for (int t = 0; t < kTiles; t++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
          multiply_halves(out.of[t][i][half], high[t], b[2 * half], b[2 * half + 1]);
          multiply_halves(out.of[t][i][half], low[t], b[2 * half], b[2 * half + 1]);
        }
      }
    }
  }
}

// Of heads whose factors are known: what they attend to, or their states of a span.
template <int kTiles, int kGroups>
__device__ void store_outputs(const AttendArgs& a, const RowWork& w, const RowShared& s, int warp, int lane,
                              const Outputs<kTiles, kGroups>& out, const Spans& spans, float* states) {
  const bool whole = spans.max == 1;
#pragma unroll
  for (int t = 0; t < kTiles; t++) {
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
      const int h = 16 * t + lane / 4 + 8 * lower;
      if (h >= w.n_heads) continue;
      const float factor = s.factors[h];
      const int head = w.first_head + h;
      const float* gate = a.q + w.row * a.q_stride + int64_t{head} * a.q_head_stride + a.kv.key_dim;
      float* y = whole ? a.y + w.row * a.y_stride + int64_t{head} * a.kv.value_dim
                       : state_of(a, states, spans, w.row, head, blockIdx.z).acc;
#pragma unroll
      for (int i = 0; i < kGroups; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int d = 16 * (warp + i * kWarps) + e / 2 * 8 + lane % 4 * 2 + e % 2;
          if (d >= a.kv.value_dim) continue;
          const float value = out.of[t][i][e / 2][2 * lower + e % 2] * factor;
          y[d] = whole && a.gated ? value * sigmoid(gate[d]) : value;
        }
      }
    }
  }
}

}  // namespace strata::kernels::cuda::by_rows
