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
  int ranks = 0;                     // experts of a row
  int tiles = 0;                     // of each of them in a block; ranks * tiles <= kDownWarps
  int spans = 0;                     // of a hidden row
  unsigned span_factor = 0;          // i * it >> 20 is i / spans, for all spans of a row
  uint8_t rank_of[kDownWarps] = {};  // of each warp
};

// Where the expert of a pair lies.
__device__ __forceinline__ const uint8_t* pair_memory(const Product& p, int64_t row, int rank) {
  return awaited_memory(p, __ldcg(p.experts.ids + row * p.experts.ids_stride + rank));
}

template <class F, class Bytes>
__device__ __forceinline__ float multiply_down_tile(const TileShape& shape, const uint8_t* tile, const StagedRow& x,
                                                    int lane) {
  const Bytes own = {tile + lane / shape.lanes * shape.row_bytes};
  float sum = 0;
#pragma unroll 3
  for (int u = lane & (shape.lanes - 1); u < shape.units; u += shape.lanes)
    sum = LaneUnit<F, Bytes>(x, u).add(own, u, sum);
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
                                            const float* products, int rows, int64_t row, int first, float before) {
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
  const int cols = static_cast<int>(p.cols), n = shape.ranks * shape.spans;
  for (int first = warp; first < n; first += kAtOnce * kDownWarps) {
    Eight x[kAtOnce] = {};
    int ranks[kAtOnce], spans[kAtOnce];
#pragma unroll
    for (int a = 0; a < kAtOnce; a++) {
      const auto i = static_cast<unsigned>(first + a * kDownWarps);
      ranks[a] = static_cast<int>(i * shape.span_factor >> 20);
      spans[a] = static_cast<int>(i) - ranks[a] * shape.spans;
      if (static_cast<int>(i) >= n || (in_reach >> ranks[a] & 1) == 0) continue;
      x[a] = load_eight(p.x + (row * shape.ranks + ranks[a]) * p.x_stride, spans[a] * 256 + lane * 8, cols);
    }
#pragma unroll
    for (int a = 0; a < kAtOnce; a++) {
      if (first + a * kDownWarps >= n) break;
      round_span<F>(x[a], spans[a], rounded_row(rounded + ranks[a] * shape.tile.row_stride, cols), lane);
    }
  }
}

// `early`: the kernel before is expert_hidden(), which lets this one start when
// the ids are there; only its hidden rows and linked experts have to be waited
// for. Other weights are asked for before. kPlain: their rows are aligned.
template <class F, bool kPlain>
__global__ void __launch_bounds__(kDownWarps* kWarp, 2)
    expert_down(const __grid_constant__ Product p, const __grid_constant__ ExpertSum sum,
                const __grid_constant__ DownShape shape, bool early) {
  extern __shared__ __align__(16) uint8_t shared_bytes[];
  __shared__ Ranks ranks;
  __shared__ uint64_t barriers[kDownWarps];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const TileShape& tile = shape.tile;
  const int64_t row = blockIdx.y;
  const int rank = shape.rank_of[warp], rows = tile.rows * shape.tiles;
  const int first = static_cast<int>(blockIdx.x) * rows;
  const int own = first + (warp - rank * shape.tiles) * tile.rows;
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
  __syncthreads();
  auto* products = reinterpret_cast<float*>(shared_bytes + shape.ranks * tile.row_stride +
                                            shape.ranks * shape.tiles * tile.part_bytes);
  if (memory != nullptr) {
    const StagedRow x = rounded_row(shared_bytes + rank * tile.row_stride, p.cols);
    const uint8_t* staged = staging + into_sixteen(tile_at(p.parts[0], memory, own, tile));
    stage.wait();
    float product = 0;
    using Fast = StagedBytes<kFastAlignment<F>>;
    if (kPlain || aligned_for<F>(staged)) {
      product = multiply_down_tile<F, Fast>(tile, staged, x, lane);
    } else {
      product = multiply_down_tile<F, StagedBytes<1>>(tile, staged, x, lane);
    }
    const int out = own + lane / tile.lanes;
    if ((lane & (tile.lanes - 1)) == 0 && out < static_cast<int>(p.rows)) {
      products[rank * rows + out - first] = scaled_and_biased(p, p.parts[0], memory, out, product);
    }
  }
  __syncthreads();
  finish_down(p, sum, shape.ranks, ranks, products, rows, row, first, before);
}

template <class F, bool kPlain>
bool launch_down_tiles(const Product& p, const ExpertSum& sum, bool after_hidden, const ExpertLaunch& launch) {
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
  shape.spans = static_cast<int>((p.cols + 255) / 256);
  shape.span_factor = static_cast<unsigned>((1 << 20) / shape.spans + 1);
  for (int warp = 0; warp < kDownWarps; warp++) shape.rank_of[warp] = static_cast<uint8_t>(warp / shape.tiles);
  const int warps_used = shape.ranks * shape.tiles;
  const size_t shared = static_cast<size_t>(shape.ranks) * static_cast<size_t>(shape.tile.row_stride) +
                        static_cast<size_t>(warps_used) * static_cast<size_t>(shape.tile.part_bytes) +
                        static_cast<size_t>(warps_used * shape.tile.rows) * sizeof(float);
  if (!grant_shared(expert_down<F, kPlain>, shared, launch.max_shared_bytes)) return false;
  const dim3 grid(static_cast<unsigned>((tiles + shape.tiles - 1) / shape.tiles), static_cast<unsigned>(rows));
  launch_after(expert_down<F, kPlain>, grid, kDownWarps * kWarp, shared, launch.stream, p, sum, shape, after_hidden);
  return true;
}

template <class F>
bool launch_expert_down_as(const Product& p, const ExpertSum& sum, bool after_hidden, const ExpertLaunch& launch) {
  if constexpr (1 < kFastAlignment<F>) {
    if (aligned_rows<F>(p)) return launch_down_tiles<F, true>(p, sum, after_hidden, launch);
  }
  return launch_down_tiles<F, false>(p, sum, after_hidden, launch);
}

}  // namespace strata::kernels::cuda
