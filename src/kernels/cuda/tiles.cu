#include "kernels/cuda/tiles.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kSortThreads = 1024;

// The expert of a pair, or -1 when it is in no slot.
__device__ __forceinline__ int32_t expert_in_slot(const Product& p, int64_t pair) {
  const int32_t e = expert_id(p, pair);
  return p.experts.slot_of[e] >= 0 ? e : -1;
}

// Running sums of n numbers by one warp: out[i] = value(0) + ... + value(i - 1), out[n] the total.
template <class Value>
__device__ void running_sums(int64_t n, int lane, int32_t* out, const Value& value) {
  int32_t before = 0;
  for (int64_t base = 0; base < n; base += kWarp) {
    const int64_t i = base + lane;
    const int32_t own = i < n ? value(i) : 0;
    int32_t sum = own;
    for (int step = 1; step < kWarp; step *= 2) {
      const int32_t other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += other;
    }
    if (i < n) out[i] = before + sum - own;
    before += __shfl_sync(kAllLanes, sum, kWarp - 1);
  }
  if (lane == 0) out[n] = before;
}

// One block. Pairs of an expert end up in any order: no result depends on it.
__global__ void __launch_bounds__(kSortThreads) sort_pairs(const __grid_constant__ Product p) {
  extern __shared__ int32_t counts[];  // [n_experts]
  const int64_t n = live_items(p);
  const SortedPairs sorted = sorted_pairs(p);
  for (int64_t e = threadIdx.x; e < p.n_experts; e += kSortThreads) counts[e] = 0;
  __syncthreads();
  for (int64_t pair = threadIdx.x; pair < n; pair += kSortThreads) {
    const int32_t e = expert_in_slot(p, pair);
    if (e >= 0) atomicAdd(counts + e, 1);
  }
  __syncthreads();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (warp == 0) running_sums(p.n_experts, lane, sorted.begins, [&](int64_t e) { return counts[e]; });
  if (warp == 1) {
    running_sums(p.n_experts, lane, sorted.tiles, [&](int64_t e) { return (counts[e] + kTileItems - 1) / kTileItems; });
  }
  __syncthreads();
  for (int64_t e = threadIdx.x; e < p.n_experts; e += kSortThreads) counts[e] = sorted.begins[e];
  __syncthreads();
  for (int64_t pair = threadIdx.x; pair < n; pair += kSortThreads) {
    const int32_t e = expert_in_slot(p, pair);
    if (e >= 0) sorted.order[atomicAdd(counts + e, 1)] = static_cast<int32_t>(pair);
  }
}

constexpr int kRoundWarps = 4;

// A warp for each 256 columns of a row.
__global__ void __launch_bounds__(kRoundWarps * kWarp) round_rows(const __grid_constant__ Product p, void* workspace) {
  const int64_t row = blockIdx.x;
  if (row * p.x_share >= live_items(p)) return;
  // Nobody has written the row of a pair whose expert is elsewhere.
  if (p.experts.slot_of != nullptr && p.x_share == 1 && expert_in_slot(p, row) < 0) return;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t padded = padded_cols(p.cols);
  const int copies = p.twice ? 2 : 1;
  for (int64_t base = (int64_t{blockIdx.y} * kRoundWarps + warp) * 256; base < padded;
       base += int64_t{gridDim.y} * kRoundWarps * 256) {
    const int64_t col = base + lane * 8;
    Eight x = load_eight(p.x + row * p.x_stride, col, p.cols);
    for (int i = 0; i < copies; i++) {
      const RoundedEight rounded = round_eight(p.format, x);
      if (col < padded) store_rounded(rounded_row(workspace, p.cols, row * copies + i), col, rounded);
      x = rest_of(x, rounded);
    }
  }
}

}  // namespace

void launch_sort_pairs(const Product& p, cudaStream_t stream) {
  sort_pairs<<<1, kSortThreads, static_cast<size_t>(p.n_experts) * sizeof(int32_t), stream>>>(p);
}

size_t tiles_workspace(const Product& p) {
  if (p.format == ActFormat::kNone) return 0;
  const int64_t rows = (p.max_items + p.x_share - 1) / p.x_share * (p.twice ? 2 : 1);
  return static_cast<size_t>(rows * rounded_row_bytes(p.cols));
}

void launch_tiles(const Product& p, void* workspace, cudaStream_t stream) {
  if (p.max_items == 0 || p.rows == 0) return;
  if (p.format == ActFormat::kNone) return launch_tiles_float(p, stream);
  const int64_t rows = (p.max_items + p.x_share - 1) / p.x_share;
  const int64_t per_block = kRoundWarps * 256;
  const int64_t blocks = (padded_cols(p.cols) + per_block - 1) / per_block;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(blocks));
  round_rows<<<grid, kRoundWarps * kWarp, 0, stream>>>(p, workspace);
  if (launch_tiles_k(p, workspace, stream)) return;
  if (launch_tiles_blocks(p, workspace, stream)) return;
  if (launch_tiles_iq(p, workspace, stream)) return;
  launch_tiles_bits(p, workspace, stream);
}

}  // namespace strata::kernels::cuda
