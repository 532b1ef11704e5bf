// Append and attention of a few rows in one kernel, over a cache of float16: what it waits for counts, not what it
// computes. A warp has eight positions of its block's span at a time; the keys and values that the cache has of the
// first of them are in registers before the kernel in front is done, and those of the step's own rows never come from
// memory. Each warp forms softmax and sums of its own positions; they are joined in the block, and the blocks of a row
// by the one that is done last.
#include "kernels/cuda/attend_spans.cuh"
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kOfWarp = 8;  // positions of a warp at a time
constexpr int kOfBlock = kSpanWarps * kOfWarp;
constexpr int kWidth = 4 * kWarp;   // elements of a head, at most: four to a lane
constexpr int kPairs = kWidth / 2;  // that rope turns, at most
constexpr int kHeads = kSpanHeads;

struct StepShared {
  alignas(16) float queries[kHeads][kWidth];
  alignas(16) float keys[kSpanWarps][kWidth];          // of the step's rows, on their way to the cache
  alignas(16) float sums[kSpanWarps][kHeads][kWidth];  // of a warp's positions
  float maxima[kSpanWarps][kHeads], totals[kSpanWarps][kHeads];
};

// A lane's four elements of keys and values.
struct Positions {
  uint2 keys[kOfWarp], values[kOfWarp];
};

// Those that the cache has of positions [first, first + kOfWarp) of the span; zeros from its end on.
__device__ __forceinline__ void load_positions(const AttendArgs& a, const Work& w, int first, int lane, Positions& to) {
  const int t = first + lane % kOfWarp;
  const int token = t < w.n ? static_cast<int>(token_at(a.places, a.kv, w.slot, w.begin + t)) : -1;
#pragma unroll
  for (int j = 0; j < kOfWarp; j++) {
    const int64_t at = __shfl_sync(kAllLanes, token, j);
    to.keys[j] = to.values[j] = make_uint2(0, 0);
    if (at < 0) continue;
    const uint8_t* key = a.kv.k + at * a.kv.k_token_bytes + w.kv_head * a.kv.k_head_bytes;
    const uint8_t* value = a.kv.v + at * a.kv.v_token_bytes + w.kv_head * a.kv.v_head_bytes;
    if (4 * lane < a.kv.key_dim) to.keys[j] = reinterpret_cast<const uint2*>(key)[lane];
    if (4 * lane < a.kv.value_dim) to.values[j] = reinterpret_cast<const uint2*>(value)[lane];
  }
}
__device__ __forceinline__ float4 floats_of(uint2 halves) {
  return make_float4(half_value(halves.x & 0xFFFF), half_value(halves.x >> 16), half_value(halves.y & 0xFFFF),
                     half_value(halves.y >> 16));
}
__device__ __forceinline__ uint2 halves_of(const float* x) {
  return make_uint2(half_bits(x[0]) | uint32_t{half_bits(x[1])} << 16,
                    half_bits(x[2]) | uint32_t{half_bits(x[3])} << 16);
}

// A head before norm and rope, and the angles that its row is turned by: elements and pairs lane, lane + kWarp, ...
struct RawHead {
  float x[4], cos[2], sin[2];
};
__device__ __forceinline__ RawHead load_head(const AppendArgs& p, const float* x, int64_t row, int lane) {
  RawHead head{};
  const float* cos = p.cos_sin + row * p.cos_sin_stride;
#pragma unroll
  for (int e = 0; e < 4; e++) {
    const int i = lane + e * kWarp;
    if (i < p.kv.key_dim) head.x[e] = x[i];
    if (e < 2 && i < p.n_pairs) head.cos[e] = cos[i];
    if (e < 2 && i < p.n_pairs) head.sin[e] = cos[p.n_pairs + i];
  }
  return head;
}
struct Gain {
  float of[4];
};
__device__ __forceinline__ Gain load_gain(const float* gain, int dim, int lane) {
  Gain g{};
#pragma unroll
  for (int e = 0; e < 4; e++) {
    if (gain != nullptr && lane + e * kWarp < dim) g.of[e] = gain[lane + e * kWarp];
  }
  return g;
}

// Norm and rope as append.cu has them. `to`: kWidth floats of shared memory, zeros behind the head.
__device__ __forceinline__ void turn_head(const AppendArgs& p, const RawHead& head, const Gain& gain, bool norms,
                                          int lane, float* to) {
  float squares = 0;
#pragma unroll
  for (int e = 0; e < 4; e++) squares = fmaf(head.x[e], head.x[e], squares);
  const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(p.kv.key_dim) + p.eps);
#pragma unroll
  for (int e = 0; e < 4; e++) to[lane + e * kWarp] = norms ? head.x[e] * factor * gain.of[e] : head.x[e];
  __syncwarp();
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int pair = lane + e * kWarp;
    if (pair >= p.n_pairs) break;
    const int first = p.interleaved ? 2 * pair : pair;
    const int second = p.interleaved ? 2 * pair + 1 : pair + p.n_pairs;
    const float u = to[first], v = to[second];
    to[first] = u * head.cos[e] - v * head.sin[e];
    to[second] = u * head.sin[e] + v * head.cos[e];
  }
  __syncwarp();
}

// A row of the step as it comes to the cache.
struct FreshRow {
  RawHead key;
  float4 value;
};
__device__ __forceinline__ FreshRow load_fresh(const AppendArgs& p, const Work& w, int row, int lane) {
  FreshRow fresh;
  fresh.key = load_head(p, p.k + row * p.k_stride + int64_t{w.kv_head} * p.kv.key_dim, row, lane);
  const float* value = p.v + row * p.v_stride + int64_t{w.kv_head} * p.kv.value_dim + 4 * lane;
  fresh.value = make_float4(0, 0, 0, 0);
  if (4 * lane < p.kv.value_dim) fresh.value = make_float4(value[0], value[1], value[2], value[3]);
  return fresh;
}
// Puts it into the cache and among the warp's positions. Blocks that meet the same row store the same bytes.
__device__ __forceinline__ void take_fresh(const AppendArgs& p, const Work& w, const FreshRow& fresh, const Gain& gain,
                                           int t, int lane, float* held, Positions& positions) {
  turn_head(p, fresh.key, gain, p.k_norm != nullptr, lane, held);
  const uint2 key = halves_of(held + 4 * lane);
  const float x[4] = {fresh.value.x, fresh.value.y, fresh.value.z, fresh.value.w};
  const uint2 value = halves_of(x);
  const int64_t token = token_at(p.places, p.kv, w.slot, w.begin + t);
  uint8_t* to_key = p.kv.k + token * p.kv.k_token_bytes + w.kv_head * p.kv.k_head_bytes;
  uint8_t* to_value = p.kv.v + token * p.kv.v_token_bytes + w.kv_head * p.kv.v_head_bytes;
  if (4 * lane < p.kv.key_dim) reinterpret_cast<uint2*>(to_key)[lane] = key;
  if (4 * lane < p.kv.value_dim) reinterpret_cast<uint2*>(to_value)[lane] = value;
#pragma unroll
  for (int j = 0; j < kOfWarp; j++) {  // registers have no index
    const bool here = j == t % kOfWarp;
    positions.keys[j].x = here ? key.x : positions.keys[j].x;
    positions.keys[j].y = here ? key.y : positions.keys[j].y;
    positions.values[j].x = here ? value.x : positions.values[j].x;
    positions.values[j].y = here ? value.y : positions.values[j].y;
  }
  __syncwarp();
}

// What a warp knows of the softmax of its positions so far: maximum and total of head lane % kHeads, and each lane's
// elements of all heads' sums.
struct WarpSoftmax {
  float maximum = -__builtin_inff(), total = 0;
  float4 sums[kHeads] = {};
};

// Scores of four of the warp's positions, of which n are there: lane 8 j + h has that of position j and head h.
__device__ __forceinline__ float score_four(const AttendArgs& a, const StepShared& s, const uint2* keys, int n,
                                            int lane) {
  constexpr int kFour = kWarp / kHeads;
  float dot[kWarp];
  float4 k[kFour];
#pragma unroll
  for (int j = 0; j < kFour; j++) k[j] = floats_of(keys[j]);
#pragma unroll
  for (int h = 0; h < kHeads; h++) {
    const float4 q = *reinterpret_cast<const float4*>(s.queries[h] + 4 * lane);
#pragma unroll
    for (int j = 0; j < kFour; j++) {
      dot[j * kHeads + h] = fmaf(q.x, k[j].x, fmaf(q.y, k[j].y, fmaf(q.z, k[j].z, q.w * k[j].w)));
    }
  }
  const float score = warp_sums(dot, lane) * a.scale;
  return lane / kHeads < n ? score : -__builtin_inff();
}

// Adds the warp's positions, of which n > 0 are there.
__device__ __forceinline__ void add_positions(const AttendArgs& a, const StepShared& s, const Positions& positions,
                                              int n, int lane, WarpSoftmax& softmax) {
  constexpr int kFour = kOfWarp / 2;
  float scores[2];
  scores[0] = score_four(a, s, positions.keys, n, lane);
  __syncwarp();  // one after the other, for registers
  scores[1] = score_four(a, s, positions.keys + kFour, n - kFour, lane);
  float maximum = fmaxf(softmax.maximum, fmaxf(scores[0], scores[1]));
  maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, kHeads));
  maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 2 * kHeads));
  const float rescale = expf(softmax.maximum - maximum);
  const float weights[2] = {expf(scores[0] - maximum), expf(scores[1] - maximum)};
  float total = weights[0] + weights[1];
  total += __shfl_xor_sync(kAllLanes, total, kHeads);
  total += __shfl_xor_sync(kAllLanes, total, 2 * kHeads);
  softmax.maximum = maximum;
  softmax.total = fmaf(softmax.total, rescale, total);
#pragma unroll
  for (int h = 0; h < kHeads; h++) {
    const float factor = __shfl_sync(kAllLanes, rescale, h);
    float4& sum = softmax.sums[h];
    sum = make_float4(sum.x * factor, sum.y * factor, sum.z * factor, sum.w * factor);
  }
#pragma unroll
  for (int j = 0; j < kOfWarp; j++) {
    const float4 v = floats_of(positions.values[j]);
#pragma unroll
    for (int h = 0; h < kHeads; h++) {
      const float weight = __shfl_sync(kAllLanes, weights[j / kFour], j % kFour * kHeads + h);
      float4& sum = softmax.sums[h];
      sum.x = fmaf(weight, v.x, sum.x);
      sum.y = fmaf(weight, v.y, sum.y);
      sum.z = fmaf(weight, v.z, sum.z);
      sum.w = fmaf(weight, v.w, sum.w);
    }
  }
}

// The warps' sums of a head, joined in order by one of them: to the state of the block's span, or, where that is all
// that the row sees, to the output.
__device__ void join_warps(const AttendArgs& a, const Spans& spans, const Work& w, const StepShared& s, int h, int lane,
                           float* states) {
  float maximum = -__builtin_inff(), total = 0;
  float sum[4] = {};
  for (int i = 0; i < kSpanWarps; i++) maximum = fmaxf(maximum, s.maxima[i][h]);
  for (int i = 0; i < kSpanWarps; i++) {
    const float factor = expf(s.maxima[i][h] - maximum);
    const float4 part = *reinterpret_cast<const float4*>(s.sums[i][h] + 4 * lane);
    total = fmaf(s.totals[i][h], factor, total);
    sum[0] = fmaf(part.x, factor, sum[0]);
    sum[1] = fmaf(part.y, factor, sum[1]);
    sum[2] = fmaf(part.z, factor, sum[2]);
    sum[3] = fmaf(part.w, factor, sum[3]);
  }
  const int head = w.first_head + h, d = 4 * lane;
  if (w.n_spans > 1) {
    const State state = state_of(a, states, spans, blockIdx.z, head, blockIdx.x);
    for (int e = 0; e < 4 && d < a.kv.value_dim; e++) state.acc[d + e] = sum[e];
    if (lane == 0) {
      state.maximum[0] = maximum;
      state.maximum[1] = total;
    }
    return;
  }
  const float sink = a.sinks != nullptr ? a.sinks[head] : -__builtin_inff();
  const float all = fmaxf(maximum, sink), factor = expf(maximum - all);
  total = total * factor + expf(sink - all);
  const float* gate = a.q + w.row * a.q_stride + int64_t{head} * a.q_head_stride + a.kv.key_dim;
  float* y = a.y + w.row * a.y_stride + int64_t{head} * a.kv.value_dim;
  for (int e = 0; e < 4 && d < a.kv.value_dim; e++) {
    const float out = sum[e] * factor / total;
    y[d + e] = a.gated ? out * sigmoid(gate[d + e]) : out;
  }
}

// Whether the block is the last of `n` that count themselves here; all that they have written is seen then. The count
// is back at zero.
__device__ bool arrives_last(int32_t* arrivals, int n) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(arrivals, 1) == n - 1;
    if (last) *arrivals = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

__global__ void __launch_bounds__(kSpanThreads, 2)
    append_attend(const __grid_constant__ AppendArgs p, const __grid_constant__ AttendArgs a, LiveRows rows,
                  Spans spans, Arrivals arrivals, float* states) {
  __shared__ StepShared s;
  start_kernel_behind();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Work w = work_of(a, rows, spans, 0);
  const int own = kOfWarp * warp;  // first of the warp's positions
  Positions positions;
  int place = -1;  // of row `lane` of the step in the span
  if (w.n > 0) {
    load_positions(a, w, own, lane, positions);
    if (lane < rows.rows && lane < *rows.live && a.places.slots[lane] == w.slot) {
      const int64_t t = a.places.positions[lane] - w.begin;
      if (t >= 0 && t < w.n) place = static_cast<int>(t);
    }
  }
  const Gain q_gain = load_gain(p.q_norm, p.kv.key_dim, lane), k_gain = load_gain(p.k_norm, p.kv.key_dim, lane);
  wait_for_kernel_before();
  if (w.n == 0) return;

  const auto fresh_rows = [&](int first) {
    return __ballot_sync(kAllLanes, place >= first && place < first + kOfWarp);
  };
  RawHead query{};
  if (warp < w.n_heads) {
    query = load_head(p, p.q + w.row * p.q_stride + int64_t{w.first_head + warp} * p.q_head_stride, w.row, lane);
  }
  unsigned fresh = fresh_rows(own);
  FreshRow row{};
  if (fresh != 0) row = load_fresh(p, w, __ffs(static_cast<int>(fresh)) - 1, lane);
  turn_head(p, query, q_gain, p.q_norm != nullptr, lane, s.queries[warp]);
  __syncthreads();

  WarpSoftmax softmax;
  for (int first = own; first < w.n; first += kOfBlock) {
    if (first != own) {
      load_positions(a, w, first, lane, positions);
      fresh = fresh_rows(first);
      if (fresh != 0) row = load_fresh(p, w, __ffs(static_cast<int>(fresh)) - 1, lane);
    }
    while (fresh != 0) {
      const int r = __ffs(static_cast<int>(fresh)) - 1;
      take_fresh(p, w, row, k_gain, __shfl_sync(kAllLanes, place, r), lane, s.keys[warp], positions);
      fresh &= fresh - 1;
      if (fresh != 0) row = load_fresh(p, w, __ffs(static_cast<int>(fresh)) - 1, lane);
    }
    add_positions(a, s, positions, min(w.n - first, kOfWarp), lane, softmax);
  }
#pragma unroll
  for (int h = 0; h < kHeads; h++) *reinterpret_cast<float4*>(s.sums[warp][h] + 4 * lane) = softmax.sums[h];
  if (lane < kHeads) {
    s.maxima[warp][lane] = softmax.maximum;
    s.totals[warp][lane] = softmax.total;
  }
  __syncthreads();
  if (warp < w.n_heads) join_warps(a, spans, w, s, warp, lane, states);
  if (w.n_spans == 1) return;
  if (!arrives_last(arrivals.counts + w.row * arrivals.stride + w.first_head, w.n_spans)) return;
  if (warp < w.n_heads) join_head(a, spans, w, w.first_head + warp, blockIdx.z, states);
}

}  // namespace

bool appends_and_attends(const AttendArgs& a, int n_pairs, const LiveRows& rows) {
  const int most = a.kv.key_dim > a.kv.value_dim ? a.kv.key_dim : a.kv.value_dim;
  return rows.rows <= kMostAppended && a.kv.type == KvType::kF16 && a.kv.key_dim % 4 == 0 &&
         a.kv.value_dim % 4 == 0 && most <= kWidth && n_pairs <= kPairs;
}

void launch_append_attend(const AppendArgs& append, const AttendArgs& a, const Arrivals& arrivals,
                          const LiveRows& rows, void* workspace, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const Spans spans = spans_of(a);
  launch_after(append_attend, span_blocks(a, spans, rows.rows), kSpanThreads, 0, stream, append, a, rows, spans,
               arrivals, static_cast<float*>(workspace));
}

}  // namespace strata::kernels::cuda
