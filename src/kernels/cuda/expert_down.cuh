// The down products of a row's pairs and their sum: a block has the same weight
// rows of all of the row's experts, a warp a tile of one of them.
#pragma once

#include <algorithm>

#include "kernels/cuda/expert_units.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {

inline constexpr int kDownWarps = 16;

struct DownShape {
  TileShape tile;
  int ranks = 0;  // experts of a row
  int tiles = 0;  // of each of them in a block; ranks * tiles <= kDownWarps
};

// Where the expert of a pair lies, read past the first-level cache, which may
// be older than the ids.
__device__ __forceinline__ const uint8_t* pair_memory(const Product& p, int64_t row, int rank) {
  return expert_memory(p, __ldcg(p.experts.ids + row * p.experts.ids_stride + rank));
}

template <class F, class Bytes>
__device__ __forceinline__ float multiply_down_tile(const Product& p, const TileShape& shape, const uint8_t* tile,
                                                    const StagedRow& x, int lane) {
  const Bytes own = {tile + lane / shape.lanes * static_cast<int>(p.parts[0].row_bytes)};
  float sum = 0;
#pragma unroll 3
  for (int u = lane % shape.lanes; u < shape.units; u += shape.lanes) sum = LaneUnit<F, Bytes>(x, u).add(own, u, sum);
  for (int step = shape.lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  return sum;
}

// What the warps of a block tell each other of the row's experts.
struct Ranks {
  unsigned in_reach;          // a bit for each that is
  float weights[kDownWarps];  // of the sum
};

// Adds a block's products to its rows of x, or leaves them in y. products:
// [ranks][rows of the block], of the experts that are in reach.
__device__ __forceinline__ void finish_down(const Product& p, const ExpertSum& sum, int n_ranks, const Ranks& ranks,
                                            const float* products, int rows, int64_t row, int64_t first, float before) {
  const int i = static_cast<int>(threadIdx.x);
  if (sum.weights == nullptr) {
    for (int at = i; at < n_ranks * rows; at += kDownWarps * kWarp) {
      const int rank = at / rows;
      const int64_t out = first + at % rows;
      if ((ranks.in_reach >> rank & 1) == 0 || out >= p.rows) continue;
      p.y[(row * n_ranks + rank) * p.y_stride + out] = products[at];
    }
    return;
  }
  if (i < rows && first + i < p.rows) {
    float total = 0;
#pragma unroll 4
    for (int rank = 0; rank < n_ranks; rank++) {
      const float added = __fadd_rn(total, __fmul_rn(ranks.weights[rank], products[rank * rows + i]));
      if ((ranks.in_reach >> rank & 1) != 0) total = added;
    }
    sum.x[row * sum.x_stride + first + i] = __fadd_rn(before, total);
  }
}

// Rounds the hidden rows of a row's experts, by all warps: each loads what it
// has to round before it rounds any.
template <class F>
__device__ __forceinline__ void round_hidden(const Product& p, const DownShape& shape, unsigned in_reach, int64_t row,
                                             uint8_t* rounded, int warp, int lane) {
  constexpr int kAtOnce = 2;
  const int spans = static_cast<int>((p.cols + 255) / 256), n = shape.ranks * spans;
  for (int first = warp; first < n; first += kAtOnce * kDownWarps) {
    Eight x[kAtOnce] = {};
#pragma unroll
    for (int a = 0; a < kAtOnce; a++) {
      const int i = first + a * kDownWarps;
      if (i >= n || (in_reach >> (i / spans) & 1) == 0) continue;
      x[a] = load_eight(p.x + (row * shape.ranks + i / spans) * p.x_stride, i % spans * 256 + lane * 8, p.cols);
    }
#pragma unroll
    for (int a = 0; a < kAtOnce; a++) {
      const int i = first + a * kDownWarps;
      if (i >= n) break;
      round_span<F>(x[a], i % spans, rounded_row(rounded + i / spans * shape.tile.row_stride, p.cols), lane);
    }
  }
}

// `early`: the kernel before is expert_hidden(), which lets this one start when
// the ids are there; only its hidden rows have to be waited for. Weights are
// asked for before.
template <class F>
__global__ void __launch_bounds__(kDownWarps* kWarp, 2)
    expert_down(const __grid_constant__ Product p, const __grid_constant__ ExpertSum sum,
                const __grid_constant__ DownShape shape, bool early) {
  extern __shared__ __align__(16) uint8_t shared_bytes[];
  __shared__ Ranks ranks;
  __shared__ uint64_t barriers[kDownWarps];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const TileShape& tile = shape.tile;
  const int64_t row = blockIdx.y;
  const int rank = warp / shape.tiles, rows = tile.rows * shape.tiles;
  const int64_t first = int64_t{blockIdx.x} * rows;
  const int64_t own = first + warp % shape.tiles * tile.rows;
  uint8_t* staging = shared_bytes + shape.ranks * tile.row_stride + warp * tile.part_bytes;
  start_kernel_behind();
  const WarpStage stage(barriers[warp], lane);
  if (!early) wait_for_kernel_before();
  if (threadIdx.x == 0) ranks.in_reach = 0;
  __syncthreads();
  const bool live = row < load_now(p.live);
  const uint8_t* memory = live && rank < shape.ranks ? pair_memory(p, row, rank) : nullptr;
  if (memory != nullptr) {
    stage_tile(p, p.parts[0], memory, own, tile, stage, staging);
    if (lane == 0) {
      atomicOr(&ranks.in_reach, 1u << rank);
      if (sum.weights != nullptr) ranks.weights[rank] = __ldcg(sum.weights + row * sum.weights_stride + rank);
    }
  }
  stage.end();
  // No kernel since the one that routed has changed x.
  float before = 0;
  if (live && sum.weights != nullptr && threadIdx.x < rows && first + threadIdx.x < p.rows)
    before = __ldcg(sum.x + row * sum.x_stride + first + threadIdx.x);
  if (early) wait_for_kernel_before();
  if (!live) return;
  __syncthreads();

  round_hidden<F>(p, shape, ranks.in_reach, row, shared_bytes, warp, lane);
  stage.wait();
  __syncthreads();
  auto* products = reinterpret_cast<float*>(shared_bytes + shape.ranks * tile.row_stride +
                                            shape.ranks * shape.tiles * tile.part_bytes);
  if (memory != nullptr) {
    const StagedRow x = rounded_row(shared_bytes + rank * tile.row_stride, p.cols);
    const uint8_t* staged = staged_tile(p, p.parts[0], memory, own, staging);
    float product = 0;
    bool done = false;
    if constexpr (kFastAlignment < F >> 1) {
      done = aligned_for<F>(staged);
      if (done) product = multiply_down_tile<F, StagedBytes<kFastAlignment<F>>>(p, tile, staged, x, lane);
    }
    if (!done) product = multiply_down_tile<F, StagedBytes<1>>(p, tile, staged, x, lane);
    const int64_t out = own + lane / tile.lanes;
    if (lane % tile.lanes == 0 && out < p.rows) {
      products[rank * rows + out - first] = scaled_and_biased(p, p.parts[0], memory, out, product);
    }
  }
  __syncthreads();
  finish_down(p, sum, shape.ranks, ranks, products, rows, row, first, before);
}

template <class F>
bool launch_expert_down_as(const Product& p, const ExpertSum& sum, bool after_hidden, const ExpertLaunch& launch) {
  DownShape shape;
  shape.tile = tile_shape<F>(p, 1);
  shape.ranks = p.per_live;
  if (shape.ranks > kDownWarps) return false;
  const int64_t rows = p.max_items / shape.ranks;
  // All warps have a tile, and where that leaves multiprocessors without a
  // block, fewer.
  const int64_t tiles = (p.rows + shape.tile.rows - 1) / shape.tile.rows;
  const int64_t wanted = (tiles * rows + launch.n_sms - 1) / launch.n_sms;
  shape.tiles = static_cast<int>(std::min<int64_t>(kDownWarps / shape.ranks, wanted));
  const int warps_used = shape.ranks * shape.tiles;
  const size_t shared = static_cast<size_t>(shape.ranks) * static_cast<size_t>(shape.tile.row_stride) +
                        static_cast<size_t>(warps_used) * static_cast<size_t>(shape.tile.part_bytes) +
                        static_cast<size_t>(warps_used * shape.tile.rows) * sizeof(float);
  if (!grant_shared(expert_down<F>, shared, launch.max_shared_bytes)) return false;
  const dim3 grid(static_cast<unsigned>((tiles + shape.tiles - 1) / shape.tiles), static_cast<unsigned>(rows));
  launch_after(expert_down<F>, grid, kDownWarps * kWarp, shared, launch.stream, p, sum, shape, after_hidden);
  return true;
}

}  // namespace strata::kernels::cuda
