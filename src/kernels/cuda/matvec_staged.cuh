// Products of up to four rounded rows with a model's matrices where a copy engine brings weights into shared memory
// (from sm_90 on). Each warp has a ring of weight rows there: what is under way takes no registers, and all that the
// rings hold is asked for before the kernel in front is done. One block a multiprocessor, so that activations are
// rounded once there and the rings of the next kernels find room.
#pragma once

#include <algorithm>

#include "kernels/cuda/formats/lane_unit.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/rounding.cuh"
#include "kernels/cuda/staging.cuh"

namespace strata::kernels::cuda {

inline constexpr int kStagedWarps = 16;
inline constexpr int kMostStages = 12;
inline constexpr int kStagedPieces = 256;        // of 256 columns, of all activation rows, at most
inline constexpr int kStagedStaticBytes = 4096;  // of a block's shared memory, for what is not in rings, at most

struct StagedShape {
  int rows;      // of all matrices
  int of_block;  // of them a block has, the first `longer` blocks one more
  int longer;
  int units;     // of a weight row
  int row_room;  // bytes of shared memory that a weight row takes
  int stages;    // weight rows of a warp's ring
  int x_room;    // bytes of shared memory that a rounded row takes
  int x_cols;    // of it: those of the matrix, whole 256
  bool biased;   // some matrix has a bias
};

// A warp's weight rows under way. One lane asks for them, and all wait.
class RowRing {
 public:
  __device__ __forceinline__ RowRing(uint64_t* barriers, int stages, int lane)
      : barriers_(static_cast<unsigned>(__cvta_generic_to_shared(barriers))) {
#if __CUDA_ARCH__ >= 900
    if (lane == 0) {
      for (int i = 0; i < stages; i++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers_ + 8 * i) : "memory");
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
#endif
  }

  // By one lane: fills a stage, which lies at a multiple of sixteen, with the sixteens around `bytes` bytes. Byte i of
  // them comes to to[into_sixteen(from) + i].
  __device__ __forceinline__ void fill(int stage, uint8_t* to, const uint8_t* from, unsigned bytes) const {
#if __CUDA_ARCH__ >= 900
    const unsigned into = into_sixteen(from), whole = (into + bytes + 15) / 16 * 16;
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(barriers_ + 8 * stage),
                 "r"(whole)
                 : "memory");
    copy_once(shared, from - into, whole, barriers_ + 8 * stage);
#endif
  }
  // Until the n-th filling of a stage is there.
  __device__ __forceinline__ void wait(int stage, int nth) const {
#if __CUDA_ARCH__ >= 900
    unsigned done = 0;
    while (done == 0) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(barriers_ + 8 * stage), "r"(nth & 1)
                   : "memory");
    }
#endif
  }

 private:
  unsigned barriers_;
};

__device__ __forceinline__ float sum_of_squares(const Eight& x) {
  float squares = 0;
#pragma unroll
  for (const float v : x.v) squares = fmaf(v, v, squares);
  return warp_sum(squares);
}

// The factor of an item's norm from the sums of its pieces, which are every items-th.
__device__ __forceinline__ float norm_factor(const Product& p, const float* squares, int item, int items, int pieces) {
  constexpr int kAtOnce = 8;
  float sum = 0;
#pragma unroll 1
  for (int k0 = item; k0 < pieces; k0 += kAtOnce * items) {
    float some[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) some[j] = k0 + j * items < pieces ? squares[k0 + j * items] : 0;
#pragma unroll
    for (const float of_piece : some) sum += of_piece;
  }
  return 1.0f / sqrtf(sum / static_cast<float>(p.cols) + p.eps);
}

// Norms and rounds the items into `rows`, by all threads, live or not: what there is of live ones is not known yet.
// With p.twice each item is two rows.
template <class Unit, class F, int kRows>
__device__ __forceinline__ void round_items(const Product& p, const StagedShape& shape, const Eight& gain_ahead,
                                            uint8_t* rows) {
  __shared__ float squares[kStagedPieces];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  const int copies = kRows > 1 && p.twice ? 2 : 1, items = kRows / copies;
  const int pieces = shape.x_cols / 256 * items, cols = static_cast<int>(p.cols);
  const auto load = [&](int i) {
    if (i >= pieces || i % items >= p.max_items) return Eight{};
    return load_eight(p.x + i % items * p.x_stride, i / items * 256 + lane * 8, cols);
  };
  const Eight own = load(warp);
  if (p.gain != nullptr) {
#pragma unroll 1
    for (int i = warp; i < pieces; i += warps) {
      const float sum = sum_of_squares(i == warp ? own : load(i));
      if (lane == 0) squares[i] = sum;
    }
    __syncthreads();
  }
#pragma unroll 1
  for (int i = warp; i < pieces; i += warps) {
    Eight x = i == warp ? own : load(i);
    const int item = i % items, col = i / items * 256 + lane * 8;
    if (p.gain != nullptr) {
      const float factor = norm_factor(p, squares, item, items, pieces);
      const Eight gain = i == warp && items == 1 ? gain_ahead : load_eight(p.gain, col, cols);
#pragma unroll
      for (int e = 0; e < 8; e++) x.v[e] = x.v[e] * factor * gain.v[e];
    }
    const RoundedEight rounded = round_eight<F::kSuper>(x);
    Unit::store(rows + item * copies * shape.x_room, shape.x_cols, col, rounded);
    if (copies == 1) continue;
    Unit::store(rows + (item * copies + 1) * shape.x_room, shape.x_cols, col,
                round_eight<F::kSuper>(rest_of(x, rounded)));
  }
}

// Which item's product with a weight row a lane has once they are summed, and what is added to it.
template <int kRows>
struct RowProduct {
  static constexpr int kOfValue = kWarp / kRows;
  int item;
  float* y = nullptr;  // null: none
  float before = 0;

  __device__ __forceinline__ RowProduct(const Product& p, bool biased, int row, int lane)
      : item(lane / kOfValue / (kRows > 1 && p.twice ? 2 : 1)) {
    if (lane % kOfValue != 0 || item >= p.max_items || row >= p.rows) return;
    if (kRows > 1 && p.twice && lane / kOfValue % 2 != 0) return;
    y = p.y + item * p.y_stride + row;
    if (p.finish == Finish::kAdd) before = *y;
    if (!biased) return;
    const float* bias = model_row(p, row).bias;
    if (bias != nullptr) before += *bias;
  }
  // sums: of a lane, of each activation row. The first `live` items are.
  __device__ __forceinline__ void finish(const Product& p, int live, int lane, float (&sums)[kRows]) const {
    float sum = warp_sums<kRows>(sums, lane);
    if (kRows > 1 && p.twice) sum += __shfl_xor_sync(kAllLanes, sum, kOfValue);
    if (y != nullptr && item < live) *y = before + sum;
  }
};

// A block has neighbouring weight rows, and each of its warps every kStagedWarps-th of them. kOneUnit: there is one
// activation row, and no lane has more than one unit of a weight row.
template <class F, int kRows, bool kOneUnit>
__global__ void __launch_bounds__(kStagedWarps* kWarp, 2)
    matvec_staged(const __grid_constant__ Product p, const __grid_constant__ StagedShape shape) {
  using Unit = LaneUnit<F>;
  using Inputs = typename Unit::Inputs;
  using Weights = typename Unit::Weights;
  extern __shared__ __align__(16) uint8_t shared_bytes[];
  __shared__ uint64_t barriers[kStagedWarps][kMostStages];
  start_kernel_behind();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  const int block = static_cast<int>(blockIdx.x), begin = block * shape.of_block + min(block, shape.longer);
  const int end = begin + shape.of_block + (block < shape.longer ? 1 : 0), first = begin + warp;
  uint8_t* stages = shared_bytes + kRows * shape.x_room + warp * shape.stages * shape.row_room;
  const RowRing ring(barriers[warp], shape.stages, lane);
  const auto ask = [&](int stage, int row) {
    if (lane != 0 || row >= end) return;
    ring.fill(stage, stages + stage * shape.row_room, model_row(p, row).at,
              static_cast<unsigned>(p.parts[0].row_bytes));
  };
#pragma unroll 1
  for (int s = 0; s < shape.stages; s++) ask(s, first + s * warps);
  Eight gain{};
  if (p.gain != nullptr) gain = load_eight(p.gain, threadIdx.x * 8, p.cols);
  wait_for_kernel_before();

  const int live = static_cast<int>(live_items(p));
  RowProduct<kRows> product(p, shape.biased, first < end ? first : shape.rows, lane);
  round_items<Unit, F, kRows>(p, shape, gain, shared_bytes);
  __syncthreads();

  const auto multiply = [&](const auto& add_row) {
    int stage = 0, nth = 0;
#pragma unroll 1
    for (int row = first; row < end; row += warps) {
      const uint8_t* weights = stages + stage * shape.row_room;
      if (Unit::kAlignment != 16) weights += into_sixteen(model_row(p, row).at);
      if (row != first) product = RowProduct<kRows>(p, shape.biased, row, lane);
      ring.wait(stage, nth);
      float sums[kRows] = {};
      add_row(weights, sums);
      __syncwarp();
      ask(stage, row + shape.stages * warps);
      product.finish(p, live, lane, sums);
      if (++stage < shape.stages) continue;
      stage = 0;
      nth++;
    }
  };
  if constexpr (kOneUnit) {
    const Inputs inputs(shared_bytes, shape.x_cols, min(lane, shape.units - 1));
    multiply([&](const uint8_t* weights, float(&sums)[kRows]) {
      if (lane < shape.units) sums[0] = Unit::dot(Weights(weights, lane), inputs, 0);
    });
  } else {
    multiply([&](const uint8_t* weights, float(&sums)[kRows]) {
#pragma unroll 1
      for (int u = lane; u < shape.units; u += kWarp) {
        const Weights own(weights, u);
#pragma unroll
        for (int r = 0; r < kRows; r++) {
          sums[r] = Unit::dot(own, Inputs(shared_bytes + r * shape.x_room, shape.x_cols, u), sums[r]);
        }
      }
    });
  }
}

// How a product is laid out; no stages: shared memory has no room for one.
template <class F, int kRows>
StagedShape staged_shape(const Product& p, int blocks, size_t max_shared_bytes) {
  using Unit = LaneUnit<F>;
  const int64_t row_bytes = static_cast<int64_t>(p.parts[0].row_bytes);
  StagedShape shape{};
  shape.rows = static_cast<int>(p.rows);
  shape.of_block = shape.rows / blocks;
  shape.longer = shape.rows % blocks;
  shape.units = static_cast<int>(p.cols / Unit::kColumns);
  shape.row_room = static_cast<int>(Unit::kAlignment == 16 ? row_bytes : staged_bytes(row_bytes));
  shape.x_cols = static_cast<int>((p.cols + 255) / 256 * 256);
  shape.x_room = static_cast<int>(Unit::row_bytes(shape.x_cols));
  shape.biased = p.bias != nullptr;
  for (const Below& below : p.below) shape.biased = shape.biased || below.bias != nullptr;
  const int64_t of_block = (p.rows + blocks - 1) / blocks, of_warp = (of_block + kStagedWarps - 1) / kStagedWarps;
  const int64_t room = static_cast<int64_t>(max_shared_bytes) - kStagedStaticBytes - kRows * shape.x_room;
  shape.stages = static_cast<int>(std::min<int64_t>({room / (kStagedWarps * shape.row_room), kMostStages, of_warp}));
  return shape;
}

template <class F, int kRows, bool kOneUnit>
void launch_matvec_rings(const Product& p, const StagedShape& shape, int blocks, size_t max_shared_bytes,
                         cudaStream_t stream) {
  const auto kernel = matvec_staged<F, kRows, kOneUnit>;
  const auto shared =
      static_cast<size_t>(kRows * shape.x_room) + static_cast<size_t>(kStagedWarps * shape.stages * shape.row_room);
  // The same for all launches, or one in a graph might find less granted than when it was captured.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(max_shared_bytes) - kStagedStaticBytes);
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  launch_after(kernel, dim3(static_cast<unsigned>(blocks)), kStagedWarps * kWarp, shared, stream, p, shape);
}

template <class F, int kRows>
bool launch_matvec_staged_as(const Product& p, int n_sms, size_t max_shared_bytes, cudaStream_t stream) {
  const int blocks = static_cast<int>(std::min<int64_t>(n_sms, p.rows));
  const StagedShape shape = staged_shape<F, kRows>(p, blocks, max_shared_bytes);
  if (shape.stages < 1 || shape.x_cols / 256 * kRows > kStagedPieces) return false;
  if constexpr (kRows == 1) {
    if (shape.units <= kWarp) {
      launch_matvec_rings<F, 1, true>(p, shape, blocks, max_shared_bytes, stream);
      return true;
    }
  }
  launch_matvec_rings<F, kRows, false>(p, shape, blocks, max_shared_bytes, stream);
  return true;
}

// Whether the rows of all matrices are aligned as their unit wants them.
template <class F>
bool staged_rows_fit(const Product& p) {
  constexpr uintptr_t kMask = LaneUnit<F>::kAlignment - 1;
  uintptr_t bits = reinterpret_cast<uintptr_t>(p.memory) | p.parts[0].row_bytes;
  for (const Below& below : p.below) bits |= reinterpret_cast<uintptr_t>(below.memory);
  return (bits & kMask) == 0 && p.cols % LaneUnit<F>::kColumns == 0;
}

template <class F>
bool launch_matvec_staged_of(const Product& p, int n_sms, size_t max_shared_bytes, cudaStream_t stream) {
  if (!staged_rows_fit<F>(p) || (p.finish != Finish::kStore && p.finish != Finish::kAdd)) return false;
  const int64_t rows = p.max_items * (p.twice ? 2 : 1);
  if (rows == 1) return launch_matvec_staged_as<F, 1>(p, n_sms, max_shared_bytes, stream);
  if (rows == 2) return launch_matvec_staged_as<F, 2>(p, n_sms, max_shared_bytes, stream);
  return rows <= 4 && launch_matvec_staged_as<F, 4>(p, n_sms, max_shared_bytes, stream);
}

// Of the types of each file matvec_staged_*.cu; false for others.
bool launch_matvec_staged_k(const Product& p, int n_sms, size_t max_shared_bytes, cudaStream_t stream);
bool launch_matvec_staged_blocks(const Product& p, int n_sms, size_t max_shared_bytes, cudaStream_t stream);

}  // namespace strata::kernels::cuda
