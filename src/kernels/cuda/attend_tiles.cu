// Attention of consecutive rows of a sequence together: a tile of queries goes through the keys it sees, 32 positions
// at a time, with a running maximum for each query. All products in float32.
#include <algorithm>

#include "kernels/cuda/attend_runs.cuh"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kQueries = 64;  // of a tile: rows times query heads of the KV head
constexpr int kKeys = 32;     // positions of a step
constexpr int kLanes = 16;    // threads that share four queries
constexpr int kValueCols = 4 * kLanes;
constexpr int kMaxValueDim = 4 * kValueCols;

// Rows in shared memory are four floats apart more than they are long, so that rows read side by side meet different
// banks.
__host__ __device__ int query_stride(int key_dim) { return (key_dim + 3) / 4 * 4 + 4; }
__host__ __device__ int cache_stride(int key_dim, int value_dim) {
  const int values = (value_dim + kValueCols - 1) / kValueCols * kValueCols + 4;
  return query_stride(key_dim) > values ? query_stride(key_dim) : values;
}

size_t shared_bytes(const AttendArgs& a) {
  return static_cast<size_t>(kQueries * query_stride(a.kv.key_dim) +
                             kKeys * cache_stride(a.kv.key_dim, a.kv.value_dim) + kKeys * kQueries) *
         sizeof(float);
}

// Keys or values of positions [begin, begin + n) as floats, zeros past n and past dim up to `width`. Eight threads for
// each position.
__device__ void load_cache(const AttendArgs& a, const uint8_t* memory, size_t token_bytes, size_t head_offset, int dim,
                           int width, int32_t slot, int64_t begin, int n, float* to, int stride) {
  constexpr int kShare = kThreads / kKeys;
  const int t = threadIdx.x / kShare;
  const uint8_t* head = nullptr;
  if (t < n) head = memory + token_at(a.places, a.kv, slot, begin + t) * token_bytes + head_offset;
#pragma unroll 4
  for (int i = threadIdx.x % kShare * 4; i < width; i += kShare * 4) {
    const float4 four = head != nullptr && i < dim ? four_elements(a.kv.type, head, i, dim) : float4{0, 0, 0, 0};
    *reinterpret_cast<float4*>(to + t * stride + i) = four;
  }
}

// The softmax of four queries that a thread's group of kLanes threads forms.
struct Softmax {
  float maximum[4];
  float total[4];
};

// The scores of the group's queries with the step's keys become weights, weights[t][query], and `rescale` brings what
// was summed before to the raised maximum. Position t is seen by query i when low[i] <= t < high[i].
__device__ void soften(const float (&score)[4][2], const int (&low)[4], const int (&high)[4], int lane, int query,
                       float* weights, Softmax& softmax, float (&rescale)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float seen[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int t = lane + k * kLanes;
      seen[k] = t >= low[i] && t < high[i] ? score[i][k] : -__builtin_inff();
    }
    float maximum = fmaxf(seen[0], seen[1]);
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, step));
    }
    maximum = fmaxf(maximum, softmax.maximum[i]);
    const bool none = maximum == -__builtin_inff();  // the query has seen nothing so far
    rescale[i] = none ? 1.0f : expf(softmax.maximum[i] - maximum);
    float total = 0;
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const float weight = none ? 0.0f : expf(seen[k] - maximum);
      weights[(lane + k * kLanes) * kQueries + query + i] = weight;
      total += weight;
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) total += __shfl_xor_sync(kAllLanes, total, step);
    softmax.maximum[i] = maximum;
    softmax.total[i] = fmaf(softmax.total[i], rescale[i], total);
  }
}

__device__ __forceinline__ void score_keys(const float* queries, const float* keys, int query, int lane, int dim,
                                           int query_row, int key_row, float scale, float (&score)[4][2]) {
  float dot[4][2] = {};
  for (int d = 0; d < dim; d += 4) {
    const float4 k0 = *reinterpret_cast<const float4*>(keys + lane * key_row + d);
    const float4 k1 = *reinterpret_cast<const float4*>(keys + (lane + kLanes) * key_row + d);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float4 q = *reinterpret_cast<const float4*>(queries + (query + i) * query_row + d);
      dot[i][0] = fmaf(q.x, k0.x, fmaf(q.y, k0.y, fmaf(q.z, k0.z, fmaf(q.w, k0.w, dot[i][0]))));
      dot[i][1] = fmaf(q.x, k1.x, fmaf(q.y, k1.y, fmaf(q.z, k1.z, fmaf(q.w, k1.w, dot[i][1]))));
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    score[i][0] = dot[i][0] * scale;
    score[i][1] = dot[i][1] * scale;
  }
}

// kBands * kValueCols elements of the values.
template <int kBands>
__device__ __forceinline__ void add_values(const float* weights, const float* values, int query, int lane, int stride,
                                           float4 (&acc)[4][kBands]) {
#pragma unroll 4
  for (int t = 0; t < kKeys; t++) {
    const float4 w = *reinterpret_cast<const float4*>(weights + t * kQueries + query);
    const float weight[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int b = 0; b < kBands; b++) {
      const float4 v = *reinterpret_cast<const float4*>(values + t * stride + b * kValueCols + 4 * lane);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        acc[i][b].x = fmaf(weight[i], v.x, acc[i][b].x);
        acc[i][b].y = fmaf(weight[i], v.y, acc[i][b].y);
        acc[i][b].z = fmaf(weight[i], v.z, acc[i][b].z);
        acc[i][b].w = fmaf(weight[i], v.w, acc[i][b].w);
      }
    }
  }
}

template <int kBands>
__device__ void store_outputs(const AttendArgs& a, const AttendRun& run, int kv_head, int query, int lane,
                              const Softmax& softmax, const float4 (&acc)[4][kBands]) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const RunQuery q = run_query(a, run, kv_head, query + i);
    if (q.row < 0) continue;
    float factor = 1, total = softmax.total[i];
    if (a.sinks != nullptr) {
      const float sink = a.sinks[q.head];
      const float maximum = fmaxf(sink, softmax.maximum[i]);
      factor = expf(softmax.maximum[i] - maximum);
      total = total * factor + expf(sink - maximum);
    }
    const float* gate = a.q + q.row * a.q_stride + int64_t{q.head} * a.q_head_stride + a.kv.key_dim;
    float* y = a.y + q.row * a.y_stride + int64_t{q.head} * a.kv.value_dim;
#pragma unroll
    for (int b = 0; b < kBands; b++) {
      const float out[4] = {acc[i][b].x, acc[i][b].y, acc[i][b].z, acc[i][b].w};
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int d = b * kValueCols + 4 * lane + e;
        if (d >= a.kv.value_dim) continue;
        const float value = out[e] * factor / total;
        y[d] = a.gated ? value * sigmoid(gate[d]) : value;
      }
    }
  }
}

// Bounds of what four queries see of the positions from `begin` on.
__device__ __forceinline__ void seen_by(const AttendArgs& a, const AttendRun& run, int query, int64_t begin,
                                        int (&low)[4], int (&high)[4]) {
  const int group = a.n_heads / a.kv.n_kv_heads;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int row = (query + i) / group;
    const int64_t position = run.position + row;
    const int64_t from = first_seen(a, position) - begin, to = position + 1 - begin;
    low[i] = static_cast<int>(from < 0 ? 0 : from > kKeys ? kKeys : from);
    high[i] = row < run.rows ? static_cast<int>(to < 0 ? 0 : to > kKeys ? kKeys : to) : 0;
  }
}

template <int kBands>
__device__ void attend_run(const AttendArgs& a, const AttendRun& run, int kv_head, float* shared) {
  const int query_row = query_stride(a.kv.key_dim), cache_row = cache_stride(a.kv.key_dim, a.kv.value_dim);
  float* queries = shared;
  float* cache = queries + kQueries * query_row;
  float* weights = cache + kKeys * cache_row;
  const int key_width = (a.kv.key_dim + 3) / 4 * 4;
  const int lane = threadIdx.x % kLanes, query = threadIdx.x / kLanes * 4;
  __syncthreads();  // the run before is done
  for (int e = threadIdx.x; e < kQueries * key_width; e += kThreads) {
    const RunQuery q = run_query(a, run, kv_head, e / key_width);
    const int i = e % key_width;
    const bool there = q.row >= 0 && i < a.kv.key_dim;
    queries[e / key_width * query_row + i] =
        there ? a.q[q.row * a.q_stride + int64_t{q.head} * a.q_head_stride + i] : 0;
  }
  Softmax softmax;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    softmax.maximum[i] = -__builtin_inff();
    softmax.total[i] = 0;
  }
  float4 acc[4][kBands] = {};
  const int64_t end = run.position + run.rows;
  for (int64_t begin = first_seen(a, run.position) / kKeys * kKeys; begin < end; begin += kKeys) {
    const int n = static_cast<int>(end - begin < kKeys ? end - begin : kKeys);
    __syncthreads();
    load_cache(a, a.kv.k, a.kv.k_token_bytes, kv_head * a.kv.k_head_bytes, a.kv.key_dim, key_width, run.slot, begin, n,
               cache, cache_row);
    __syncthreads();
    float score[4][2], rescale[4];
    score_keys(queries, cache, query, lane, key_width, query_row, cache_row, a.scale, score);
    int low[4], high[4];
    seen_by(a, run, query, begin, low, high);
    soften(score, low, high, lane, query, weights, softmax, rescale);
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int b = 0; b < kBands; b++) {
        acc[i][b].x *= rescale[i];
        acc[i][b].y *= rescale[i];
        acc[i][b].z *= rescale[i];
        acc[i][b].w *= rescale[i];
      }
    }
    __syncthreads();
    load_cache(a, a.kv.v, a.kv.v_token_bytes, kv_head * a.kv.v_head_bytes, a.kv.value_dim, kBands * kValueCols,
               run.slot, begin, n, cache, cache_row);
    __syncthreads();
    add_values<kBands>(weights, cache, query, lane, cache_row, acc);
  }
  store_outputs<kBands>(a, run, kv_head, query, lane, softmax, acc);
}

template <int kBands>
__global__ void __launch_bounds__(kThreads) attend_tile(const __grid_constant__ AttendArgs a, LiveRows rows,
                                                        int tile_rows) {
  extern __shared__ float4 shared[];
  // Later rows see more, so they go first and no block is left alone with them.
  const int64_t tile = gridDim.x - 1 - blockIdx.x;
  const int64_t live = *rows.live;
  const int64_t first = tile * tile_rows;
  const int64_t end = first + tile_rows < live ? first + tile_rows : live;
  for (int64_t row = first; row < end;) {
    const AttendRun run = run_at(a.places, row, end);
    const AttendRun own = rows_before(run, a.before);
    if (own.rows > 0) attend_run<kBands>(a, own, blockIdx.y, reinterpret_cast<float*>(shared));
    row += run.rows;
  }
}

template <int kBands>
void launch_bands(const AttendArgs& a, const LiveRows& rows, cudaStream_t stream) {
  const size_t shared = shared_bytes(a);
  cudaFuncSetAttribute(attend_tile<kBands>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  const int tile_rows = kQueries / (a.n_heads / a.kv.n_kv_heads);
  const dim3 grid(static_cast<unsigned>((rows.rows + tile_rows - 1) / tile_rows),
                  static_cast<unsigned>(a.kv.n_kv_heads));
  attend_tile<kBands><<<grid, kThreads, shared, stream>>>(a, rows, tile_rows);
}

}  // namespace

bool attend_tiles_fit(const AttendArgs& a, size_t max_shared_bytes) {
  return a.n_heads / a.kv.n_kv_heads <= kQueries && a.kv.value_dim <= kMaxValueDim &&
         shared_bytes(a) <= max_shared_bytes;
}

void launch_attend_tiles(const AttendArgs& a, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  if (a.kv.value_dim <= kValueCols) return launch_bands<1>(a, rows, stream);
  if (a.kv.value_dim <= 2 * kValueCols) return launch_bands<2>(a, rows, stream);
  launch_bands<4>(a, rows, stream);
}

}  // namespace strata::kernels::cuda
