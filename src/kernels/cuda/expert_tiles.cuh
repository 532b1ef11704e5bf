// Tiles of an expert's weight rows, each staged in shared memory and multiplied
// by one warp. `lanes` lanes share a row: as many as its units occupy well, so
// that a warp takes 32 / lanes rows at a time.
#pragma once

#include "kernels/cuda/experts.h"
#include "kernels/cuda/formats/format.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/rounding.cuh"
#include "kernels/cuda/staging.cuh"

namespace strata::kernels::cuda {

// A load that stays in front of the branches and loads behind it.
__device__ __forceinline__ int32_t load_now(const int32_t* from) {
  int32_t x;
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  return x;
}
__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Where an expert lies, as expert_memory() says, read past the first-level
// cache, which may be older than the tables. For one that is fetched it waits
// for the kernel in front.
__device__ __forceinline__ const uint8_t* awaited_memory(const Product& p, int32_t expert) {
  const int32_t slot = __ldcg(p.experts.slot_of + expert);
  if (slot < 0) return nullptr;
  if (slot != kLinked) return p.experts.memory + __ldcg(p.experts.offsets + slot);
  if (p.experts.fetched) wait_for_kernel_before();
  return reinterpret_cast<const uint8_t*>(__ldcg(p.experts.linked_at + expert));
}

// Brings the tables of the experts' places nearer: they were last read a token
// ago. It may run before the kernel in front is done: whatever it reads, it
// asks for places within the tables and changes nothing.
__device__ __forceinline__ void prefetch_places(const Product& p) {
  for (int64_t e = threadIdx.x; e < p.n_experts; e += blockDim.x) {
    const int32_t slot = __ldcg(p.experts.slot_of + e);
    if (slot == kLinked && p.experts.linked_at != nullptr) {
      prefetch(p.experts.linked_at + e);
    } else if (slot >= 0 && slot < p.experts.n_slots) {
      prefetch(p.experts.offsets + slot);
    }
  }
}

// What depends on the shapes alone, of all tiles of a launch.
struct TileShape {
  int units = 0;       // of a weight row
  int lanes = 0;       // that share a row, a power of two
  int groups = 0;      // of lanes in a warp
  int rows = 0;        // of a tile, of each part
  int part_bytes = 0;  // of shared memory for the rows of a part
  int row_stride = 0;  // bytes from one rounded activation row to the next
  int row_bytes = 0;   // of a weight row
};

template <class F>
inline constexpr int kUnitColumns = 16 * F::kRuns;

// Lanes a row: the most that are idle for less than a tenth of the rounds, or
// whatever leaves the fewest idle.
inline int lanes_of_row(int units) {
  int best = 1;
  double best_share = 0;
  for (int lanes = kWarp; lanes >= 1; lanes /= 2) {
    const int rounds = (units + lanes - 1) / lanes;
    const double share = static_cast<double>(units) / (rounds * lanes);
    if (share > 0.9) return lanes;
    if (share <= best_share) continue;
    best = lanes;
    best_share = share;
  }
  return best;
}

// Codes of activations lie with a gap behind each 64, so that lanes that read
// neighbouring units meet different banks.
__host__ __device__ constexpr int spread(int col) { return col + col / 64 * 16; }

// A rounded row in shared memory, and the sums of each 16 codes without their
// scale.
struct StagedRow : RoundedRow {
  int16_t* code_sums;
};

// Bytes of a rounded row of `cols` columns: codes, then a scale for each 32 and
// both kinds of sums for each 16 of them.
inline int64_t rounded_row_bytes(int64_t cols) {
  return (cols + 255) / 256 * (spread(256) + 256 / 32 * 4 + 256 / 16 * (4 + 2));
}

__device__ __forceinline__ StagedRow rounded_row(uint8_t* at, int64_t cols) {
  const int padded = static_cast<int>(cols + 255) / 256 * 256;
  auto* d = reinterpret_cast<float*>(at + spread(padded));
  float* sums = d + padded / 32;
  return {{reinterpret_cast<int8_t*>(at), d, sums}, reinterpret_cast<int16_t*>(sums + padded / 16)};
}

// rounds: rows of each part that a lane has to do with.
template <class F>
TileShape tile_shape(const Product& p, int rounds) {
  TileShape shape;
  shape.units = static_cast<int>(p.cols / kUnitColumns<F>);
  shape.lanes = lanes_of_row(shape.units);
  shape.groups = kWarp / shape.lanes;
  shape.rows = rounds * shape.groups;
  shape.row_bytes = static_cast<int>(p.parts[0].row_bytes);
  shape.part_bytes = static_cast<int>(staged_bytes(shape.rows * static_cast<int64_t>(p.parts[0].row_bytes)));
  shape.row_stride = static_cast<int>(rounded_row_bytes(p.cols));
  return shape;
}

// Where the first of the rows from `first` on of a part lies.
__device__ __forceinline__ const uint8_t* tile_at(const Part& part, const uint8_t* memory, int first,
                                                  const TileShape& shape) {
  return memory + part.offset + static_cast<int64_t>(first) * shape.row_bytes;
}

// Begins to copy the rows from `first` on of a part, those there are.
__device__ __forceinline__ void stage_tile(const Product& p, const Part& part, const uint8_t* memory, int first,
                                           const TileShape& shape, const WarpStage& stage, uint8_t* to) {
  const int rows = min(shape.rows, static_cast<int>(p.rows) - first);
  if (rows > 0) stage.copy(to, tile_at(part, memory, first, shape), static_cast<unsigned>(rows * shape.row_bytes));
}

// The activations of a unit, in registers.
template <class F>
struct UnitInputs {
  static constexpr int kMerged = F::kGroup / 16;  // runs that share a scale
  int4 codes[F::kRuns];
  float d[F::kSuper ? 1 : F::kRuns / kMerged];
  float sums[F::kOffset ? F::kRuns / kMerged : 1];

  __device__ __forceinline__ UnitInputs(const RoundedRow& x, int first, int unit) {
#pragma unroll
    for (int k = 0; k < F::kRuns; k++) {
      codes[k] = *reinterpret_cast<const int4*>(x.codes + spread(first + F::column(unit, k)));
    }
    if constexpr (F::kSuper) d[0] = x.d[first / 32];
#pragma unroll
    for (int k = 0; k < F::kRuns; k += kMerged) {
      const int col = first + F::column(unit, k);
      if constexpr (!F::kSuper) d[k / kMerged] = x.d[col / 32];
      if constexpr (F::kOffset) {
        sums[k / kMerged] = kMerged == 2 ? x.sums[col / 16] + x.sums[col / 16 + 1] : x.sums[col / 16];
      }
    }
  }

  __device__ __forceinline__ static int dot16(const Run& run, const int4& x, int dot) {
    dot = __dp4a(static_cast<int>(run.codes[0]), x.x, dot);
    dot = __dp4a(static_cast<int>(run.codes[1]), x.y, dot);
    dot = __dp4a(static_cast<int>(run.codes[2]), x.z, dot);
    return __dp4a(static_cast<int>(run.codes[3]), x.w, dot);
  }

  // `sum` and the products with the runs of a weight row's unit.
  __device__ __forceinline__ float add(const Run (&runs)[F::kRuns], float sum) const {
    float scaled = F::kSuper ? 0 : sum;
#pragma unroll
    for (int k = 0; k < F::kRuns; k += kMerged) {
      int dot = dot16(runs[k], codes[k], 0);
      if constexpr (kMerged == 2) dot = dot16(runs[k + 1], codes[k + 1], dot);
      const float scale = F::kSuper ? runs[k].scale : runs[k].scale * d[k / kMerged];
      scaled = fmaf(scale, static_cast<float>(dot), scaled);
    }
    sum = F::kSuper ? fmaf(scaled, d[0], sum) : scaled;
    if constexpr (F::kOffset) {
#pragma unroll
      for (int k = 0; k < F::kRuns; k += kMerged) sum = fmaf(runs[k].offset, sums[k / kMerged], sum);
    }
    return sum;
  }
};

// A lane's part of products with a rounded row: the activations of unit u, and
// what they add to the sum of a staged row.
template <class F, class Bytes>
class LaneUnit {
 public:
  __device__ __forceinline__ LaneUnit(const StagedRow& x, int u) : inputs_(x, u / kOfBlock * F::kElems, u % kOfBlock) {}

  __device__ __forceinline__ float add(Bytes row, int u, float sum) const {
    Run runs[F::kRuns];
    F::unpack(row + u / kOfBlock * F::kBytes, u % kOfBlock, runs);
    return inputs_.add(runs, sum);
  }

 private:
  static constexpr int kOfBlock = F::kElems / kUnitColumns<F>;
  UnitInputs<F> inputs_;
};

// Rounds columns [256 span, 256 (span + 1)) of a float row, of which a lane has
// eight, by a warp.
template <class F>
__device__ __forceinline__ void round_span(const Eight& x, int span, const StagedRow& to, int lane) {
  const int col = span * 256 + lane * 8;
  const RoundedEight rounded = round_eight<F::kSuper>(x);
  *reinterpret_cast<uint2*>(to.codes + spread(col)) = make_uint2(rounded.codes[0], rounded.codes[1]);
  if (col % 32 == 0) to.d[col / 32] = rounded.d;
  if (col % 16 == 0) {
    to.sums[col / 16] = rounded.d * static_cast<float>(rounded.sum);
    to.code_sums[col / 16] = static_cast<int16_t>(rounded.sum);
  }
}

template <class Kernel>
bool grant_shared(Kernel* kernel, size_t bytes, size_t most) {
  if (bytes > most) return false;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  // The same share for all of them, or one could not start beside another.
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  return true;
}

}  // namespace strata::kernels::cuda
