// Tiles of float32 products on the tensor cores, of weights of any type: 64 weight rows by 32 items a block, 128
// columns a step. The cores use ten bits of a float's fraction, so each float is split into what they use and the rest,
// and a product is the sum of three: what that leaves out is of the size of two roundings of float32.
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tiles.cuh"
#include "kernels/cuda/values.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kRows = 64;
constexpr int kItems = 32;
constexpr int kWarps = kRows / 16;
constexpr int kThreads = kWarps * kWarp;
// Rows in shared memory are four floats longer than their elements, so that eight of them meet all banks.
constexpr int kStride = kTileCols + 4;

struct Stage {
  float weights[kRows * kStride];
  float x[kItems * kStride];
};

// Columns [c0, c0 + kTileCols) of a row of floats, kShare threads for it; zeros from `cols` on and where row is null.
template <int kShare>
__device__ void ask_for_floats(const float* row, const void* readable, int64_t c0, int64_t cols, float* to) {
  const bool whole = (reinterpret_cast<uintptr_t>(row) & 15) == 0;
  for (int i = threadIdx.x % kShare * 4; i < kTileCols; i += kShare * 4) {
    const int64_t col = c0 + i;
    if (row != nullptr && whole && col + 4 <= cols) {
      copy_sixteen(to + i, row + col, true);
      continue;
    }
    for (int e = 0; e < 4; e++) {
      const bool there = row != nullptr && col + e < cols;
      copy_four(to + i + e, there ? static_cast<const void*>(row + col + e) : readable, there);
    }
  }
}

// What a block multiplies.
struct Block {
  Tile tile;
  int first;  // of the tile's items
  int64_t row0;
  const uint8_t* weights;
  bool plain;  // weights are floats that can be copied as they are
};

__device__ void ask_for_step(const Product& p, const Block& b, int64_t c0, Stage& s) {
  constexpr int kItemShare = kThreads / kItems, kRowShare = kThreads / kRows;
  const int j = threadIdx.x / kItemShare;
  const float* x = b.first + j < b.tile.n ? p.x + b.tile.item(b.first + j) / p.x_share * p.x_stride : nullptr;
  ask_for_floats<kItemShare>(x, p.x, c0, p.cols, s.x + j * kStride);
  const size_t row_bytes = p.parts[0].row_bytes;
  if (b.plain) {
    const int r = threadIdx.x / kRowShare;
    const auto* row = reinterpret_cast<const float*>(b.weights + (b.row0 + r) * row_bytes);
    ask_for_floats<kRowShare>(b.row0 + r < p.rows ? row : nullptr, p.x, c0, p.cols, s.weights + r * kStride);
  } else {
    const int r = threadIdx.x % kRows, part = threadIdx.x / kRows;
    static_assert(kThreads == kTileCols / kUnitCols * kRows);
    const int64_t row = b.row0 + r < p.rows ? b.row0 + r : p.rows - 1;  // what is past the last row is not looked at
    unit_values(p.parts[0].type, b.weights + row * row_bytes, c0 / kUnitCols + part, p.cols,
                [&](int64_t col, const Values& values) {
                  for (int i = 0; i < kValues; i++) s.weights[r * kStride + col - c0 + i] = values.v[i];
                });
  }
  commit_copies();
}

// A float as the nearest that the cores can use, and what that leaves.
struct SplitFloat {
  uint32_t high, low;
};
__device__ __forceinline__ SplitFloat split(float x) {
  const uint32_t high = short_float(x);
  return {high, short_float(x - __uint_as_float(high))};
}

// Adds the products of a step. The cores cut what does not fit a sum, always downwards, so the sums of a step are
// formed from zero and then added with rounding.
__device__ void multiply_step(const Stage& s, int warp, int lane, float (&acc)[kItems / 8][4]) {
  const float* a_at = s.weights + (16 * warp + lane / 4) * kStride + lane % 4;
  const float* b_at = s.x + lane / 4 * kStride + lane % 4;
  float sums[kItems / 8][4] = {};
#pragma unroll 4
  for (int k = 0; k < kTileCols; k += 8) {
    uint32_t high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const SplitFloat a = split(a_at[i % 2 * 8 * kStride + k + i / 2 * 4]);
      high[i] = a.high;
      low[i] = a.low;
    }
#pragma unroll
    for (int n = 0; n < kItems / 8; n++) {
      const SplitFloat b0 = split(b_at[8 * n * kStride + k]), b1 = split(b_at[8 * n * kStride + k + 4]);
      multiply_short_floats(sums[n], low, b0.high, b1.high);
      multiply_short_floats(sums[n], high, b0.low, b1.low);
      multiply_short_floats(sums[n], high, b0.high, b1.high);
    }
  }
#pragma unroll
  for (int n = 0; n < kItems / 8; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) acc[n][i] += sums[n][i];
  }
}

__global__ void __launch_bounds__(kThreads) tiles_split(const __grid_constant__ Product p) {
  extern __shared__ uint4 memory[];
  constexpr int kParts = kTileItems / kItems;
  Stage* stages = reinterpret_cast<Stage*>(memory);
  Block b{tile_at(p, blockIdx.y / kParts, kTileItems), static_cast<int>(blockIdx.y % kParts) * kItems,
          int64_t{blockIdx.x} * kRows, nullptr, false};
  if (b.first >= b.tile.n) return;
  b.weights = b.tile.memory + p.parts[0].offset;
  b.plain = p.parts[0].type == quant::Type::F32 && (reinterpret_cast<uintptr_t>(b.weights) & 3) == 0;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  float acc[kItems / 8][4] = {};
  ask_for_step(p, b, 0, stages[0]);
  int stage = 0;
  for (int64_t c0 = 0; c0 < p.cols; c0 += kTileCols, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // the step is there, and the one before has been read
    if (c0 + kTileCols < p.cols) ask_for_step(p, b, c0 + kTileCols, stages[stage ^ 1]);
    multiply_step(stages[stage], warp, lane, acc);
  }
#pragma unroll
  for (int n = 0; n < kItems / 8; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int64_t row = b.row0 + 16 * warp + lane / 4 + i / 2 * 8;
      const int j = b.first + 8 * n + lane % 4 * 2 + i % 2;
      if (row >= p.rows || j >= b.tile.n) continue;
      finish_product(p, b.tile.item(j), row, 0, scaled_and_biased(p, p.parts[0], b.tile.memory, row, acc[n][i]));
    }
  }
}

}  // namespace

void launch_tiles_split(const Product& p, cudaStream_t stream) {
  constexpr size_t kSharedBytes = 2 * sizeof(Stage);
  cudaFuncSetAttribute(tiles_split, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSharedBytes));
  const dim3 grid(static_cast<unsigned>((p.rows + kRows - 1) / kRows),
                  static_cast<unsigned>(max_tiles(p, kTileItems) * (kTileItems / kItems)));
  tiles_split<<<grid, kThreads, kSharedBytes, stream>>>(p);
}

}  // namespace strata::kernels::cuda
