// The matrix-vector kernels: a frame that knows no format, instantiated with how activations lie in shared memory and
// how a lane multiplies its units of a weight row.
#pragma once

#include <algorithm>

#include "kernels/cuda/formats/format.cuh"
#include "kernels/cuda/matvec.h"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/rounding.cuh"

namespace strata::kernels::cuda {

inline constexpr int kMatVecWarps = 8;
inline constexpr int kMatVecThreads = kMatVecWarps * kWarp;
// Of activations in shared memory; few enough that no launch has to ask for more than is granted anyway.
inline constexpr int64_t kMatVecSharedBytes = 45 * 1024;

// Asks for a weight row ahead of its loads.
__device__ __forceinline__ void prefetch_row(const uint8_t* row, int64_t bytes, int lane) {
  for (int64_t at = lane * 128; at < bytes; at += kWarp * 128) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
  }
}

// Kernel is a matvec_* type with
//   kRows                              activation rows it multiplies,
//   fill(p, first, n, c0, cols, smem)  puts columns [c0, c0 + cols) of items [first, first + n) there, with all threads,
//   add(part, row, c0, cols, smem, lane, sums)  adds a lane's products of those columns of a weight row.
// `chunk` columns are in shared memory at a time; where that is all of them, they stay there for all rows of the block.
template <class Kernel>
__global__ void __launch_bounds__(kMatVecThreads) matvec(const __grid_constant__ Product p, int64_t chunk) {
  extern __shared__ uint4 shared[];
  constexpr int kRows = Kernel::kRows;
  const int per_block = p.experts.slot_of != nullptr ? 1 : p.twice ? kRows / 2 : kRows;
  const int64_t first = int64_t{blockIdx.y} * per_block;
  const int64_t left = live_items(p) - first;
  if (left <= 0) return;
  const uint8_t* memory = item_memory(p, first);
  if (memory == nullptr) return;
  const int n = static_cast<int>(left < per_block ? left : per_block);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  bool filled = false;
  for (int64_t row0 = int64_t{blockIdx.x} * kMatVecWarps; row0 < p.rows; row0 += int64_t{gridDim.x} * kMatVecWarps) {
    const int64_t row = row0 + warp;
    const bool valid = row < p.rows;
    if (valid && !filled) {
      for (int i = 0; i < p.n_parts; i++)
        prefetch_row(memory + p.parts[i].offset + row * p.parts[i].row_bytes, p.parts[i].row_bytes, lane);
    }
    float first_sums[kRows];
    float sums[kRows];
    for (int i = 0; i < p.n_parts; i++) {
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        first_sums[r] = sums[r];
        sums[r] = 0;
      }
      for (int64_t c0 = 0; c0 < p.cols; c0 += chunk) {
        const int64_t cols = p.cols - c0 < chunk ? p.cols - c0 : chunk;
        if (!filled) {
          __syncthreads();
          Kernel::fill(p, first, n, c0, cols, chunk, shared);
          __syncthreads();
          filled = chunk >= p.cols;
        }
        if (!valid) continue;
        Kernel::add(p.parts[i].type, memory + p.parts[i].offset + row * p.parts[i].row_bytes, c0, cols, chunk, shared,
                    lane, sums);
      }
#pragma unroll
      for (int r = 0; r < kRows; r++) sums[r] = warp_sum(sums[r]);
      if (p.twice) {
#pragma unroll
        for (int r = 0; 2 * r + 1 < kRows; r++) sums[r] = sums[2 * r] + sums[2 * r + 1];
      }
    }
    if (!valid) continue;
    const Part& last_part = p.parts[p.n_parts - 1];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      if (lane != r || r >= n) continue;
      float gate = 0;
      if (p.n_parts == 2) gate = scaled_and_biased(p, p.parts[0], memory, row, first_sums[r]);
      finish_product(p, first + r, row, gate, scaled_and_biased(p, last_part, memory, row, sums[r]));
    }
  }
}

// Columns at a time: all, or as many whole super-blocks as there is room for.
inline int64_t matvec_chunk(int64_t cols, int64_t bytes_per_256) {
  const int64_t fit = kMatVecSharedBytes / bytes_per_256 * 256;
  return std::min((cols + 255) / 256 * 256, fit);
}

template <class Kernel>
void launch_matvec_as(const Product& p, int n_sms, cudaStream_t stream) {
  const int64_t chunk = matvec_chunk(p.cols, Kernel::kBytesPer256);
  const int per_block = p.experts.slot_of != nullptr ? 1 : p.twice ? Kernel::kRows / 2 : Kernel::kRows;
  const int64_t groups = (p.max_items + per_block - 1) / per_block;
  const int64_t row_blocks = (p.rows + kMatVecWarps - 1) / kMatVecWarps;
  // A few blocks to a multiprocessor keep enough loads under way; more would only round the activations again.
  const int64_t wanted = std::max<int64_t>(1, int64_t{n_sms} * 6 / groups);
  const dim3 grid(static_cast<unsigned>(std::min(row_blocks, wanted)), static_cast<unsigned>(groups));
  const auto shared = static_cast<size_t>(chunk / 256 * Kernel::kBytesPer256);
  matvec<Kernel><<<grid, kMatVecThreads, shared, stream>>>(p, chunk);
}

// Products of a format's integers with kR rows of rounded activations.
template <class F, int kR>
struct MatVecRounded {
  static constexpr int kRows = kR;
  static constexpr int64_t kRowBytesPer256 = 256 + 256 / 32 * 4 + 256 / 16 * 4;
  static constexpr int64_t kBytesPer256 = kRows * kRowBytesPer256;

  __device__ static RoundedRow row_at(uint4* shared, int64_t chunk, int r) {
    auto* at = reinterpret_cast<uint8_t*>(shared) + r * (chunk / 256 * kRowBytesPer256);
    auto* d = reinterpret_cast<float*>(at + chunk);
    return {reinterpret_cast<int8_t*>(at), d, d + chunk / 32};
  }

  __device__ static void fill(const Product& p, int64_t first, int n, int64_t c0, int64_t cols, int64_t chunk,
                              uint4* shared) {
    const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const int64_t spans = (cols + 255) / 256;
    for (int64_t i = warp; i < spans * kRows; i += kMatVecWarps) {
      const int r = static_cast<int>(i % kRows);
      const int64_t col = i / kRows * 256 + lane * 8;
      const int item = p.twice ? r / 2 : r;
      if (p.twice && r % 2 != 0) continue;  // comes with the row before
      Eight x{};
      if (item < n) x = load_eight(p.x + (first + item) / p.x_share * p.x_stride + c0, col, cols);
      const RoundedEight rounded = round_eight<F::kSuper>(x);
      store_rounded(row_at(shared, chunk, r), col, rounded);
      if (!p.twice) continue;
      store_rounded(row_at(shared, chunk, r + 1), col, round_eight<F::kSuper>(rest_of(x, rounded)));
    }
  }

  __device__ static void add(quant::Type, const uint8_t* weights, int64_t c0, int64_t cols, int64_t chunk,
                             uint4* shared, int lane, float (&sums)[kRows]) {
    constexpr int kUnits = F::kElems / (16 * F::kRuns);
    const int units = static_cast<int>(cols / (16 * F::kRuns));
    const uint8_t* blocks = weights + c0 / F::kElems * F::kBytes;
#pragma unroll 2
    for (int u = lane; u < units; u += kWarp) {
      const int block = u / kUnits, unit = u % kUnits;
      Run runs[F::kRuns];
      F::unpack(blocks + int64_t{block} * F::kBytes, unit, runs);
#pragma unroll
      for (int k = 0; k < F::kRuns; k++) {
        const int col = block * F::kElems + F::column(unit, k);
#pragma unroll
        for (int r = 0; r < kRows; r++) {
          const RoundedRow x = row_at(shared, chunk, r);
          const int4 codes = *reinterpret_cast<const int4*>(x.codes + col);
          int dot = __dp4a(static_cast<int>(runs[k].codes[0]), codes.x, 0);
          dot = __dp4a(static_cast<int>(runs[k].codes[1]), codes.y, dot);
          dot = __dp4a(static_cast<int>(runs[k].codes[2]), codes.z, dot);
          dot = __dp4a(static_cast<int>(runs[k].codes[3]), codes.w, dot);
          sums[r] = fmaf(runs[k].scale * x.d[col / 32], static_cast<float>(dot), sums[r]);
          if (F::kOffset) sums[r] = fmaf(runs[k].offset, x.sums[col / 16], sums[r]);
        }
      }
    }
  }
};

// By activation rows: one, two or four.
template <class F>
void launch_matvec_rounded(const Product& p, int n_sms, cudaStream_t stream) {
  const bool alone = p.experts.slot_of != nullptr || p.max_items == 1;
  const int64_t rows = (alone ? 1 : p.max_items) * (p.twice ? 2 : 1);
  if (rows == 1) return launch_matvec_as<MatVecRounded<F, 1>>(p, n_sms, stream);
  if (rows == 2) return launch_matvec_as<MatVecRounded<F, 2>>(p, n_sms, stream);
  launch_matvec_as<MatVecRounded<F, 4>>(p, n_sms, stream);
}

// Of the types of each file matvec_*.cu; false for others.
bool launch_matvec_k(const Product& p, int n_sms, cudaStream_t stream);
bool launch_matvec_blocks(const Product& p, int n_sms, cudaStream_t stream);
bool launch_matvec_iq(const Product& p, int n_sms, cudaStream_t stream);
bool launch_matvec_bits(const Product& p, int n_sms, cudaStream_t stream);
void launch_matvec_float(const Product& p, int n_sms, cudaStream_t stream);

}  // namespace strata::kernels::cuda
