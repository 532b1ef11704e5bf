// Gate, up and activation of pairs: a warp has a tile of the same rows of both
// matrices.
#pragma once

#include "kernels/cuda/expert_units.cuh"
#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {

inline constexpr int kHiddenWarps = 8;
inline constexpr int kHiddenRoundsMax = 4;  // rows of each part that a lane has to do with, one after another

// Sums of a lane: of the gate rows of all rounds, then of the up rows.
using HiddenSums = float[2 * kHiddenRoundsMax];

// The lane's share of its rows' products. kOneUnit: no lane has more than one
// unit of a row, whose activations then stay in registers.
template <class F, class Bytes, bool kOneUnit>
__device__ __forceinline__ void multiply_tile(const Product& p, const TileShape& shape,
                                              const uint8_t* const (&tiles)[2], const StagedRow& x, int lane,
                                              HiddenSums& sums) {
  const int first_unit = lane % shape.lanes, groups = kWarp / shape.lanes;
  const LaneUnit<F, Bytes> own(x, min(first_unit, shape.units - 1));
#pragma unroll
  for (float& sum : sums) sum = 0;
#pragma unroll 1
  for (int round = 0; round * groups < shape.rows; round++) {
    const int skipped = (round * groups + lane / shape.lanes) * static_cast<int>(p.parts[0].row_bytes);
    const Bytes rows[2] = {{tiles[0] + skipped}, {tiles[1] + skipped}};
    float of_round[2] = {};
    if constexpr (kOneUnit) {
      if (first_unit < shape.units) {
#pragma unroll
        for (int o = 0; o < 2; o++) of_round[o] = own.add(rows[o], first_unit, 0);
      }
    } else {
      for (int u = first_unit; u < shape.units; u += shape.lanes) {
        const LaneUnit<F, Bytes> inputs(x, u);
#pragma unroll
        for (int o = 0; o < 2; o++) of_round[o] = inputs.add(rows[o], u, of_round[o]);
      }
    }
#pragma unroll
    for (int i = 0; i < kHiddenRoundsMax; i++) {
      if (i != round) continue;
      sums[i] = of_round[0];
      sums[kHiddenRoundsMax + i] = of_round[1];
    }
  }
}

__device__ __forceinline__ void finish_hidden_row(const Product& p, const uint8_t* memory, int64_t pair, int64_t row,
                                                  float gate, float up) {
  if (row >= p.rows) return;
  gate = scaled_and_biased(p, p.parts[0], memory, row, gate);
  up = scaled_and_biased(p, p.parts[1], memory, row, up);
  p.y[pair * p.y_stride + row] = activated(p, gate, up);
}

// Joins what the lanes of each row have.
__device__ __forceinline__ void finish_hidden_tile(const Product& p, const uint8_t* memory, const TileShape& shape,
                                                   int64_t pair, int64_t first, int lane, HiddenSums& sums) {
  if (shape.lanes == kWarp) {
    constexpr int kOfValue = kWarp / (2 * kHiddenRoundsMax);
    const float sum = warp_sums<2 * kHiddenRoundsMax>(sums, lane);
    const float up = __shfl_xor_sync(kAllLanes, sum, kWarp / 2);
    const int round = lane / kOfValue;
    if (lane % kOfValue == 0 && round < shape.rows) finish_hidden_row(p, memory, pair, first + round, sum, up);
    return;
  }
  for (int step = shape.lanes / 2; step > 0; step /= 2) {
#pragma unroll
    for (float& sum : sums) sum += __shfl_xor_sync(kAllLanes, sum, step);
  }
  if (lane % shape.lanes != 0) return;
  const int groups = kWarp / shape.lanes;
#pragma unroll
  for (int i = 0; i < kHiddenRoundsMax; i++) {
    const int row = i * groups + lane / shape.lanes;
    if (row < shape.rows) finish_hidden_row(p, memory, pair, first + row, sums[i], sums[kHiddenRoundsMax + i]);
  }
}

template <class F, class Bytes>
__device__ __forceinline__ void multiply_hidden_tile(const Product& p, const TileShape& shape,
                                                     const uint8_t* const (&tiles)[2], const StagedRow& x, int lane,
                                                     HiddenSums& sums) {
  if (shape.units <= shape.lanes) return multiply_tile<F, Bytes, true>(p, shape, tiles, x, lane, sums);
  multiply_tile<F, Bytes, false>(p, shape, tiles, x, lane, sums);
}

// A block serves one pair; blockIdx.x counts its tiles by kHiddenWarps. Kernels
// behind may start once all blocks know that what stands in front is done: they
// may then read what kernels before this one have written.
template <class F>
__global__ void __launch_bounds__(kHiddenWarps* kWarp, 4)
    expert_hidden(const __grid_constant__ Product p, const __grid_constant__ TileShape shape) {
  extern __shared__ __align__(16) uint8_t shared_bytes[];
  __shared__ uint64_t barriers[kHiddenWarps];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t pair = blockIdx.y;
  const int64_t first = (int64_t{blockIdx.x} * kHiddenWarps + warp) * shape.rows;
  const WarpStage stage(barriers[warp], lane);
  if (blockIdx.x == 0) prefetch_places(p);
  wait_for_kernel_before();
  start_kernel_behind();
  const int32_t live = load_now(p.live), expert = load_now(id_of(p, pair));
  const float* from = p.x + pair / p.x_share * p.x_stride;
  const Eight ahead = load_eight(from, threadIdx.x * 8, p.cols);
  if (pair >= int64_t{live} * p.per_live) return;
  const uint8_t* memory = expert_memory(p, expert);
  if (memory == nullptr) return;

  const StagedRow x = rounded_row(shared_bytes, p.cols);
  uint8_t* own = shared_bytes + shape.row_stride + warp * 2 * shape.part_bytes;
  uint8_t* stages[2] = {own, own + shape.part_bytes};
  for (int o = 0; o < 2; o++) stage_tile(p, p.parts[o], memory, first, shape, stage, stages[o]);
  stage.end();
  const int spans = static_cast<int>((p.cols + 255) / 256);
  if (warp < spans) round_span<F>(ahead, warp, x, lane);
  for (int span = warp + kHiddenWarps; span < spans; span += kHiddenWarps) {
    round_span<F>(load_eight(from, span * 256 + lane * 8, p.cols), span, x, lane);
  }
  stage.wait();
  __syncthreads();
  if (first >= p.rows) return;
  const uint8_t* tiles[2];
  for (int o = 0; o < 2; o++) tiles[o] = staged_tile(p, p.parts[o], memory, first, stages[o]);
  HiddenSums sums;
  bool done = false;
  if constexpr (kFastAlignment < F >> 1) {
    done = aligned_for<F>(tiles[0]) && aligned_for<F>(tiles[1]);
    if (done) multiply_hidden_tile<F, StagedBytes<kFastAlignment<F>>>(p, shape, tiles, x, lane, sums);
  }
  if (!done) multiply_hidden_tile<F, StagedBytes<1>>(p, shape, tiles, x, lane, sums);
  finish_hidden_tile(p, memory, shape, pair, first, lane, sums);
}

inline size_t hidden_shared_bytes(const TileShape& shape) {
  return static_cast<size_t>(shape.row_stride) + kHiddenWarps * 2 * static_cast<size_t>(shape.part_bytes);
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
    if (rounds > 1 && hidden_shared_bytes(shape) > launch.max_shared_bytes / 3) break;
    const int64_t blocks = hidden_blocks(p, shape) * p.max_items;
    const int64_t time = (blocks + launch.n_sms - 1) / launch.n_sms * rounds;
    if (time > best_time) continue;
    best_time = time;
    best = rounds;
  }
  return best;
}

template <class F>
bool launch_expert_hidden_as(const Product& p, const ExpertLaunch& launch) {
  const TileShape shape = tile_shape<F>(p, hidden_rounds<F>(p, launch));
  const size_t shared = hidden_shared_bytes(shape);
  if (!grant_shared(expert_hidden<F>, shared, launch.max_shared_bytes)) return false;
  const dim3 grid(static_cast<unsigned>(hidden_blocks(p, shape)), static_cast<unsigned>(p.max_items));
  launch_after(expert_hidden<F>, grid, kHiddenWarps * kWarp, shared, launch.stream, p, shape);
  return true;
}

}  // namespace strata::kernels::cuda
