// Gate, up and activation of pairs: a warp has a tile of the same rows of both
// matrices.
#pragma once

#include "kernels/cuda/expert_units.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {

inline constexpr int kHiddenWarps = 16;
inline constexpr int kHiddenRoundsMax = 4;  // rows of each part that a lane has to do with, one after another

// Sums of what the lanes of a row have of its gate and its up product. The
// first lane of the row has them.
__device__ __forceinline__ float2 sum_of_lanes(float gate, float up, const TileShape& shape, int lane) {
  if (shape.lanes != kWarp) {
    for (int step = shape.lanes / 2; step > 0; step /= 2) {
      gate += __shfl_xor_sync(kAllLanes, gate, step);
      up += __shfl_xor_sync(kAllLanes, up, step);
    }
    return {gate, up};
  }
  float both[2] = {gate, up};
  const float sum = warp_sums<2>(both, lane);
  return {sum, __shfl_xor_sync(kAllLanes, sum, kWarp / 2)};
}

// The products of a tile's rows go to `products`. kOneUnit: no lane has more
// than one unit of a row, whose activations then stay in registers.
template <class F, class Bytes, bool kOneUnit>
__device__ __forceinline__ void multiply_tile(const TileShape& shape, const uint8_t* const (&tiles)[2],
                                              const StagedRow& x, int lane, float2* products) {
  const int first_unit = lane & (shape.lanes - 1);
  const LaneUnit<F, Bytes> own(x, min(first_unit, shape.units - 1));
  int row = lane / shape.lanes;
#pragma unroll 1
  for (; row < shape.rows; row += shape.groups) {
    const Bytes rows[2] = {{tiles[0] + row * shape.row_bytes}, {tiles[1] + row * shape.row_bytes}};
    float sums[2] = {};
    if constexpr (kOneUnit) {
#pragma unroll
      for (int o = 0; o < 2; o++) sums[o] = own.add(rows[o], min(first_unit, shape.units - 1), 0);
      if (first_unit >= shape.units) sums[0] = sums[1] = 0;
    } else {
      for (int u = first_unit; u < shape.units; u += shape.lanes) {
        const LaneUnit<F, Bytes> inputs(x, u);
#pragma unroll
        for (int o = 0; o < 2; o++) sums[o] = inputs.add(rows[o], u, sums[o]);
      }
    }
    const float2 of_row = sum_of_lanes(sums[0], sums[1], shape, lane);
    if (first_unit == 0) products[row] = of_row;
  }
}

template <class F, class Bytes>
__device__ __forceinline__ void multiply_hidden_tile(const TileShape& shape, const uint8_t* const (&tiles)[2],
                                                     const StagedRow& x, int lane, float2* products) {
  if (shape.units <= shape.lanes) return multiply_tile<F, Bytes, true>(shape, tiles, x, lane, products);
  multiply_tile<F, Bytes, false>(shape, tiles, x, lane, products);
}

__device__ __forceinline__ void finish_hidden_row(const Product& p, const uint8_t* memory, int64_t pair, int row,
                                                  float2 product) {
  const float gate = scaled_and_biased(p, p.parts[0], memory, row, product.x);
  const float up = scaled_and_biased(p, p.parts[1], memory, row, product.y);
  p.y[pair * p.y_stride + row] = activated(p, gate, up);
}

// The grid ends behind the kernel in front, whoever else has not waited for it:
// blocks that stayed for it would be in the way of those of the kernel behind.
__device__ __forceinline__ void end_hidden(const Product& p) {
  if (p.experts.fetched && (blockIdx.x | blockIdx.y | blockIdx.z) == 0) wait_for_kernel_before();
}

// kPlain: the rows of weights are aligned, and no lane has more than one unit of
// a row. A block serves one pair, of rank blockIdx.y of row blockIdx.z; blockIdx.x
// counts its tiles by kHiddenWarps. Kernels behind may start once all blocks
// know that what stands in front is done, but for a fetch of linked experts:
// they may then read what kernels before this one have written. Only blocks of
// linked experts wait for the fetch before they begin.
template <class F, bool kPlain>
__global__ void __launch_bounds__(kHiddenWarps* kWarp, 2)
    expert_hidden(const __grid_constant__ Product p, const __grid_constant__ TileShape shape) {
  extern __shared__ __align__(16) uint8_t shared_bytes[];
  __shared__ uint64_t barriers[kHiddenWarps];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int rank = static_cast<int>(blockIdx.y), cols = static_cast<int>(p.cols);
  const int64_t row = blockIdx.z;
  const int first = (static_cast<int>(blockIdx.x) * kHiddenWarps + warp) * shape.rows;
  const WarpStage stage(barriers[warp], lane);
  if (blockIdx.x == 0 && rank == 0) prefetch_places(p);
  if (!p.experts.fetched) wait_for_kernel_before();
  start_kernel_behind();
  const int32_t live = load_now(p.live);
  const int32_t expert = load_now(p.experts.ids + row * p.experts.ids_stride + rank);
  const float* from = p.x + row * p.x_stride;
  const Eight ahead = load_eight(from, warp * 256 + lane * 8, cols);
  if (row >= live) return end_hidden(p);
  const uint8_t* memory = awaited_memory(p, expert);
  if (memory == nullptr) return end_hidden(p);

  const StagedRow x = rounded_row(shared_bytes, cols);
  uint8_t* own = shared_bytes + shape.row_stride + warp * 2 * shape.part_bytes;
  uint8_t* stages[2] = {own, own + shape.part_bytes};
  for (int o = 0; o < 2; o++) stage_tile(p, p.parts[o], memory, first, shape, stage, stages[o]);
  stage.end();
  const int spans = (cols + 255) / 256;
  if (warp < spans) round_span<F>(ahead, warp, x, lane);
  for (int span = warp + kHiddenWarps; span < spans; span += kHiddenWarps) {
    round_span<F>(load_eight(from, span * 256 + lane * 8, cols), span, x, lane);
  }
  __syncthreads();
  stage.wait();
  if (first >= static_cast<int>(p.rows)) return end_hidden(p);
  const uint8_t* tiles[2];
  for (int o = 0; o < 2; o++) tiles[o] = stages[o] + into_sixteen(tile_at(p.parts[o], memory, first, shape));
  auto* products = reinterpret_cast<float2*>(shared_bytes + shape.row_stride + kHiddenWarps * 2 * shape.part_bytes) +
                   warp * shape.rows;
  using Fast = StagedBytes<kFastAlignment<F>>;
  if constexpr (kPlain) {
    multiply_tile<F, Fast, true>(shape, tiles, x, lane, products);
  } else if (aligned_for<F>(tiles[0]) && aligned_for<F>(tiles[1])) {
    multiply_hidden_tile<F, Fast>(shape, tiles, x, lane, products);
  } else {
    multiply_hidden_tile<F, StagedBytes<1>>(shape, tiles, x, lane, products);
  }
  __syncwarp();
  const int rows = min(shape.rows, static_cast<int>(p.rows) - first);
  for (int i = lane; i < rows; i += kWarp)
    finish_hidden_row(p, memory, row * p.per_live + rank, first + i, products[i]);
  end_hidden(p);
}

inline size_t hidden_shared_bytes(const TileShape& shape) {
  const size_t of_warp = 2 * static_cast<size_t>(shape.part_bytes) + static_cast<size_t>(shape.rows) * sizeof(float2);
  return static_cast<size_t>(shape.row_stride) + kHiddenWarps * of_warp;
}
inline int64_t hidden_blocks(const Product& p, const TileShape& shape) {
  const int64_t tiles = (p.rows + shape.rows - 1) / shape.rows;
  return (tiles + kHiddenWarps - 1) / kHiddenWarps;
}

// Rounds that leave the fewest multiprocessors idle while others work; of
// equals the most, for fewer blocks round the same activations then.
template <class F>
int hidden_rounds(const Product& p, const ExpertLaunch& launch) {
  int best = 1;
  int64_t best_time = INT64_MAX;
  for (int rounds = 1; rounds <= kHiddenRoundsMax; rounds++) {
    const TileShape shape = tile_shape<F>(p, rounds);
    if (rounds > 1 && hidden_shared_bytes(shape) > launch.max_shared_bytes * 2 / 3) break;
    const int64_t blocks = hidden_blocks(p, shape) * p.max_items;
    const int64_t time = (blocks + launch.n_sms - 1) / launch.n_sms * rounds;
    if (time > best_time) continue;
    best_time = time;
    best = rounds;
  }
  return best;
}

template <class F, bool kPlain>
bool launch_hidden_tiles(const Product& p, const TileShape& shape, const ExpertLaunch& launch) {
  const size_t shared = hidden_shared_bytes(shape);
  if (!grant_shared(expert_hidden<F, kPlain>, shared, launch.max_shared_bytes)) return false;
  const dim3 grid(static_cast<unsigned>(hidden_blocks(p, shape)), static_cast<unsigned>(p.per_live),
                  static_cast<unsigned>(p.max_items / p.per_live));
  launch_after(expert_hidden<F, kPlain>, grid, kHiddenWarps * kWarp, shared, launch.stream, p, shape);
  return true;
}

template <class F>
bool launch_expert_hidden_as(const Product& p, const ExpertLaunch& launch) {
  if (p.x_share != p.per_live || p.experts.k != p.per_live) return false;
  const TileShape shape = tile_shape<F>(p, hidden_rounds<F>(p, launch));
  if constexpr (1 < kFastAlignment<F>) {
    if (aligned_rows<F>(p) && shape.units <= shape.lanes) return launch_hidden_tiles<F, true>(p, shape, launch);
  }
  return launch_hidden_tiles<F, false>(p, shape, launch);
}

}  // namespace strata::kernels::cuda
