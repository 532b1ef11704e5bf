// The matrix-vector kernels: a frame that knows no format, instantiated with how activations lie in shared memory and
// how a lane multiplies its units of a weight row.
#pragma once

#include <algorithm>

#include "kernels/cuda/formats/format.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matvec.h"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/rounding.cuh"

namespace strata::kernels::cuda {

inline constexpr int kMatVecWarps = 8;
inline constexpr int kMatVecThreads = kMatVecWarps * kWarp;
// Of activations in shared memory; few enough that no launch has to ask for more than is granted anyway.
inline constexpr int64_t kMatVecSharedBytes = 45 * 1024;

// Of these, what 256 rounded activations take: codes, scales and sums.
inline constexpr int kRoundedBytesPer256 = 256 + 256 / 32 * 4 + 256 / 16 * 4;

// Weight rows that a warp multiplies together: neighbours, or a row of each of two parts.
inline constexpr int kTogether = 2;

// Asks for a weight row ahead of its loads, by `lanes` lanes.
__device__ __forceinline__ void prefetch_row(const uint8_t* row, size_t bytes, unsigned lane, unsigned lanes) {
  for (unsigned at = lane * 128; at < bytes; at += lanes * 128) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
  }
}

struct WeightRows {
  const uint8_t* at[kTogether];
};
// The rows of slot s: of its kTogether places those past the last row stand for that one. `memory`: of the experts.
__device__ __forceinline__ WeightRows rows_of_slot(const Product& p, const uint8_t* memory, int64_t slot) {
  WeightRows rows;
#pragma unroll
  for (int o = 0; o < kTogether; o++) {
    const Part& part = p.parts[p.n_parts == 2 ? o : 0];
    const int64_t row = p.n_parts == 2 ? slot : min(kTogether * slot + o, p.rows - 1);
    if (p.experts.slot_of == nullptr) rows.at[o] = model_row(p, row).at;
    else rows.at[o] = memory + part.offset + row * part.row_bytes;
  }
  return rows;
}
__host__ __device__ __forceinline__ int64_t weight_slots(const Product& p) {
  return p.n_parts == 2 ? p.rows : (p.rows + kTogether - 1) / kTogether;
}

// Puts a slot's sums where they belong; value o * kRows + r, of weight row o and activation row r, is in those of the
// slot's kLanes lanes that warp_sums() leaves it in. All lanes of the warp take part.
template <int kRows, int kLanes>
__device__ __forceinline__ void finish_slot(const Product& p, const uint8_t* memory, int64_t slot, bool valid,
                                            int64_t first, int n, float sum, int lane) {
  constexpr int kOfValue = kLanes / (kTogether * kRows);
  const int o = lane % kLanes / kOfValue / kRows;
  int r = lane % kLanes / kOfValue % kRows;
  valid = valid && lane % kOfValue == 0;
  if (p.twice) {
    sum += __shfl_xor_sync(kAllLanes, sum, kOfValue);
    valid = valid && r % 2 == 0;
    r /= 2;
  }
  const float other = __shfl_xor_sync(kAllLanes, sum, kLanes / kTogether);
  if (!valid || r >= n) return;
  if (p.n_parts == 2) {
    if (o != 0) return;
    const float gate = scaled_and_biased(p, p.parts[0], memory, slot, sum);
    return finish_product(p, first + r, slot, gate, scaled_and_biased(p, p.parts[1], memory, slot, other));
  }
  const int64_t row = kTogether * slot + o;
  if (row < p.rows) finish_product(p, first + r, row, 0, scaled_and_biased(p, p.parts[0], memory, row, sum));
}

// Kernel is a type with
//   kRows, kBlocks                     activation rows it multiplies; blocks of a multiprocessor that it leaves
//                                      registers for,
//   kLanes                             lanes that a slot has: a warp, or half of one where rows are short,
//   Held, kHeldEarly                   what a lane has of a slot's weights at a time; whether it is so little that it
//                                      is loaded before there are activations,
//   hold(rows, c0, cols, begin, step, held)  loads that: the first of every step-th unit of columns [c0, c0 + cols),
//   fill(p, first, n, c0, cols, ...)   puts these columns of items [first, first + n) there, by all threads,
//   add(type, rows, c0, cols, ..., begin, step, held, sums)  adds the products of every step-th unit.
// `chunk` columns are in shared memory at a time; where that is all of them, they stay there for all rows of the block.
// `share` warps divide the columns of a slot among themselves: where there are few rows, that fills the device.
//
// Until the kernel before is done, a block of a model's product loads the weights of its first slots into registers, or
// asks for them, and asks for the next ones: where a few matrices fill the device, their bytes are there when their
// input is.
template <class Kernel>
__global__ void __launch_bounds__(kMatVecThreads, Kernel::kBlocks)
    matvec(const __grid_constant__ Product p, int chunk, int share) {
  extern __shared__ uint4 shared[];
  __shared__ float parts[kMatVecWarps][kWarp];
  constexpr int kRows = Kernel::kRows, kLanes = Kernel::kLanes;
  start_kernel_behind();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int slots_of_block = kMatVecThreads / kLanes / share, part = warp % share;
  const int own = static_cast<int>(threadIdx.x) / kLanes / share;  // slot of the block's
  const int n_slots = static_cast<int>(weight_slots(p)), n_cols = static_cast<int>(p.cols);
  const int begin = part * kLanes + lane % kLanes, step = share * kLanes;
  const auto prefetch = [&](const uint8_t* memory, int slot) {
    if (slot >= n_slots || part != 0) return;
    const WeightRows rows = rows_of_slot(p, memory, slot);
    for (int o = 0; o < kTogether; o++) {
      prefetch_row(rows.at[o], p.parts[p.n_parts == 2 ? o : 0].row_bytes, lane % kLanes, kLanes);
    }
  };
  const bool experts = p.experts.slot_of != nullptr;
  const int stride = static_cast<int>(gridDim.x) * slots_of_block;
  int slot0 = static_cast<int>(blockIdx.x) * slots_of_block;
  typename Kernel::Held held;
  const bool held_early = Kernel::kHeldEarly && !experts;
  if (!experts) {
    const WeightRows rows = rows_of_slot(p, p.memory, min(slot0 + own, n_slots - 1));
    if (held_early) Kernel::hold(rows, 0, min(n_cols, chunk), begin, step, held);
    else prefetch(p.memory, slot0 + own);
    prefetch(p.memory, slot0 + own + stride);
  }
  wait_for_kernel_before();

  const int per_block = experts ? 1 : p.twice ? kRows / 2 : kRows;
  const int64_t first = int64_t{blockIdx.y} * per_block;
  const int32_t expert = experts ? expert_id(p, first) : 0;  // beside the number of live rows, which says if it is one
  const int64_t left = live_items(p) - first;
  if (left <= 0) return;
  const uint8_t* memory = experts ? expert_memory(p, expert) : p.memory;
  if (memory == nullptr) return;
  if (experts) prefetch(memory, slot0 + own);
  const int n = static_cast<int>(left < per_block ? left : per_block);
  bool filled = false;
  for (bool is_held = held_early; slot0 < n_slots; slot0 += stride, is_held = false) {
    const int slot = slot0 + own;
    const bool valid = slot < n_slots;
    prefetch(memory, slot + stride);
    const WeightRows rows = rows_of_slot(p, memory, valid ? slot : 0);
    float sums[kTogether * kRows] = {};
    for (int c0 = 0; c0 < n_cols; c0 += chunk) {
      const int cols = n_cols - c0 < chunk ? n_cols - c0 : chunk;
      if (!filled) {
        __syncthreads();
        Kernel::fill(p, first, n, c0, cols, chunk, shared);
        __syncthreads();
        filled = chunk >= n_cols;
      }
      if (!valid) continue;
      if (c0 > 0 || !is_held) Kernel::hold(rows, c0, cols, begin, step, held);
      Kernel::add(p.parts[0].type, rows, c0, cols, chunk, shared, begin, step, held, sums);
    }
    float sum = warp_sums<kTogether * kRows, kLanes / 2>(sums, lane);
    if (share > 1) {
      parts[warp][lane] = sum;
      __syncthreads();
      for (int i = 1; i < share && part == 0; i++) sum += parts[warp + i][lane];
      __syncthreads();
    }
    finish_slot<kRows, kLanes>(p, memory, slot, valid && part == 0, first, n, sum, lane);
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
  // Blocks that fill a multiprocessor three times over keep enough loads under way; more of them would only round the
  // activations again. All of them get about as many rows.
  const int64_t wanted = std::max<int64_t>(1, int64_t{n_sms} * 3 / groups);
  const int64_t warps = wanted * kMatVecWarps;
  int share = 1;
  while (Kernel::kLanes == kWarp && share < kMatVecWarps && weight_slots(p) * share * 2 <= warps &&
         p.cols >= 512 * share) {
    share *= 2;
  }
  const int64_t slots_of_block = kMatVecThreads / Kernel::kLanes / share;
  const int64_t blocks = (weight_slots(p) + slots_of_block - 1) / slots_of_block;
  const int64_t rounds = (blocks + wanted - 1) / wanted;
  const dim3 grid(static_cast<unsigned>((blocks + rounds - 1) / rounds), static_cast<unsigned>(groups));
  const auto shared = static_cast<size_t>(chunk / 256 * Kernel::kBytesPer256);
  launch_after(matvec<Kernel>, grid, kMatVecThreads, shared, stream, p, static_cast<int>(chunk), share);
}

// Sums of squares of the pieces of 256 columns of all rows in shared memory, piece by piece for a row after another.
inline constexpr int kMostPieces = 128;
__device__ __forceinline__ float* piece_squares() {
  __shared__ float squares[kMostPieces];
  return squares;
}
__device__ __forceinline__ void add_squares(const Eight& x, int piece, int lane) {
  float squares = 0;
#pragma unroll
  for (const float v : x.v) squares = fmaf(v, v, squares);
  squares = warp_sum(squares);
  if (lane == 0) piece_squares()[piece] = squares;
}
__device__ __forceinline__ float norm_factor(const Product& p, int row, int rows, int pieces) {
  float squares = 0;
  for (int i = row; i < pieces; i += rows) squares += piece_squares()[i];
  return 1.0f / sqrtf(squares / static_cast<float>(p.cols) + p.eps);
}
__device__ __forceinline__ Eight normed(const Eight& x, const Eight& gain, float factor) {
  Eight y;
#pragma unroll
  for (int i = 0; i < 8; i++) y.v[i] = x.v[i] * factor * gain.v[i];
  return y;
}

// Products of a format's integers with kR rows of rounded activations.
template <class F, int kR, int kSlotLanes = kWarp>
struct MatVecRounded {
  static constexpr int kRows = kR;
  static constexpr int kLanes = kSlotLanes;
  static constexpr int kRowBytesPer256 = kRoundedBytesPer256;
  static constexpr int kBytesPer256 = kRows * kRowBytesPer256;

  __device__ static RoundedRow row_at(uint4* shared, int chunk, int r) {
    auto* at = reinterpret_cast<uint8_t*>(shared) + r * (chunk / 256 * kRowBytesPer256);
    auto* d = reinterpret_cast<float*>(at + chunk);
    return {reinterpret_cast<int8_t*>(at), d, d + chunk / 32};
  }

  __device__ static void fill(const Product& p, int64_t first, int n, int c0, int cols, int chunk,
                              uint4* shared) {
    const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const int copies = p.twice ? 2 : 1, rows = kRows / copies;  // rows are items, and their rest is the row behind
    const int pieces = (cols + 255) / 256 * rows;
    const auto eight_of = [&](int i) {
      if (i >= pieces || i % rows >= n) return Eight{};
      return load_eight(p.x + (first + i % rows) / p.x_share * p.x_stride + c0, i / rows * 256 + lane * 8, cols);
    };
    const auto store = [&](int i, const Eight& x) {
      const int r = i % rows * copies, col = i / rows * 256 + lane * 8;
      const RoundedEight rounded = round_eight<F::kSuper>(x);
      store_rounded(row_at(shared, chunk, r), col, rounded);
      if (p.twice) store_rounded(row_at(shared, chunk, r + 1), col, round_eight<F::kSuper>(rest_of(x, rounded)));
    };
    if (p.gain != nullptr) {
      for (int i = warp; i < pieces; i += kMatVecWarps) add_squares(eight_of(i), i, lane);
      __syncthreads();
      for (int i = warp; i < pieces; i += kMatVecWarps) {
        const Eight x = eight_of(i), gain = load_eight(p.gain, i / rows * 256 + lane * 8, cols);
        store(i, normed(x, gain, norm_factor(p, i % rows, rows, pieces)));
      }
      return;
    }
    Eight next = eight_of(warp);
    for (int i = warp; i < pieces; i += kMatVecWarps) {
      const Eight x = next;
      next = eight_of(i + kMatVecWarps);  // on its way while this one is rounded
      store(i, x);
    }
  }

  __device__ __forceinline__ static int dot16(const Run& run, const int8_t* codes, int dot) {
    const int4 x = *reinterpret_cast<const int4*>(codes);
    dot = __dp4a(static_cast<int>(run.codes[0]), x.x, dot);
    dot = __dp4a(static_cast<int>(run.codes[1]), x.y, dot);
    dot = __dp4a(static_cast<int>(run.codes[2]), x.z, dot);
    return __dp4a(static_cast<int>(run.codes[3]), x.w, dot);
  }

  // The products of one unit with an activation row, without the scale of the activations where that waits.
  __device__ __forceinline__ static float unit_product(const Run (&runs)[F::kRuns], const RoundedRow& x, int first,
                                                       int unit, float sum) {
    constexpr int kMerged = F::kGroup / 16;  // runs that share a scale
    float scaled = F::kSuper ? 0 : sum;
#pragma unroll
    for (int k = 0; k < F::kRuns; k += kMerged) {
      const int col = first + F::column(unit, k);
      int dot = dot16(runs[k], x.codes + col, 0);
      if constexpr (kMerged == 2) dot = dot16(runs[k + 1], x.codes + col + 16, dot);
      const float scale = F::kSuper ? runs[k].scale : runs[k].scale * x.d[col / 32];
      scaled = fmaf(scale, static_cast<float>(dot), scaled);
    }
    if constexpr (F::kSuper) sum = fmaf(scaled, x.d[first / 32], sum);
    else sum = scaled;
    if constexpr (F::kOffset) {
#pragma unroll
      for (int k = 0; k < F::kRuns; k += kMerged) {
        const float* sums = x.sums + (first + F::column(unit, k)) / 16;
        sum = fmaf(runs[k].offset, kMerged == 2 ? sums[0] + sums[1] : sums[0], sum);
      }
    }
    return sum;
  }

  // 64 columns of a lane, whatever the format.
  static constexpr int kHeld = 4 / F::kRuns;
  struct Held {
    Run runs[kHeld][kTogether][F::kRuns];
  };
  // In registers, of which a lane has 80 when a multiprocessor holds three blocks.
  static constexpr int kHeldWords =
      kHeld * kTogether * F::kRuns * (4 + (F::kOffset ? 2 : 1) * 16 / F::kGroup);
  static constexpr bool kHeldEarly = kRows <= 2 && kHeldWords <= 40;
  static constexpr int kBlocks = kHeldEarly ? 3 : 2;  // of a multiprocessor: with three, Q6_K spills (137 us for 125)
  static constexpr int kUnits = F::kElems / (16 * F::kRuns);  // of a block

  __device__ static void hold(const WeightRows& rows, int c0, int cols, int begin, int step, Held& held) {
    const int units = cols / (16 * F::kRuns);
    const int64_t skipped = int64_t{c0 / F::kElems} * F::kBytes;
#pragma unroll
    for (int h = 0; h < kHeld; h++) {
      const int u = begin + h * step;
      if (u >= units) break;
#pragma unroll
      for (int o = 0; o < kTogether; o++) {
        F::unpack(rows.at[o] + skipped + u / kUnits * F::kBytes, u % kUnits, held.runs[h][o]);
      }
    }
  }

  __device__ static void add(quant::Type, const WeightRows& rows, int c0, int cols, int chunk,
                             uint4* shared, int begin, int step, Held& held, float (&sums)[kTogether * kRows]) {
    const int units = cols / (16 * F::kRuns);
    for (int first = begin; first < units; first += kHeld * step) {
      if (first != begin) hold(rows, c0, cols, first, step, held);
#pragma unroll
      for (int h = 0; h < kHeld; h++) {
        const int u = first + h * step;
        if (u >= units) break;
#pragma unroll
        for (int r = 0; r < kRows; r++) {
          const RoundedRow x = row_at(shared, chunk, r);
#pragma unroll
          for (int o = 0; o < kTogether; o++) {
            float& sum = sums[o * kRows + r];
            sum = unit_product(held.runs[h][o], x, u / kUnits * F::kElems, u % kUnits, sum);
          }
        }
      }
    }
  }
};

// Activation rows that a block multiplies together: one, two or four.
inline int64_t matvec_rows(const Product& p) {
  const bool alone = p.experts.slot_of != nullptr || p.max_items == 1;
  const int64_t rows = (alone ? 1 : p.max_items) * (p.twice ? 2 : 1);
  return rows <= 2 ? rows : 4;
}
template <class F>
void launch_matvec_rounded(const Product& p, int n_sms, cudaStream_t stream) {
  const int64_t rows = matvec_rows(p);
  const bool is_short = p.cols <= int64_t{kWarp / 2} * 16 * F::kRuns;
  if (rows == 1 && is_short) return launch_matvec_as<MatVecRounded<F, 1, kWarp / 2>>(p, n_sms, stream);
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
