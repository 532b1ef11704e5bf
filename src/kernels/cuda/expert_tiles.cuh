// Tiles of an expert's weight rows, each staged in shared memory and multiplied
// by one warp. `lanes` lanes share a row: as many as its units occupy well, so
// that a warp takes 32 / lanes rows at a time.
#pragma once

#include "kernels/cuda/experts.h"
#include "kernels/cuda/formats/format.cuh"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/rounding.cuh"
#include "kernels/cuda/staging.cuh"

namespace strata::kernels::cuda {

// What depends on the shapes alone, of all tiles of a launch.
struct TileShape {
  int units = 0;      // of a weight row
  int lanes = 0;      // that share a row, a power of two
  int rows = 0;       // of a tile, of each part
  int part_bytes = 0; // of shared memory for the rows of a part
  int row_stride = 0; // bytes from one rounded activation row to the next
};

template <class F> inline constexpr int kUnitColumns = 16 * F::kRuns;

// Lanes a row: the most that are idle for less than a tenth of the rounds, or
// whatever leaves the fewest idle.
inline int lanes_of_row(int units) {
  int best = 1;
  double best_share = 0;
  for (int lanes = kWarp; lanes >= 1; lanes /= 2) {
    const int rounds = (units + lanes - 1) / lanes;
    const double share = static_cast<double>(units) / (rounds * lanes);
    if (share > 0.9)
      return lanes;
    if (share <= best_share)
      continue;
    best = lanes;
    best_share = share;
  }
  return best;
}

// Codes of activations lie with a gap behind each 64, so that lanes that read
// neighbouring units meet different banks.
__host__ __device__ constexpr int spread(int col) {
  return col + col / 64 * 16;
}

// Bytes of a rounded row of `cols` columns: codes, then a scale for each 32 and
// a sum for each 16 of them.
inline int64_t rounded_row_bytes(int64_t cols) {
  return (cols + 255) / 256 * (spread(256) + 256 / 32 * 4 + 256 / 16 * 4);
}

__device__ __forceinline__ RoundedRow rounded_row(uint8_t *at, int64_t cols) {
  const int padded = static_cast<int>(cols + 255) / 256 * 256;
  auto *d = reinterpret_cast<float *>(at + spread(padded));
  return {reinterpret_cast<int8_t *>(at), d, d + padded / 32};
}

// rounds: rows of each part that a lane has to do with.
template <class F> TileShape tile_shape(const Product &p, int rounds) {
  TileShape shape;
  shape.units = static_cast<int>(p.cols / kUnitColumns<F>);
  shape.lanes = lanes_of_row(shape.units);
  shape.rows = rounds * kWarp / shape.lanes;
  shape.part_bytes = static_cast<int>(
      staged_bytes(shape.rows * static_cast<int64_t>(p.parts[0].row_bytes)));
  shape.row_stride = static_cast<int>(rounded_row_bytes(p.cols));
  return shape;
}

// Begins to copy the rows from `first` on of a part, those there are.
__device__ __forceinline__ void stage_tile(const Product &p, const Part &part,
                                           const uint8_t *memory, int64_t first,
                                           const TileShape &shape,
                                           const WarpStage &stage,
                                           uint8_t *to) {
  const int64_t rows = min(static_cast<int64_t>(shape.rows), p.rows - first);
  if (rows > 0)
    stage.copy(to, memory + part.offset + first * part.row_bytes,
               rows * part.row_bytes);
}
// Where the first row of a staged tile is.
__device__ __forceinline__ const uint8_t *
staged_tile(const Product &p, const Part &part, const uint8_t *memory,
            int64_t first, const uint8_t *to) {
  return to + into_sixteen(memory + part.offset + first * part.row_bytes);
}

// The activations of a unit, in registers.
template <class F> struct UnitInputs {
  static constexpr int kMerged = F::kGroup / 16; // runs that share a scale
  int4 codes[F::kRuns];
  float d[F::kSuper ? 1 : F::kRuns / kMerged];
  float sums[F::kOffset ? F::kRuns / kMerged : 1];

  __device__ __forceinline__ UnitInputs(const RoundedRow &x, int first,
                                        int unit) {
#pragma unroll
    for (int k = 0; k < F::kRuns; k++) {
      codes[k] = *reinterpret_cast<const int4 *>(
          x.codes + spread(first + F::column(unit, k)));
    }
    if constexpr (F::kSuper)
      d[0] = x.d[first / 32];
#pragma unroll
    for (int k = 0; k < F::kRuns; k += kMerged) {
      const int col = first + F::column(unit, k);
      if constexpr (!F::kSuper)
        d[k / kMerged] = x.d[col / 32];
      if constexpr (F::kOffset) {
        sums[k / kMerged] = kMerged == 2
                                ? x.sums[col / 16] + x.sums[col / 16 + 1]
                                : x.sums[col / 16];
      }
    }
  }

  __device__ __forceinline__ static int dot16(const Run &run, const int4 &x,
                                              int dot) {
    dot = __dp4a(static_cast<int>(run.codes[0]), x.x, dot);
    dot = __dp4a(static_cast<int>(run.codes[1]), x.y, dot);
    dot = __dp4a(static_cast<int>(run.codes[2]), x.z, dot);
    return __dp4a(static_cast<int>(run.codes[3]), x.w, dot);
  }

  // `sum` and the products with the runs of a weight row's unit.
  __device__ __forceinline__ float add(const Run (&runs)[F::kRuns],
                                       float sum) const {
    float scaled = F::kSuper ? 0 : sum;
#pragma unroll
    for (int k = 0; k < F::kRuns; k += kMerged) {
      int dot = dot16(runs[k], codes[k], 0);
      if constexpr (kMerged == 2)
        dot = dot16(runs[k + 1], codes[k + 1], dot);
      const float scale =
          F::kSuper ? runs[k].scale : runs[k].scale * d[k / kMerged];
      scaled = fmaf(scale, static_cast<float>(dot), scaled);
    }
    sum = F::kSuper ? fmaf(scaled, d[0], sum) : scaled;
    if constexpr (F::kOffset) {
#pragma unroll
      for (int k = 0; k < F::kRuns; k += kMerged)
        sum = fmaf(runs[k].offset, sums[k / kMerged], sum);
    }
    return sum;
  }
};

// Adds the products of unit u of kRows staged rows.
template <class F, class Bytes, int kRows>
__device__ __forceinline__ void add_unit(const Bytes (&rows)[kRows],
                                         const UnitInputs<F> &inputs, int u,
                                         float (&sums)[kRows]) {
  constexpr int kOfBlock = F::kElems / kUnitColumns<F>;
#pragma unroll
  for (int i = 0; i < kRows; i++) {
    Run runs[F::kRuns];
    F::unpack(rows[i] + u / kOfBlock * F::kBytes, u % kOfBlock, runs);
    sums[i] = inputs.add(runs, sums[i]);
  }
}
template <class F>
__device__ __forceinline__ UnitInputs<F> unit_inputs(const RoundedRow &x,
                                                     int u) {
  constexpr int kOfBlock = F::kElems / kUnitColumns<F>;
  return UnitInputs<F>(x, u / kOfBlock * F::kElems, u % kOfBlock);
}

// Rounds columns [256 span, 256 (span + 1)) of a float row, of which a lane has
// eight, by a warp.
template <class F>
__device__ __forceinline__ void round_span(const Eight &x, int span,
                                           const RoundedRow &to, int lane) {
  const int col = span * 256 + lane * 8;
  const RoundedEight rounded = round_eight<F::kSuper>(x);
  *reinterpret_cast<uint2 *>(to.codes + spread(col)) =
      make_uint2(rounded.codes[0], rounded.codes[1]);
  if (col % 32 == 0)
    to.d[col / 32] = rounded.d;
  if (col % 16 == 0)
    to.sums[col / 16] = rounded.d * static_cast<float>(rounded.sum);
}

// Whether a format's blocks keep the alignment of their row.
template <class F> inline constexpr bool kKeepsAlignment = F::kBytes % 16 == 0;

template <class Kernel>
bool grant_shared(Kernel *kernel, size_t bytes, size_t most) {
  if (bytes > most)
    return false;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(bytes));
  // The same share for all of them, or one could not start beside another.
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                       cudaSharedmemCarveoutMaxShared);
  return true;
}

} // namespace strata::kernels::cuda
