// Products of each head's part of a row with the head's own matrix, of weights of any type: a block has 32 rows by 128
// columns of a matrix at a time and 32 rows of the step. One kernel for any number of rows: a few of them cost less to
// multiply than the weights to unpack.
#include "kernels/cuda/latent.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/values.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTileRows = 32, kTileCols = 2 * kUnitCols;  // of the matrix
constexpr int kTokens = 32;

// What the tile's rows and columns are: outputs and inputs, or the other way around.
template <bool kTransposed>
struct HeadTile {
  static constexpr int kOutputs = kTransposed ? kTileCols : kTileRows;
  static constexpr int kInputs = kTransposed ? kTileRows : kTileCols;
  static constexpr int kOutputThreads = kOutputs / 4;  // four outputs to a thread
  static constexpr int kTokenThreads = kThreads / kOutputThreads;
  static constexpr int kOfThread = kTokens / kTokenThreads;
  // Rows are longer than they need be, so that what is read side by side meets different banks.
  float w[kInputs][kOutputs + 4];
  float x[kTokens][kInputs + 4];
};

// Rows [row0, row0 + kTileRows) of a head's matrix and columns [col0, col0 + kTileCols), by half of the threads; zeros
// past the last row.
template <bool kTransposed>
__device__ void load_weights(const HeadProductArgs& a, int head, int64_t row0, int64_t col0,
                             HeadTile<kTransposed>& s) {
  const int row = threadIdx.x % kTileRows, part = threadIdx.x / kTileRows;
  const bool there = row0 + row < a.head_rows;
  const uint8_t* at = a.w + (head * a.head_rows + row0 + row) * static_cast<int64_t>(a.row_bytes);
  const auto put = [&](int64_t col, float value) {
    if (kTransposed) s.w[row][col] = value;
    else s.w[col][row] = value;
  };
  if (!there) {
    for (int i = 0; i < kUnitCols; i++) put(part * kUnitCols + i, 0);
    return;
  }
  unit_values(a.type, at, col0 / kUnitCols + part, a.cols, [&](int64_t col, const Values& values) {
    for (int i = 0; i < kValues; i++) put(col - col0 + i, values.v[i]);
  });
}

template <bool kTransposed>
__device__ void load_inputs(const HeadProductArgs& a, int head, int64_t first, int n, int64_t input0, int64_t inputs,
                            HeadTile<kTransposed>& s) {
  constexpr int kInputs = HeadTile<kTransposed>::kInputs;
  const float* x = a.x + head * a.x_head_stride + input0;
  for (int e = threadIdx.x - kThreads / 2; e < kTokens * kInputs; e += kThreads / 2) {
    const int t = e / kInputs, i = e % kInputs;
    s.x[t][i] = t < n && input0 + i < inputs ? x[(first + t) * a.x_stride + i] : 0;
  }
}

template <bool kTransposed>
__global__ void __launch_bounds__(kThreads)
    head_products(const __grid_constant__ HeadProductArgs a, LiveRows rows) {
  using Tile = HeadTile<kTransposed>;
  __shared__ Tile s;
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t first = int64_t{blockIdx.z} * kTokens, left = *rows.live - first;
  if (left <= 0) return;
  const int n = static_cast<int>(min(left, int64_t{kTokens}));
  const int head = blockIdx.y;
  const int64_t output0 = int64_t{blockIdx.x} * Tile::kOutputs;
  const int64_t inputs = kTransposed ? a.head_rows : a.cols, outputs = kTransposed ? a.cols : a.head_rows;
  const int o = threadIdx.x % Tile::kOutputThreads * 4, t = threadIdx.x / Tile::kOutputThreads * Tile::kOfThread;
  float acc[Tile::kOfThread][4] = {};
  for (int64_t input0 = 0; input0 < inputs; input0 += Tile::kInputs) {
    __syncthreads();
    if (threadIdx.x < kThreads / 2) {
      load_weights<kTransposed>(a, head, kTransposed ? input0 : output0, kTransposed ? output0 : input0, s);
    } else {
      load_inputs<kTransposed>(a, head, first, n, input0, inputs, s);
    }
    __syncthreads();
    if (t >= n) continue;
#pragma unroll 4
    for (int k = 0; k < Tile::kInputs; k++) {
      const float4 w = *reinterpret_cast<const float4*>(s.w[k] + o);
#pragma unroll
      for (int j = 0; j < Tile::kOfThread; j++) {
        const float x = s.x[t + j][k];
        acc[j][0] = fmaf(w.x, x, acc[j][0]);
        acc[j][1] = fmaf(w.y, x, acc[j][1]);
        acc[j][2] = fmaf(w.z, x, acc[j][2]);
        acc[j][3] = fmaf(w.w, x, acc[j][3]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < Tile::kOfThread; j++) {
    if (t + j >= n) break;
    float* y = a.y + (first + t + j) * a.y_stride + head * a.y_head_stride + output0 + o;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (output0 + o + i < outputs) y[i] = acc[j][i];
    }
  }
}

template <bool kTransposed>
void launch(const HeadProductArgs& a, const LiveRows& rows, cudaStream_t stream) {
  constexpr int64_t kOutputs = HeadTile<kTransposed>::kOutputs;
  const int64_t outputs = kTransposed ? a.cols : a.head_rows;
  const dim3 grid(static_cast<unsigned>((outputs + kOutputs - 1) / kOutputs), static_cast<unsigned>(a.n_heads),
                  static_cast<unsigned>((rows.rows + kTokens - 1) / kTokens));
  launch_after(head_products<kTransposed>, grid, kThreads, 0, stream, a, rows);
}

}  // namespace

void launch_head_products(const HeadProductArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  if (args.transposed) launch<true>(args, rows, stream);
  else launch<false>(args, rows, stream);
}

}  // namespace strata::kernels::cuda
