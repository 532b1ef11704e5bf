// Tiles of integer products: 64 weight rows by 64 rounded activation rows a block, 128 columns a step. A warp has 16 of
// the weight rows and multiplies them with the activations on the tensor cores, 32 (or 16) columns at a time: as many
// as share a weight scale, which then multiplies the integers as floats.
#pragma once

#include "kernels/cuda/formats/format.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tiles.cuh"

namespace strata::kernels::cuda {

inline constexpr int kWeightRows = 64;  // weight rows
inline constexpr int kTileWarps = 4;
inline constexpr int kTileThreads = kTileWarps * kWarp;
// Rows of codes in shared memory are a bank apart more than they are long, so that eight of them meet all banks.
inline constexpr int kCodeStride = kTileCols + 16;

template <class F>
struct TileShared {
  static constexpr int kScales = kTileCols / F::kGroup;
  alignas(16) int8_t weights[kWeightRows * kCodeStride];
  alignas(16) int8_t codes[kTileItems * kCodeStride];
  float scales[kWeightRows * (kScales + 1)];
  float offsets[F::kOffset ? kWeightRows * (kScales + 1) : 1];
  alignas(8) float d[kTileCols / 32 * kTileItems];  // [32 columns][activation row]
  alignas(8) float sums[F::kOffset ? kScales * kTileItems : 1];  // [columns of a scale][activation row]
  int64_t items[kTileItems];       // of the tile; -1 behind its last
  const int8_t* rows[kTileItems];  // where each activation row is in the workspace; null behind the last
};

// Steps that weights are asked for ahead of their loads.
inline constexpr int kTileAhead = 4;

// Asks for the weights of a step, a thread for each row.
template <class F>
__device__ __forceinline__ void prefetch_tile(const Product& p, const uint8_t* weights, int64_t row0, int64_t c0) {
  const int64_t row = row0 + threadIdx.x;
  if (threadIdx.x >= kWeightRows || row >= p.rows || c0 >= p.cols) return;
  const uint8_t* at = weights + row * p.parts[0].row_bytes + c0 * F::kBytes / F::kElems;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// Weights of columns [c0, c0 + 128), zeros past the matrix.
template <class F>
__device__ void load_tile_weights(const Product& p, const uint8_t* weights, int64_t row0, int64_t c0,
                                  TileShared<F>& s) {
  constexpr int kUnitColumns = 16 * F::kRuns;
  constexpr int kUnits = kTileCols / kUnitColumns;
  constexpr int kUnitsOfBlock = F::kElems / kUnitColumns;
  const int u = threadIdx.x % kUnits;
  const int64_t unit = c0 / kUnitColumns + u;
  const int64_t block = unit / kUnitsOfBlock;
  const int within = static_cast<int>(unit % kUnitsOfBlock);
  const bool in_row = unit * kUnitColumns < p.cols;
#pragma unroll 2
  for (int r = threadIdx.x / kUnits; r < kWeightRows; r += kTileThreads / kUnits) {
    Run runs[F::kRuns] = {};
    if (in_row && row0 + r < p.rows) {
      F::unpack(weights + (row0 + r) * p.parts[0].row_bytes + block * F::kBytes, within, runs);
    }
#pragma unroll
    for (int k = 0; k < F::kRuns; k++) {
      const int col = static_cast<int>(block * F::kElems + F::column(within, k) - c0);
      *reinterpret_cast<uint4*>(s.weights + r * kCodeStride + col) =
          make_uint4(runs[k].codes[0], runs[k].codes[1], runs[k].codes[2], runs[k].codes[3]);
      if (col % F::kGroup != 0) continue;
      const int at = r * (TileShared<F>::kScales + 1) + col / F::kGroup;
      s.scales[at] = runs[k].scale;
      if (F::kOffset) s.offsets[at] = runs[k].offset;
    }
  }
}

// Finds the items of the tile and their activation rows, of which an item has two with `twice`.
template <class F>
__device__ void find_rows(const Product& p, const Tile& tile, void* workspace, TileShared<F>& s) {
  for (int j = threadIdx.x; j < kTileItems; j += kTileThreads) {
    s.items[j] = j < tile.n ? tile.item(j) : -1;
    const int i = p.twice ? j / 2 : j;
    s.rows[j] = nullptr;
    if (i >= tile.n) continue;
    const int64_t x = tile.item(i) / p.x_share;
    s.rows[j] = rounded_row(workspace, p.cols, p.twice ? 2 * x + j % 2 : x).codes;
  }
}

// The first `n` activation rows; what is behind them is not looked at.
template <class F>
__device__ void load_tile_codes(const Product& p, int64_t c0, int n, TileShared<F>& s) {
  constexpr int kPieces = kTileCols / 16;
  const int64_t padded = padded_cols(p.cols);
#pragma unroll 4
  for (int i = threadIdx.x; i < n * kPieces; i += kTileThreads) {
    const int j = i / kPieces, piece = i % kPieces;
    uint4 codes = make_uint4(0, 0, 0, 0);
    float d = 0, sum = 0;
    const int8_t* row = s.rows[j];
    if (row != nullptr) {
      const auto* scales = reinterpret_cast<const float*>(row + padded);
      codes = *reinterpret_cast<const uint4*>(row + c0 + 16 * piece);
      d = scales[(c0 + 16 * piece) / 32];
      if (F::kOffset) {
        const float* sums = scales + padded / 32 + c0 / 16 + piece;
        sum = sums[0];
        if (F::kGroup == 32 && piece % 2 == 0) sum += sums[1];
      }
    }
    *reinterpret_cast<uint4*>(s.codes + j * kCodeStride + 16 * piece) = codes;
    if (piece % 2 == 0) s.d[piece / 2 * kTileItems + j] = d;
    if (F::kOffset && 16 * piece % F::kGroup == 0) s.sums[16 * piece / F::kGroup * kTileItems + j] = sum;
  }
}

// A lane's elements of the products of 16 weight rows with 8 activation rows (mma.cuh).
struct Fragment {
  float v[4];
};

// Adds integers times the scale of their columns. `super`: the activations' scale waits until the end of the step.
template <class F>
__device__ __forceinline__ void add_scaled(const int (&c)[4], const float (&scale)[2], float2 d, Fragment& to) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float factor = F::kSuper ? scale[i / 2] : scale[i / 2] * (i % 2 == 0 ? d.x : d.y);
    to.v[i] = fmaf(static_cast<float>(c[i]), factor, to.v[i]);
  }
}
__device__ __forceinline__ void add_offsets(const float (&offset)[2], float2 sum, Fragment& to) {
#pragma unroll
  for (int i = 0; i < 4; i++) to.v[i] = fmaf(offset[i / 2], i % 2 == 0 ? sum.x : sum.y, to.v[i]);
}

// The step's products of the warp's weight rows; n8 counts the groups of eight activation rows that hold items.
template <class F>
__device__ void multiply_tile(const TileShared<F>& s, int warp, int lane, int n8, Fragment (&acc)[kTileItems / 8]) {
  constexpr int kStride = TileShared<F>::kScales + 1;
  const int g = lane / 4, t = lane % 4;
  const int8_t* a_row = s.weights + (16 * warp + lane % 16) * kCodeStride + lane / 16 * 16;
  const int8_t* b_row = s.codes + (lane / 16 * 8 + lane % 8) * kCodeStride + lane / 8 % 2 * 16;
  Fragment part[F::kSuper ? kTileItems / 8 : 1] = {};
#pragma unroll
  for (int group = 0; group < kTileCols / 32; group++) {
    uint32_t a[4];
    load_matrices(a_row + 32 * group, a);
#pragma unroll
    for (int pair = 0; pair < kTileItems / 16; pair++) {
      if (2 * pair >= n8) break;
      uint32_t b[4];  // two groups of eight rows, 32 columns each
      load_matrices(b_row + 16 * pair * kCodeStride + 32 * group, b);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int n = 2 * pair + half;
        const int at = 8 * n + 2 * t;
        const float2 d = *reinterpret_cast<const float2*>(s.d + group * kTileItems + at);
        Fragment& to = F::kSuper ? part[F::kSuper ? n : 0] : acc[n];
        constexpr int kParts = 32 / F::kGroup;
#pragma unroll
        for (int k = 0; k < kParts; k++) {
          const int scale_at = group * kParts + k;
          const int row = (16 * warp + g) * kStride + scale_at;
          const float scale[2] = {s.scales[row], s.scales[row + 8 * kStride]};
          int c[4] = {};
          if constexpr (kParts == 1) {
            multiply32(c, a, b[2 * half], b[2 * half + 1]);
          } else {
            multiply16(c, a[2 * k], a[2 * k + 1], b[2 * half + k]);
          }
          add_scaled<F>(c, scale, d, to);
          if constexpr (F::kOffset) {
            const float offset[2] = {s.offsets[row], s.offsets[row + 8 * kStride]};
            add_offsets(offset, *reinterpret_cast<const float2*>(s.sums + scale_at * kTileItems + at), acc[n]);
          }
        }
      }
    }
  }
  if constexpr (F::kSuper) {
#pragma unroll
    for (int n = 0; n < kTileItems / 8; n++) {
      if (n >= n8) break;
      const float2 d = *reinterpret_cast<const float2*>(s.d + 8 * n + 2 * t);
#pragma unroll
      for (int i = 0; i < 4; i++) acc[n].v[i] = fmaf(part[n].v[i], i % 2 == 0 ? d.x : d.y, acc[n].v[i]);
    }
  }
}

template <class F>
__device__ void finish_tile(const Product& p, const uint8_t* memory, const TileShared<F>& s, int64_t row0, int warp,
                            int lane, const Fragment (&acc)[kTileItems / 8]) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < kTileItems / 8; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int64_t row = row0 + 16 * warp + g + i / 2 * 8;
      if (row >= p.rows) continue;
      float sum = acc[n].v[i];
      int j = 8 * n + 2 * t + i % 2;
      if (p.twice) {
        if (i % 2 != 0) continue;
        sum += acc[n].v[i + 1];
        j /= 2;
      }
      const int64_t item = s.items[j];
      if (item < 0) continue;
      finish_product(p, item, row, 0, scaled_and_biased(p, p.parts[0], memory, row, sum));
    }
  }
}

template <class F>
__global__ void __launch_bounds__(kTileThreads)
    tiles_rounded(const __grid_constant__ Product p, void* workspace, int tile_items) {
  __shared__ TileShared<F> s;
  const Tile tile = tile_at(p, blockIdx.y, tile_items);
  if (tile.n == 0) return;
  const int64_t row0 = int64_t{blockIdx.x} * kWeightRows;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  find_rows(p, tile, workspace, s);
  const int n8 = ((p.twice ? 2 * tile.n : tile.n) + 7) / 8;
  const uint8_t* weights = tile.memory + p.parts[0].offset;
  for (int i = 0; i < kTileAhead; i++) prefetch_tile<F>(p, weights, row0, i * kTileCols);
  Fragment acc[kTileItems / 8] = {};
  for (int64_t c0 = 0; c0 < p.cols; c0 += kTileCols) {
    __syncthreads();
    prefetch_tile<F>(p, weights, row0, c0 + kTileAhead * kTileCols);
    load_tile_weights<F>(p, weights, row0, c0, s);
    load_tile_codes<F>(p, c0, (n8 + 1) / 2 * 16, s);
    __syncthreads();
    multiply_tile<F>(s, warp, lane, n8, acc);
  }
  finish_tile<F>(p, tile.memory, s, row0, warp, lane, acc);
}

template <class F>
void launch_tiles_rounded(const Product& p, void* workspace, cudaStream_t stream) {
  const int64_t row_blocks = (p.rows + kWeightRows - 1) / kWeightRows;
  // Items of an expert's tiles are fixed by the sort. Else, with few blocks, smaller tiles fill the device: weights are
  // unpacked more often then, by multiprocessors that had nothing to do.
  constexpr int64_t kBlocksWanted = 512;
  const int of_item = p.twice ? 2 : 1;
  int tile_items = kTileItems / of_item;
  const auto too_few = [&] { return row_blocks * max_tiles(p, tile_items) < kBlocksWanted; };
  while (p.experts.slot_of == nullptr && tile_items * of_item > 16 && too_few()) tile_items /= 2;
  const dim3 grid(static_cast<unsigned>(row_blocks), static_cast<unsigned>(max_tiles(p, tile_items)));
  tiles_rounded<F><<<grid, kTileThreads, 0, stream>>>(p, workspace, tile_items);
}

}  // namespace strata::kernels::cuda
