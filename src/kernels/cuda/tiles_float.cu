// Tiles of float32 products, of weights of any type, without tensor cores: 32 weight rows by 32 items a block, 128
// columns a step.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tiles.cuh"
#include "kernels/cuda/values.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kEdge = 32;   // rows and items of a block
constexpr int kStride = kEdge + 4;
constexpr int kThreads = 128;

struct FloatTile {
  float weights[kTileCols * kStride];  // [column][row]
  float x[kTileCols * kStride];        // [column][item]
};

// Half of the threads decode 64 columns of a row each, the others fetch as many of an item.
__device__ void load_columns(const Product& p, const Tile& tile, int first, int64_t row0, int64_t c0, FloatTile& s) {
  const int edge = threadIdx.x % kEdge, part = threadIdx.x / kEdge % 2;
  if (threadIdx.x < kThreads / 2) {
    const int64_t row = row0 + edge < p.rows ? row0 + edge : p.rows - 1;  // what is past the last row is not looked at
    const uint8_t* weights = tile.memory + p.parts[0].offset + row * p.parts[0].row_bytes;
    unit_values(p.parts[0].type, weights, c0 / kUnitCols + part, p.cols, [&](int64_t col, const Values& values) {
      for (int i = 0; i < kValues; i++) s.weights[(col - c0 + i) * kStride + edge] = values.v[i];
    });
    return;
  }
  const float* x = first + edge < tile.n ? p.x + tile.item(first + edge) / p.x_share * p.x_stride : nullptr;
#pragma unroll 16
  for (int i = 0; i < kUnitCols; i++) {
    const int64_t col = c0 + part * kUnitCols + i;
    s.x[(part * kUnitCols + i) * kStride + edge] = x != nullptr && col < p.cols ? x[col] : 0;
  }
}

__global__ void __launch_bounds__(kThreads) tiles_float(const __grid_constant__ Product p) {
  __shared__ FloatTile s;
  constexpr int kHalves = kTileItems / kEdge;
  const Tile tile = tile_at(p, blockIdx.y / kHalves, kTileItems);
  const int first = static_cast<int>(blockIdx.y % kHalves) * kEdge;
  if (first >= tile.n) return;
  const int64_t row0 = int64_t{blockIdx.x} * kEdge;
  const int r = threadIdx.x % 8 * 4, c = threadIdx.x / 8 * 2;  // four rows, two items of the thread
  float acc[2][4] = {};
  for (int64_t c0 = 0; c0 < p.cols; c0 += kTileCols) {
    __syncthreads();
    load_columns(p, tile, first, row0, c0, s);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kTileCols; k++) {
      const float4 w = *reinterpret_cast<const float4*>(s.weights + k * kStride + r);
      const float2 x = *reinterpret_cast<const float2*>(s.x + k * kStride + c);
      acc[0][0] = fmaf(w.x, x.x, acc[0][0]);
      acc[0][1] = fmaf(w.y, x.x, acc[0][1]);
      acc[0][2] = fmaf(w.z, x.x, acc[0][2]);
      acc[0][3] = fmaf(w.w, x.x, acc[0][3]);
      acc[1][0] = fmaf(w.x, x.y, acc[1][0]);
      acc[1][1] = fmaf(w.y, x.y, acc[1][1]);
      acc[1][2] = fmaf(w.z, x.y, acc[1][2]);
      acc[1][3] = fmaf(w.w, x.y, acc[1][3]);
    }
  }
  for (int j = 0; j < 2; j++) {
    if (first + c + j >= tile.n) continue;
    for (int i = 0; i < 4; i++) {
      const int64_t row = row0 + r + i;
      if (row >= p.rows) continue;
      finish_product(p, tile.item(first + c + j), row, 0,
                     scaled_and_biased(p, p.parts[0], tile.memory, row, acc[j][i]));
    }
  }
}

}  // namespace

void launch_tiles_float(const Product& p, cudaStream_t stream) {
  // The products of experts are multiplied with one another, which doubles what a split leaves out.
  if (has_float_cores() && p.experts.slot_of == nullptr) return launch_tiles_split(p, stream);
  const dim3 grid(static_cast<unsigned>((p.rows + kEdge - 1) / kEdge),
                  static_cast<unsigned>(max_tiles(p, kTileItems) * (kTileItems / kEdge)));
  tiles_float<<<grid, kThreads, 0, stream>>>(p);
}

}  // namespace strata::kernels::cuda
