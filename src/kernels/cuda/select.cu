// The choice of blocks: scores of all complete blocks of the rows that have more of them than they may choose, then, a
// row by a block of threads, the score of the last one that is chosen and the blocks above it in order.
#include <algorithm>

#include "kernels/cuda/attend_runs.cuh"
#include "kernels/cuda/block_index.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

// Rows of scores start at multiples of 16 bytes.
__host__ __device__ int64_t scores_stride(const SelectArgs& a) {
  const int64_t blocks = a.places.max_blocks * (a.index.kv_block_tokens / a.index.block);
  return (blocks + 3) / 4 * 4;
}
// Rows that are scored at a time: their scores are to stay small beside the cache.
int64_t slice_rows(const SelectArgs& a, int64_t rows) {
  constexpr int64_t kMostFloats = int64_t{16} << 20;
  return std::clamp(kMostFloats / scores_stride(a), int64_t{1}, std::max<int64_t>(rows, 1));
}

constexpr int kScoreThreads = 128;
constexpr int kHeads = 4;  // whose products are formed together

// Elements [d, d + 4) of a vector, zeros from `dim` on; at once where all vectors are `even`: their length and places
// are multiples of four floats.
__device__ __forceinline__ float4 four_of(const float* x, int d, int dim, bool even) {
  if (even && d < dim) return *reinterpret_cast<const float4*>(x + d);
  float4 out{};
  if (d < dim) out.x = x[d];
  if (d + 1 < dim) out.y = x[d + 1];
  if (d + 2 < dim) out.z = x[d + 2];
  if (d + 3 < dim) out.w = x[d + 3];
  return out;
}
__device__ __forceinline__ bool is_even(const float* x, int64_t stride, int dim) {
  return (reinterpret_cast<uintptr_t>(x) & 15) == 0 && stride % 4 == 0 && dim % 4 == 0;
}
// A product of a query and a key is a sum in order of dimensions, and a score one in order of heads, however many rows
// are scored together.
__device__ __forceinline__ float add_four(const float4& q, const float4& k, float sum) {
  return fmaf(q.w, k.w, fmaf(q.z, k.z, fmaf(q.y, k.y, fmaf(q.x, k.x, sum))));
}

__device__ __forceinline__ const float* key_of(const SelectArgs& a, int32_t slot, int64_t b) {
  return a.index.keys + cache_block(a.places, a.index, slot, b) * a.index.stride;
}
__device__ __forceinline__ const float* query_of(const SelectArgs& a, int64_t row, int head) {
  return a.q + row * a.q_stride + int64_t{head} * a.index.dim;
}

// One row: a thread for each of 32 keys and four heads.
constexpr int kFewKeys = kScoreThreads / kHeads;
constexpr int kFewDims = 128;  // in shared memory at a time

__global__ void __launch_bounds__(kScoreThreads)
    score_row(const __grid_constant__ SelectArgs a, LiveRows rows, int64_t first_row, float* scores) {
  __shared__ float keys[kFewKeys][kFewDims + 4], q[kHeads][kFewDims + 4];
  constexpr int kFours = kFewDims / 4, kAtOnce = kScoreThreads / kFours;
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = first_row + blockIdx.y;
  if (row >= *rows.live) return;
  const int64_t n_complete = complete_blocks(a.index, a.places.positions[row]);
  const int64_t first_key = int64_t{blockIdx.x} * kFewKeys;
  if (n_complete <= a.most || first_key >= n_complete) return;
  const int32_t slot = a.places.slots[row];
  const int dim = a.index.dim, four = threadIdx.x % kFours * 4, own = threadIdx.x / kFours;
  const bool even_keys = is_even(a.index.keys, a.index.stride, dim), even_q = is_even(a.q, a.q_stride, dim);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int key = warp * (kWarp / kHeads) + lane % (kWarp / kHeads), head = lane / (kWarp / kHeads);
  float score = 0;
  for (int head0 = 0; head0 < a.n_heads; head0 += kHeads) {
    float dot = 0;
    for (int d0 = 0; d0 < dim; d0 += kFewDims) {
      __syncthreads();
#pragma unroll
      for (int i = own; i < kFewKeys; i += kAtOnce) {
        const int64_t b = min(first_key + i, n_complete - 1);
        *reinterpret_cast<float4*>(keys[i] + four) = four_of(key_of(a, slot, b), d0 + four, dim, even_keys);
      }
      for (int h = own; h < kHeads; h += kAtOnce) {
        const bool there = head0 + h < a.n_heads;
        *reinterpret_cast<float4*>(q[h] + four) =
            there ? four_of(query_of(a, row, head0 + h), d0 + four, dim, even_q) : float4{};
      }
      __syncthreads();
#pragma unroll 8
      for (int d = 0; d < kFewDims; d += 4) {
        dot = add_four(*reinterpret_cast<const float4*>(q[head] + d), *reinterpret_cast<const float4*>(keys[key] + d),
                       dot);
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; h++) {
      const float of = __shfl_sync(kAllLanes, dot, h * (kWarp / kHeads) + lane % (kWarp / kHeads));
      if (of > 0) score += of;  // NaN counts as 0: scores have an order
    }
  }
  const int64_t b = first_key + key;
  if (head == 0 && b < n_complete) scores[blockIdx.y * scores_stride(a) + b] = score;
}

// Many rows: tiles of 16 of them by 64 keys, a thread for one row and eight keys.
constexpr int kTileRows = 16, kTileKeys = 64;
constexpr int kKeyThreads = kScoreThreads / kTileRows;
constexpr int kOfThread = kTileKeys / kKeyThreads;
constexpr int kTileDims = 32;             // in shared memory at a time
constexpr int kTileStride = kTileDims + 4;  // floats between rows there, so that eight of them meet all banks

struct ScoreTile {
  float q[kTileRows * kHeads][kTileStride];
  float keys[kTileKeys][kTileStride];
};

// A run's rows, of which some may be at a position from which on they choose, with the tile's keys.
__device__ void score_run(const SelectArgs& a, const AttendRun& run, int64_t first_key, float* scores, ScoreTile& s) {
  constexpr int kFours = kTileDims / 4, kAtOnce = kScoreThreads / kFours, kLoads = kTileKeys / kAtOnce;
  static_assert(kTileRows * kHeads == kTileKeys);
  const int64_t n_complete = complete_blocks(a.index, run.position + run.rows - 1);
  if (n_complete <= a.most || first_key >= n_complete) return;
  const int dim = a.index.dim, four = threadIdx.x % kFours * 4, own = threadIdx.x / kFours;
  const bool even_keys = is_even(a.index.keys, a.index.stride, dim), even_q = is_even(a.q, a.q_stride, dim);
  const float* keys[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; i++) {
    keys[i] = key_of(a, run.slot, min(first_key + own + i * kAtOnce, n_complete - 1));
  }
  const int row = threadIdx.x / kKeyThreads, key = threadIdx.x % kKeyThreads;
  float score[kOfThread] = {};
  for (int head0 = 0; head0 < a.n_heads; head0 += kHeads) {
    float dot[kHeads][kOfThread] = {};
    for (int d0 = 0; d0 < dim; d0 += kTileDims) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kLoads; i++) {
        const int at = own + i * kAtOnce, of_row = at / kHeads, head = head0 + at % kHeads;
        const bool there = of_row < run.rows && head < a.n_heads;
        *reinterpret_cast<float4*>(s.keys[at] + four) = four_of(keys[i], d0 + four, dim, even_keys);
        *reinterpret_cast<float4*>(s.q[at] + four) =
            there ? four_of(query_of(a, run.first + of_row, head), d0 + four, dim, even_q) : float4{};
      }
      __syncthreads();
#pragma unroll
      for (int d = 0; d < kTileDims; d += 4) {
        float4 q[kHeads];
#pragma unroll
        for (int h = 0; h < kHeads; h++) q[h] = *reinterpret_cast<const float4*>(s.q[row * kHeads + h] + d);
#pragma unroll
        for (int j = 0; j < kOfThread; j++) {
          const float4 k = *reinterpret_cast<const float4*>(s.keys[key + j * kKeyThreads] + d);
#pragma unroll
          for (int h = 0; h < kHeads; h++) dot[h][j] = add_four(q[h], k, dot[h][j]);
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; h++) {
#pragma unroll
      for (int j = 0; j < kOfThread; j++) {
        if (dot[h][j] > 0) score[j] += dot[h][j];
      }
    }
  }
  if (row >= run.rows) return;
  const int64_t own_blocks = complete_blocks(a.index, run.position + row);
#pragma unroll
  for (int j = 0; j < kOfThread; j++) {
    const int64_t b = first_key + key + j * kKeyThreads;
    if (b < own_blocks) scores[row * scores_stride(a) + b] = score[j];
  }
}

__global__ void __launch_bounds__(kScoreThreads)
    score_tiles(const __grid_constant__ SelectArgs a, LiveRows rows, int64_t first_row, int64_t end_row,
                float* scores) {
  __shared__ ScoreTile s;
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t first = first_row + int64_t{blockIdx.y} * kTileRows;
  const int64_t end = min(min(first + kTileRows, end_row), int64_t{*rows.live});
  for (int64_t row = first; row < end;) {
    const AttendRun run = run_at(a.places, row, end);
    score_run(a, run, int64_t{blockIdx.x} * kTileKeys, scores + (row - first_row) * scores_stride(a), s);
    row += run.rows;
  }
}

constexpr int kChooseThreads = 1024;
constexpr int kChooseWarps = kChooseThreads / kWarp;
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;

// The running sum of a warp's numbers, own one included.
__device__ __forceinline__ int sum_up_to(int x, int lane) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, x, step);
    if (lane >= step) x += other;
  }
  return x;
}

// Sums over the threads of the block: of x of the threads in front, and of all.
struct Running {
  int before, all;
};
__device__ __forceinline__ Running running_sum(int x) {
  __shared__ int warps[kChooseWarps];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int sum = sum_up_to(x, lane);
  __syncthreads();  // the sums before have been read
  if (lane == kWarp - 1) warps[warp] = sum;
  __syncthreads();
  const int whole = sum_up_to(warps[lane], lane);
  const int in_front = __shfl_sync(kAllLanes, whole, max(warp - 1, 0));
  return {sum - x + (warp > 0 ? in_front : 0), __shfl_sync(kAllLanes, whole, kWarp - 1)};
}

// Scores are zeros or positive, so that their bits are in order as integers.
struct Cut {
  uint32_t last;  // bits of the lowest score that is chosen, or less where all scores above are
  int of_last;    // how many blocks with that score are
};
// Finds the digit at which the choice ends, by one warp: of the scores that share the digits so far, counts[d] have d.
__device__ __forceinline__ void find_digit(const int* counts, int shift, int lane, Cut& cut) {
  constexpr int kOfLane = kDigits / kWarp;
  const int highest = kDigits - 1 - kOfLane * lane;
  int own[kOfLane], sum = 0;
#pragma unroll
  for (int i = 0; i < kOfLane; i++) sum += own[i] = counts[highest - i];
  const Cut so_far = cut;
  int higher = sum_up_to(sum, lane) - sum;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kOfLane; i++) {
    if (higher < so_far.of_last && higher + own[i] >= so_far.of_last) {
      const uint32_t last = so_far.last | static_cast<uint32_t>(highest - i) << shift;
      // What is left where all of a digit's are wanted: 0. Some score is below, so that `last` is not 0 then.
      cut = higher + own[i] == so_far.of_last ? Cut{last - 1, 0} : Cut{last, so_far.of_last - higher};
    }
    higher += own[i];
  }
}
// Digit by digit from the highest one on.
__device__ Cut cut_of(const uint32_t* scores, int64_t n, int most) {
  __shared__ int counts[kDigits];
  __shared__ Cut cut;
  if (threadIdx.x == 0) cut = {0, most};
  uint32_t known = 0;  // bits of cut.last that are
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (int d = threadIdx.x; d < kDigits; d += kChooseThreads) counts[d] = 0;
    __syncthreads();
    const uint32_t last = cut.last;
    for (int64_t i = threadIdx.x; i < n; i += kChooseThreads) {
      const uint32_t score = scores[i];
      if ((score & known) == last) atomicAdd(counts + (score >> shift) % kDigits, 1);
    }
    __syncthreads();
    if (threadIdx.x < kWarp) find_digit(counts, shift, static_cast<int>(threadIdx.x), cut);
    __syncthreads();
    if (cut.of_last == 0) break;
    known |= static_cast<uint32_t>(kDigits - 1) << shift;
  }
  return cut;
}

__global__ void __launch_bounds__(kChooseThreads)
    choose_blocks(const __grid_constant__ SelectArgs a, LiveRows rows, int64_t first_row, const float* scores) {
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = first_row + blockIdx.x;
  if (row >= *rows.live) return;
  const int32_t slot = a.places.slots[row];
  const int64_t position = a.places.positions[row], n_complete = complete_blocks(a.index, position);
  const int n = static_cast<int>(min(n_complete, int64_t{a.most}));
  int32_t* out = a.chosen + row * a.chosen_stride;
  const auto put = [&](int64_t at, int64_t b) {
    out[1 + at] = static_cast<int32_t>(cache_block(a.places, a.index, slot, b));
  };
  if (threadIdx.x == 0) {
    out[0] = n;
    if ((position + 1) % a.index.block != 0) put(n, n_complete);
  }
  if (n == n_complete) {
    for (int64_t b = threadIdx.x; b < n; b += kChooseThreads) put(b, b);
    return;
  }
  const auto* bits = reinterpret_cast<const uint32_t*>(scores + blockIdx.x * scores_stride(a));
  const Cut cut = cut_of(bits, n_complete, a.most);
  constexpr int kScoresOfThread = 4;
  static_assert(kChooseThreads * kScoresOfThread < 1 << 16);
  int above = 0, equal = 0;  // of the blocks so far
  for (int64_t base = 0; base < n_complete; base += kChooseThreads * kScoresOfThread) {
    const int64_t first = base + kScoresOfThread * int64_t{threadIdx.x};
    uint32_t own[kScoresOfThread] = {};
    if (first < n_complete) {  // what lies behind the last score is there to be read, and not looked at
      const uint4 four = *reinterpret_cast<const uint4*>(bits + first);
      own[0] = four.x, own[1] = four.y, own[2] = four.z, own[3] = four.w;
    }
    int packed = 0;  // those above the cut, and at it from bit 16 on
#pragma unroll
    for (int i = 0; i < kScoresOfThread; i++) {
      if (first + i < n_complete) packed += own[i] > cut.last ? 1 : own[i] == cut.last ? 1 << 16 : 0;
    }
    const Running running = running_sum(packed);
    int higher = above + (running.before & 0xFFFF), same = equal + (running.before >> 16);
#pragma unroll
    for (int i = 0; i < kScoresOfThread; i++) {
      if (first + i >= n_complete) break;
      if (own[i] > cut.last) {
        put(higher + min(same, cut.of_last), first + i);
        higher++;
      } else if (own[i] == cut.last) {
        if (same < cut.of_last) put(higher + same, first + i);
        same++;
      }
    }
    above += running.all & 0xFFFF;
    equal += running.all >> 16;
  }
}

// From this many rows on they are likely to be a prompt's.
constexpr int64_t kManyRows = 9;

void launch_scores(const SelectArgs& a, const LiveRows& rows, int64_t first, int64_t end, float* scores,
                   cudaStream_t stream) {
  const auto blocks = [&](int64_t keys) { return static_cast<unsigned>((scores_stride(a) + keys - 1) / keys); };
  const int64_t n = end - first;
  if (rows.rows < kManyRows) {
    const dim3 grid(blocks(kFewKeys), static_cast<unsigned>(n));
    return launch_after(score_row, grid, kScoreThreads, 0, stream, a, rows, first, scores);
  }
  const dim3 grid(blocks(kTileKeys), static_cast<unsigned>((n + kTileRows - 1) / kTileRows));
  launch_after(score_tiles, grid, kScoreThreads, 0, stream, a, rows, first, end, scores);
}

}  // namespace

size_t select_workspace(const SelectArgs& a, int64_t rows) {
  return static_cast<size_t>(slice_rows(a, rows) * scores_stride(a)) * sizeof(float);
}

void launch_select(const SelectArgs& a, const LiveRows& rows, void* workspace, cudaStream_t stream) {
  auto* scores = static_cast<float*>(workspace);
  const int64_t slice = slice_rows(a, rows.rows);
  for (int64_t first = 0; first < rows.rows; first += slice) {
    const int64_t end = std::min(first + slice, rows.rows);
    launch_scores(a, rows, first, end, scores, stream);
    launch_after(choose_blocks, dim3(static_cast<unsigned>(end - first)), kChooseThreads, 0, stream, a, rows, first,
                 scores);
  }
}

}  // namespace strata::kernels::cuda
