// Append and attention of a few rows in one kernel, over a cache of float16: what it waits for counts, not what it
// computes. A warp has eight positions of its block's span at a time; the keys and values that the cache has of the
// first of them are in registers before the kernel in front is done, and those of the step's own rows never come from
// memory. Each warp forms softmax and sums of its own positions; they are joined in the block, and the blocks of a row
// by the one that is done last.
#include "kernels/cuda/attend_spans.cuh"
#include "kernels/cuda/clusters.cuh"
#include "kernels/cuda/kv.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kOfWarp = 8;  // positions of a warp at a time
constexpr int kOfBlock = kSpanWarps * kOfWarp;
constexpr int kWidth = 4 * kWarp;   // elements of a head, at most: four to a lane
constexpr int kPairs = kWidth / 2;  // that rope turns, at most
// Queries of a block: fewer for a single row, which makes more blocks, for then what is waited for counts.
constexpr int kHeadsOfOne = 4, kHeadsOfMany = kSpanHeads;
constexpr int kClusterBlocks = 8;  // blocks of a cluster, at most: what every device with clusters has

__device__ __forceinline__ void add_scaled(const float4& x, float factor, float4& sum) {
  sum.x = fmaf(x.x, factor, sum.x);
  sum.y = fmaf(x.y, factor, sum.y);
  sum.z = fmaf(x.z, factor, sum.z);
  sum.w = fmaf(x.w, factor, sum.w);
}

template <int kHeads>
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
  int64_t own_key = -1, own_value = -1;  // bytes in the caches to the head of the lane's position
  if (t < w.n) {
    const int64_t token = token_at(a.places, a.kv, w.slot, w.begin + t);
    own_key = token * static_cast<int64_t>(a.kv.k_token_bytes) + w.kv_head * static_cast<int64_t>(a.kv.k_head_bytes);
    own_value = token * static_cast<int64_t>(a.kv.v_token_bytes) + w.kv_head * static_cast<int64_t>(a.kv.v_head_bytes);
  }
#pragma unroll
  for (int j = 0; j < kOfWarp; j++) {
    const int64_t key = __shfl_sync(kAllLanes, own_key, j), value = __shfl_sync(kAllLanes, own_value, j);
    to.keys[j] = to.values[j] = make_uint2(0, 0);
    if (key < 0) continue;
    if (4 * lane < a.kv.key_dim) to.keys[j] = reinterpret_cast<const uint2*>(a.kv.k + key)[lane];
    if (4 * lane < a.kv.value_dim) to.values[j] = reinterpret_cast<const uint2*>(a.kv.v + value)[lane];
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
template <int kHeads>
struct WarpSoftmax {
  float maximum = -__builtin_inff(), total = 0;
  float4 sums[kHeads] = {};
};

// Scores of as many of the warp's positions as make one of a head for each lane, of which n are there: lane
// j * kHeads + h has that of position j and head h.
template <int kHeads>
__device__ __forceinline__ float score_some(const AttendArgs& a, const StepShared<kHeads>& s, const uint2* keys, int n,
                                            int lane) {
  constexpr int kScored = kWarp / kHeads;
  float dot[kWarp];
  float4 k[kScored];
#pragma unroll
  for (int j = 0; j < kScored; j++) k[j] = floats_of(keys[j]);
#pragma unroll
  for (int h = 0; h < kHeads; h++) {
    const float4 q = *reinterpret_cast<const float4*>(s.queries[h] + 4 * lane);
#pragma unroll
    for (int j = 0; j < kScored; j++) {
      dot[j * kHeads + h] = fmaf(q.x, k[j].x, fmaf(q.y, k[j].y, fmaf(q.z, k[j].z, q.w * k[j].w)));
    }
  }
  const float score = warp_sums(dot, lane) * a.scale;
  return lane / kHeads < n ? score : -__builtin_inff();
}

// Adds the warp's positions, of which n > 0 are there.
template <int kHeads>
__device__ __forceinline__ void add_positions(const AttendArgs& a, const StepShared<kHeads>& s,
                                              const Positions& positions, int n, int lane,
                                              WarpSoftmax<kHeads>& softmax) {
  constexpr int kScored = kWarp / kHeads, kTimes = kOfWarp / kScored;
  float weights[kTimes];
  float maximum = softmax.maximum;
#pragma unroll
  for (int i = 0; i < kTimes; i++) {
    weights[i] = score_some<kHeads>(a, s, positions.keys + i * kScored, n - i * kScored, lane);
    maximum = fmaxf(maximum, weights[i]);
    __syncwarp();  // one after the other, for registers
  }
#pragma unroll
  for (int step = kHeads; step < kWarp; step *= 2) maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, step));
  const float rescale = expf(softmax.maximum - maximum);
  float total = 0;
#pragma unroll
  for (float& weight : weights) {
    weight = expf(weight - maximum);
    total += weight;
  }
#pragma unroll
  for (int step = kHeads; step < kWarp; step *= 2) total += __shfl_xor_sync(kAllLanes, total, step);
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
      add_scaled(v, __shfl_sync(kAllLanes, weights[j / kScored], j % kScored * kHeads + h), softmax.sums[h]);
    }
  }
}

// The warps' sums of a head, joined in order by one of them, in place of those of the first one.
template <int kHeads>
__device__ __forceinline__ void join_warps(StepShared<kHeads>& s, int h, int lane) {
  float maximum = -__builtin_inff(), total = 0;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < kSpanWarps; i++) maximum = fmaxf(maximum, s.maxima[i][h]);
#pragma unroll
  for (int i = 0; i < kSpanWarps; i++) {
    const float factor = expf(s.maxima[i][h] - maximum);
    const float4 part = *reinterpret_cast<const float4*>(s.sums[i][h] + 4 * lane);
    total = fmaf(s.totals[i][h], factor, total);
    add_scaled(part, factor, sum);
  }
  __syncwarp();
  *reinterpret_cast<float4*>(s.sums[0][h] + 4 * lane) = sum;
  if (lane == 0) {
    s.maxima[0][h] = maximum;
    s.totals[0][h] = total;
  }
  __syncwarp();  // a block that is no cluster of several reads them next
}

// The sums of a head of the blocks of a cluster, of which n have positions, joined in order by a warp.
struct HeadSoftmax {
  float maximum, total;
  float4 sum;
};
template <int kHeads>
__device__ __forceinline__ HeadSoftmax join_blocks(const StepShared<kHeads>& s, int n, int h, int lane) {
  float maxima[kClusterBlocks], totals[kClusterBlocks];
  float4 sums[kClusterBlocks];
#pragma unroll
  for (int i = 0; i < kClusterBlocks; i++) {
    const int block = min(i, n - 1);
    maxima[i] = load_of_block(&s.maxima[0][h], block);
    totals[i] = load_of_block(&s.totals[0][h], block);
    sums[i] = load4_of_block(s.sums[0][h] + 4 * lane, block);
  }
  HeadSoftmax all{maxima[0], 0, make_float4(0, 0, 0, 0)};
#pragma unroll
  for (int i = 1; i < kClusterBlocks; i++) all.maximum = fmaxf(all.maximum, maxima[i]);
#pragma unroll
  for (int i = 0; i < kClusterBlocks; i++) {
    if (i >= n) break;
    const float factor = expf(maxima[i] - all.maximum);
    all.total = fmaf(totals[i], factor, all.total);
    add_scaled(sums[i], factor, all.sum);
  }
  return all;
}

// What a row sees of a head, to the output.
__device__ __forceinline__ void store_head_output(const AttendArgs& a, const Work& w, const HeadSoftmax& all, int head,
                                                  int lane) {
  const float sink = a.sinks != nullptr ? a.sinks[head] : -__builtin_inff();
  const float maximum = fmaxf(all.maximum, sink), factor = expf(all.maximum - maximum);
  const float scale = factor / (all.total * factor + expf(sink - maximum));
  const float* gate = a.q + w.row * a.q_stride + int64_t{head} * a.q_head_stride + a.kv.key_dim;
  float* y = a.y + w.row * a.y_stride + int64_t{head} * a.kv.value_dim;
  const float sum[4] = {all.sum.x, all.sum.y, all.sum.z, all.sum.w};
#pragma unroll
  for (int e = 0; e < 4; e++) {
    const int d = 4 * lane + e;
    if (d >= a.kv.value_dim) break;
    const float out = sum[e] * scale;
    y[d] = a.gated ? out * sigmoid(gate[d]) : out;
  }
}

// Puts a cluster's part of a head among the states of the row's clusters; whether it is the last one of n that come.
// All that the others have put there is seen then, and the count is back at zero.
__device__ bool arrives_last(const AttendArgs& a, const Spans& spans, const HeadSoftmax& all, int head, int nth, int n,
                             int lane, int32_t* arrivals, float* states) {
  const State state = state_of(a, states, spans, blockIdx.z, head, nth);
  const float sum[4] = {all.sum.x, all.sum.y, all.sum.z, all.sum.w};
#pragma unroll
  for (int e = 0; e < 4; e++) {
    if (4 * lane + e < a.kv.value_dim) state.acc[4 * lane + e] = sum[e];
  }
  if (lane == 0) {
    state.maximum[0] = all.maximum;
    state.maximum[1] = all.total;
  }
  __syncwarp();
  bool last = false;
  if (lane == 0) {
    __threadfence();
    last = atomicAdd(arrivals, 1) == n - 1;
    if (last) *arrivals = 0;
    __threadfence();
  }
  return __shfl_sync(kAllLanes, last, 0);
}

// Of rows with several clusters: away from the code of those with one.
__device__ __noinline__ void join_clusters(const AttendArgs& a, const Spans& spans, const Work& w, int n, int head,
                                           float* states) {
  Work joined = w;
  joined.n_spans = n;
  join_head(a, spans, joined, head, blockIdx.z, states);
}

template <int kHeads>
__global__ void __launch_bounds__(kSpanThreads, 2)
    append_attend(const __grid_constant__ AppendArgs p, const __grid_constant__ AttendArgs a, LiveRows rows,
                  Spans spans, int of_cluster, Arrivals arrivals, float* states) {
  __shared__ StepShared<kHeads> s;
  start_kernel_behind();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Work w = work_of<kHeads>(a, rows, spans, 0);
  const int rank = static_cast<int>(blockIdx.x) % of_cluster, nth = static_cast<int>(blockIdx.x) / of_cluster;
  const int blocks = min(of_cluster, w.n_spans - nth * of_cluster);  // of the cluster, that have positions
  if (w.row >= *rows.live || blocks <= 0) {
    // The kernel ends behind the one in front as long as one of its blocks does.
    if (blockIdx.x + blockIdx.y + blockIdx.z == 0) wait_for_kernel_before();
    return;
  }
  const int own = kOfWarp * warp;  // first of the warp's positions
  int place = -1;  // of row `lane` of the step in the span
  if (lane < rows.rows && lane < *rows.live && a.places.slots[lane] == w.slot) {
    const int64_t t = a.places.positions[lane] - w.begin;
    if (t >= 0 && t < w.n) place = static_cast<int>(t);
  }
  const Gain q_gain = load_gain(p.q_norm, p.kv.key_dim, lane), k_gain = load_gain(p.k_norm, p.kv.key_dim, lane);
  Positions positions;
  const auto take_fresh_rows = [&](int first) {
    unsigned fresh = __ballot_sync(kAllLanes, place >= first && place < first + kOfWarp);
    for (; fresh != 0; fresh &= fresh - 1) {
      const int r = __ffs(static_cast<int>(fresh)) - 1;
      const FreshRow row = load_fresh(p, w, r, lane);
      take_fresh(p, w, row, k_gain, __shfl_sync(kAllLanes, place, r), lane, s.keys[warp], positions);
    }
  };
  WarpSoftmax<kHeads> softmax;
#pragma unroll 1
  for (int first = own;;) {  // the first time among the others, for less code
    load_positions(a, w, first, lane, positions);
    RawHead query{};
    if (first == own) {
      wait_for_kernel_before();
      if (warp < w.n_heads) {
        query = load_head(p, p.q + w.row * p.q_stride + int64_t{w.first_head + warp} * p.q_head_stride, w.row, lane);
      }
    }
    take_fresh_rows(first);
    if (first == own) {
      if (warp < kHeads) turn_head(p, query, q_gain, p.q_norm != nullptr, lane, s.queries[warp]);
      __syncthreads();
      if (own >= w.n) break;
    }
    add_positions<kHeads>(a, s, positions, min(w.n - first, kOfWarp), lane, softmax);
    first += kOfBlock;
    if (first >= w.n) break;
  }
#pragma unroll
  for (int h = 0; h < kHeads; h++) *reinterpret_cast<float4*>(s.sums[warp][h] + 4 * lane) = softmax.sums[h];
  if (lane < kHeads) {
    s.maxima[warp][lane] = softmax.maximum;
    s.totals[warp][lane] = softmax.total;
  }
  __syncthreads();
  if (warp < w.n_heads && w.n > 0) join_warps(s, warp, lane);
  arrive_at_cluster(of_cluster);
  wait_for_cluster(of_cluster);
  const int h = rank + warp * of_cluster;
  HeadSoftmax all{};
  if (h < w.n_heads) all = join_blocks(s, blocks, h, lane);
  arrive_at_cluster(of_cluster);  // its shared memory is no longer read by this block
  if (h < w.n_heads) {
    const int head = w.first_head + h, clusters = (w.n_spans + of_cluster - 1) / of_cluster;
    if (clusters == 1) {
      store_head_output(a, w, all, head, lane);
    } else if (arrives_last(a, spans, all, head, nth, clusters, lane, arrivals.counts + w.row * arrivals.stride + head,
                            states)) {
      join_clusters(a, spans, w, clusters, head, states);
    }
  }
  wait_for_cluster(of_cluster);
}

}  // namespace

bool appends_and_attends(const AttendArgs& a, int n_pairs, const LiveRows& rows) {
  const int most = a.kv.key_dim > a.kv.value_dim ? a.kv.key_dim : a.kv.value_dim;
  return rows.rows <= kMostAppended && a.kv.type == KvType::kF16 && a.kv.key_dim % 4 == 0 && a.kv.value_dim % 4 == 0 &&
         most <= kWidth && n_pairs <= kPairs;
}

namespace {

template <int kHeads>
void launch_as(const AppendArgs& append, const AttendArgs& a, const Arrivals& arrivals, const LiveRows& rows,
               int of_cluster, float* states, cudaStream_t stream) {
  Spans spans = spans_of(a);
  spans.head_groups = (a.n_heads / a.kv.n_kv_heads + kHeads - 1) / kHeads;
  dim3 grid = span_blocks(a, spans, rows.rows);
  grid.x = (grid.x + of_cluster - 1) / of_cluster * of_cluster;
  // As products have it, or neither could start beside the other.
  cudaFuncSetAttribute(append_attend<kHeads>, cudaFuncAttributePreferredSharedMemoryCarveout,
                       cudaSharedmemCarveoutMaxShared);
  launch_clusters_after(append_attend<kHeads>, grid, kSpanThreads, 0, of_cluster, stream, append, a, rows, spans,
                        of_cluster, arrivals, states);
}

}  // namespace

void launch_append_attend(const AppendArgs& append, const AttendArgs& a, const Arrivals& arrivals, const LiveRows& rows,
                          void* workspace, cudaStream_t stream) {
  if (rows.rows == 0) return;
  auto* states = static_cast<float*>(workspace);
  if (rows.rows > 1) return launch_as<kHeadsOfMany>(append, a, arrivals, rows, 1, states, stream);
  int of_cluster = 1;
  while (starts_early() && of_cluster < kClusterBlocks && of_cluster < spans_of(a).max) of_cluster *= 2;
  launch_as<kHeadsOfOne>(append, a, arrivals, rows, of_cluster, states, stream);
}

}  // namespace strata::kernels::cuda
