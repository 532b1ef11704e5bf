// Attention of prompts over a cache of float16, on the tensor cores: as attend_tiles.cu, with 64 keys a step. Queries
// and weights are float32: each is the sum of two halves, of which the second has what the first one lacks, and meets
// the cache's halves in two products. What that leaves out is of the size of a rounding of float32.
#include <algorithm>

#include "kernels/cuda/attend_halves.cuh"
#include "kernels/cuda/attend_runs.cuh"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/mma.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kQueries = 16 * kWarps;  // of a tile: rows times query heads of the KV head
constexpr int kKeys = 64;              // positions of a step
constexpr int kMostDim = 256;

struct MmaShared {
  __half* high;  // [kQueries][key stride], then the rest of the queries
  __half* low;
  __half* keys;    // [kKeys][key stride]
  __half* values;  // [kKeys][value stride]
};
size_t shared_bytes(const AttendArgs& a) {
  const int keys = (2 * kQueries + kKeys) * halves_stride(a.kv.key_dim);
  return static_cast<size_t>(keys + kKeys * halves_stride(a.kv.value_dim)) * sizeof(__half);
}
__device__ __forceinline__ MmaShared shared_of(const AttendArgs& a, uint4* memory) {
  MmaShared s{};
  s.high = reinterpret_cast<__half*>(memory);
  s.low = s.high + kQueries * halves_stride(a.kv.key_dim);
  s.keys = s.low + kQueries * halves_stride(a.kv.key_dim);
  s.values = s.keys + kKeys * halves_stride(a.kv.key_dim);
  return s;
}

__device__ void load_queries(const AttendArgs& a, const AttendRun& run, int kv_head, const MmaShared& s) {
  const int pairs = a.kv.key_dim / 2, stride = halves_stride(a.kv.key_dim);
  for (int e = threadIdx.x; e < kQueries * pairs; e += kThreads) {
    const RunQuery q = run_query(a, run, kv_head, e / pairs);
    const int i = 2 * (e % pairs);
    float x = 0, y = 0;
    if (q.row >= 0) {
      const float* from = a.q + q.row * a.q_stride + int64_t{q.head} * a.q_head_stride + i;
      x = from[0];
      y = from[1];
    }
    const Halves h = halves_of(x, y);
    *reinterpret_cast<uint32_t*>(s.high + e / pairs * stride + i) = h.high;
    *reinterpret_cast<uint32_t*>(s.low + e / pairs * stride + i) = h.low;
  }
}

// Asks for keys or values of positions [begin, begin + n), two threads for each; zeros behind. The copies are a group.
__device__ void ask_for_cache(const AttendArgs& a, const uint8_t* memory, size_t token_bytes, size_t head_offset,
                              int dim, int32_t slot, int64_t begin, int n, __half* to) {
  constexpr int kShare = kThreads / kKeys;
  const int t = threadIdx.x / kShare;
  const uint8_t* from = memory;  // of rows behind the last, nothing is read
  if (t < n) from += token_at(a.places, a.kv, slot, begin + t) * token_bytes + head_offset;
  for (int i = threadIdx.x % kShare; i < dim / 8; i += kShare) {
    copy_sixteen(to + t * halves_stride(dim) + 8 * i, t < n ? from + 16 * i : memory, t < n);
  }
  commit_copies();
}

// A warp's scores of 16 queries with the step's keys, score[j][i]: as an accumulator (mma.cuh) of keys [8j, 8j + 8).
template <int kDim16>
__device__ __forceinline__ void score_keys(const MmaShared& s, int warp, int lane, int key_dim,
                                           float (&score)[kKeys / 8][4]) {
  const int stride = halves_stride(key_dim);
  const int query = (16 * warp + lane % 16) * stride + lane / 16 * 8;
  const __half* key = s.keys + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kDim16; k++) {
    if (16 * k >= key_dim) break;
    uint32_t high[4], low[4];
    load_matrices(s.high + query + 16 * k, high);
    load_matrices(s.low + query + 16 * k, low);
#pragma unroll
    for (int j = 0; j < kKeys / 16; j++) {
      uint32_t b[4];
      load_matrices(key + 16 * j * stride + 16 * k, b);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        multiply_halves(score[2 * j + half], high, b[2 * half], b[2 * half + 1]);
        multiply_halves(score[2 * j + half], low, b[2 * half], b[2 * half + 1]);
      }
    }
  }
}

// What a lane knows of the softmax of its two queries, of rows g and g + 8 of the warp's 16.
struct Softmax {
  float maximum[2] = {-__builtin_inff(), -__builtin_inff()};  // of scores in units of the logarithm of two
  float total[2] = {0, 0};                                     // of the lane's own keys
};

// Scores become weights. Key i of the step is seen by query r of the lane when low[r] <= i < high[r]. `rescale` brings
// what was summed before to the raised maximum.
__device__ __forceinline__ void soften(float (&score)[kKeys / 8][4], const int (&low)[2], const int (&high)[2],
                                       float scale, int lane, Softmax& softmax, float (&rescale)[2]) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float maximum = softmax.maximum[r];
#pragma unroll
    for (int j = 0; j < kKeys / 8; j++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float& x = score[j][2 * r + e];
        const int key = 8 * j + lane % 4 * 2 + e;
        x = key >= low[r] && key < high[r] ? x * scale : -__builtin_inff();
        maximum = fmaxf(maximum, x);
      }
    }
    maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 1));
    maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 2));
    const float base = maximum == -__builtin_inff() ? 0.0f : maximum;  // the query may have seen nothing so far
    rescale[r] = exp2f(softmax.maximum[r] - base);
    float total = 0;
#pragma unroll
    for (int j = 0; j < kKeys / 8; j++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float& x = score[j][2 * r + e];
        x = exp2f(x - base);
        total += x;
      }
    }
    softmax.maximum[r] = maximum;
    softmax.total[r] = fmaf(softmax.total[r], rescale[r], total);
  }
}

template <int kDim16>
__device__ __forceinline__ void add_values(const MmaShared& s, int lane, int value_dim,
                                           const float (&weight)[kKeys / 8][4], float (&out)[2 * kDim16][4]) {
  const int stride = halves_stride(value_dim);
  const __half* value = s.values + (lane / 8 % 2 * 8 + lane % 8) * stride + lane / 16 * 8;
#pragma unroll
  for (int j = 0; j < kKeys / 16; j++) {
    uint32_t high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float(&pair)[4] = weight[2 * j + i / 2];
      const Halves h = halves_of(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
      high[i] = h.high;
      low[i] = h.low;
    }
#pragma unroll
    for (int d = 0; d < kDim16; d++) {
      if (16 * d >= value_dim) break;
      uint32_t b[4];
      load_matrices_transposed(value + 16 * j * stride + 16 * d, b);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        multiply_halves(out[2 * d + half], high, b[2 * half], b[2 * half + 1]);
        multiply_halves(out[2 * d + half], low, b[2 * half], b[2 * half + 1]);
      }
    }
  }
}

template <int kDim16>
__device__ void store_outputs(const AttendArgs& a, const AttendRun& run, int kv_head, int warp, int lane,
                              const Softmax& softmax, const float (&out)[2 * kDim16][4]) {
  constexpr float kLn2 = 0.693147180559945f;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float total = softmax.total[r];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    const RunQuery q = run_query(a, run, kv_head, 16 * warp + lane / 4 + 8 * r);
    if (q.row < 0) continue;
    float factor = 1;
    if (a.sinks != nullptr) {
      const float sink = a.sinks[q.head], own = softmax.maximum[r] * kLn2;
      const float maximum = fmaxf(sink, own);
      factor = expf(own - maximum);
      total = total * factor + expf(sink - maximum);
    }
    const float* gate = a.q + q.row * a.q_stride + int64_t{q.head} * a.q_head_stride + a.kv.key_dim;
    float* y = a.y + q.row * a.y_stride + int64_t{q.head} * a.kv.value_dim;
#pragma unroll
    for (int n = 0; n < 2 * kDim16; n++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int d = 8 * n + lane % 4 * 2 + e;
        if (d >= a.kv.value_dim) continue;
        const float value = out[n][2 * r + e] * factor / total;
        y[d] = a.gated ? value * sigmoid(gate[d]) : value;
      }
    }
  }
}

template <int kDim16>
__device__ void attend_run(const AttendArgs& a, const AttendRun& run, int kv_head, const MmaShared& s) {
  constexpr float kLog2E = 1.44269504088896f;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  __syncthreads();  // the run before is done
  load_queries(a, run, kv_head, s);
  int64_t from[2], to[2];  // positions that the lane's queries see
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int row = (16 * warp + lane / 4 + 8 * r) / (a.n_heads / a.kv.n_kv_heads);
    from[r] = first_seen(a, run.position + row);
    to[r] = row < run.rows ? run.position + row + 1 : 0;
  }
  Softmax softmax;
  float out[2 * kDim16][4] = {};
  const int64_t end = run.position + run.rows;
  for (int64_t begin = first_seen(a, run.position) / kKeys * kKeys; begin < end; begin += kKeys) {
    const int n = static_cast<int>(end - begin < kKeys ? end - begin : kKeys);
    __syncthreads();
    ask_for_cache(a, a.kv.k, a.kv.k_token_bytes, kv_head * a.kv.k_head_bytes, a.kv.key_dim, run.slot, begin, n, s.keys);
    ask_for_cache(a, a.kv.v, a.kv.v_token_bytes, kv_head * a.kv.v_head_bytes, a.kv.value_dim, run.slot, begin, n,
                  s.values);
    wait_for_copies<1>();
    __syncthreads();
    float score[kKeys / 8][4] = {};
    score_keys<kDim16>(s, warp, lane, a.kv.key_dim, score);
    int low[2], high[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      low[r] = static_cast<int>(max(from[r] - begin, int64_t{0}));
      high[r] = static_cast<int>(min(to[r] - begin, int64_t{kKeys}));
    }
    float rescale[2];
    soften(score, low, high, a.scale * kLog2E, lane, softmax, rescale);
#pragma unroll
    for (auto& tile : out) {
#pragma unroll
      for (int i = 0; i < 4; i++) tile[i] *= rescale[i / 2];
    }
    wait_for_copies<0>();
    __syncthreads();
    add_values<kDim16>(s, lane, a.kv.value_dim, score, out);
  }
  store_outputs<kDim16>(a, run, kv_head, warp, lane, softmax, out);
}

template <int kDim16>
__global__ void __launch_bounds__(kThreads) attend_mma(const __grid_constant__ AttendArgs a, LiveRows rows,
                                                       int tile_rows) {
  extern __shared__ uint4 memory[];
  // Later rows see more, so they go first and no block is left alone with them.
  const int64_t tile = gridDim.x - 1 - blockIdx.x;
  const int64_t live = *rows.live;
  const int64_t first = tile * tile_rows;
  const int64_t end = first + tile_rows < live ? first + tile_rows : live;
  for (int64_t row = first; row < end;) {
    const AttendRun run = run_at(a.places, row, end);
    const AttendRun own = rows_before(run, a.before);
    if (own.rows > 0) attend_run<kDim16>(a, own, blockIdx.y, shared_of(a, memory));
    row += run.rows;
  }
}

template <int kDim16>
void launch_dim(const AttendArgs& a, const LiveRows& rows, cudaStream_t stream) {
  const size_t shared = shared_bytes(a);
  cudaFuncSetAttribute(attend_mma<kDim16>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  const int tile_rows = kQueries / (a.n_heads / a.kv.n_kv_heads);
  const dim3 grid(static_cast<unsigned>((rows.rows + tile_rows - 1) / tile_rows),
                  static_cast<unsigned>(a.kv.n_kv_heads));
  attend_mma<kDim16><<<grid, kThreads, shared, stream>>>(a, rows, tile_rows);
}

}  // namespace

bool attend_mma_fits(const AttendArgs& a, int compute_capability, size_t max_shared_bytes) {
  const int most = std::max(a.kv.key_dim, a.kv.value_dim);
  return compute_capability >= 80 && a.kv.type == KvType::kF16 && a.kv.key_dim % 16 == 0 &&
         a.kv.value_dim % 16 == 0 && most <= kMostDim && a.n_heads / a.kv.n_kv_heads <= kQueries &&
         shared_bytes(a) <= max_shared_bytes;
}

void launch_attend_mma(const AttendArgs& a, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const int most = std::max(a.kv.key_dim, a.kv.value_dim);
  if (most <= 64) return launch_dim<4>(a, rows, stream);
  if (most <= 128) return launch_dim<8>(a, rows, stream);
  launch_dim<16>(a, rows, stream);
}

}  // namespace strata::kernels::cuda
