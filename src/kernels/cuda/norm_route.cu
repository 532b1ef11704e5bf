// A cluster of blocks serves a row. A thread has columns of the row and multiplies them with those of the block's
// experts; the factor of the norm comes in at the end. The first block chooses from the logits that all have put into
// its shared memory. Weights are asked for before the kernel in front is done: half of a block's stay in registers, the
// others go to shared memory, so that the block still fits beside blocks of the kernel in front.
#include "kernels/cuda/norm_route.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/route.cuh"
#include "kernels/cuda/staging.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kBlocks = 8;  // of a cluster, the most that every device has
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kExperts = 16;  // that a block multiplies at a time
constexpr int kHeld = 6;      // of them in registers
static_assert(kBlocks * kExperts >= kOfLane * kWarp);
constexpr int kChunkCols = kThreads * 4;
constexpr int kMostChunks = 2;  // of a row

__device__ __forceinline__ void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// Stores to the place that `at` has in the shared memory of the cluster's first block.
__device__ __forceinline__ void store_in_first_block(float* at, float value) {
#if __CUDA_ARCH__ >= 900
  const auto own = static_cast<unsigned>(__cvta_generic_to_shared(at));
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(own));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
#endif
}

__device__ __forceinline__ float4 load_four(const float* row, int col, int cols) {
  if (col >= cols) return make_float4(0, 0, 0, 0);
  return *reinterpret_cast<const float4*>(row + col);
}
__device__ __forceinline__ float dot_four(const float4& a, const float4& b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// What a thread has of a row of kChunks chunks.
template <int kChunks>
struct Columns {
  float4 x[kChunks], scaled[kChunks];  // scaled: x * gain
};

__device__ __forceinline__ int column_of(int chunk) { return chunk * kChunkCols + static_cast<int>(threadIdx.x) * 4; }

// The sums of a block's experts and of the row's squares, by warps.
struct PartialSums {
  float logits[kWarps][kExperts];
  float squares[kWarps];
};

// The factor of the norm, by each thread.
__device__ __forceinline__ float norm_factor(const PartialSums& parts, const RmsNormArgs& a) {
  float squares = 0;
#pragma unroll
  for (const float of_warp : parts.squares) squares += of_warp;
  return 1.0f / sqrtf(squares / static_cast<float>(a.cols) + a.eps);
}

__device__ __forceinline__ float4 multiply_four(const float4& a, const float4& b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

template <int kChunks>
__device__ __forceinline__ void load_row(const RmsNormArgs& a, int64_t row, const float4 (&gain)[kChunks],
                                         Columns<kChunks>& own) {
#pragma unroll
  for (int c = 0; c < kChunks; c++) {
    own.x[c] = load_four(a.x + row * a.x_stride, column_of(c), static_cast<int>(a.cols));
    own.scaled[c] = multiply_four(own.x[c], gain[c]);
  }
}

template <int kChunks>
__device__ __forceinline__ void store_normed(const RmsNormArgs& a, int64_t row, const Columns<kChunks>& own,
                                             float factor) {
#pragma unroll
  for (int c = 0; c < kChunks; c++) {
    if (column_of(c) >= a.cols) continue;
    const float4 gain = load_four(a.gain, column_of(c), static_cast<int>(a.cols));
    const float4 scaled = multiply_four(own.x[c], make_float4(factor, factor, factor, factor));
    *reinterpret_cast<float4*>(a.y + row * a.y_stride + column_of(c)) = multiply_four(scaled, gain);
  }
}

// Weights of a block's experts from `first` on; of those past the last one, that of the last.
__device__ __forceinline__ const float* expert_row(const NormRouteArgs& a, int expert) {
  return a.weights + static_cast<int64_t>(min(expert, a.route.params.n_experts - 1)) * a.norm.cols;
}

// Adds the products of the chunks from kFirst on with the experts from `first` on, read where they lie.
template <int kFirst, int kChunks>
__device__ __forceinline__ void add_products(const NormRouteArgs& a, int first, const Columns<kChunks>& own,
                                             float (&sums)[kExperts]) {
#pragma unroll
  for (int c = kFirst; c < kChunks; c++) {
#pragma unroll
    for (int e = 0; e < kExperts; e++) {
      const float4 w = load_four(expert_row(a, first + e), column_of(c), static_cast<int>(a.norm.cols));
      sums[e] = dot_four(w, own.scaled[c], sums[e]);
    }
  }
}

// Puts the logits of the experts from `first` on into the first block's shared memory.
__device__ void finish_logits(const NormRouteArgs& a, int first, float (&sums)[kExperts], PartialSums& parts,
                              float* logits) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float sum = warp_sums<kExperts>(sums, lane);
  if (lane % (kWarp / kExperts) == 0) parts.logits[warp][lane / (kWarp / kExperts)] = sum;
  __syncthreads();
  const int expert = first + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kExperts && expert < a.route.params.n_experts) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; w++) total += parts.logits[w][threadIdx.x];
    const float bias = a.bias != nullptr ? a.bias[expert] : 0.0f;
    store_in_first_block(logits + expert, total * norm_factor(parts, a.norm) + bias);
  }
}

// kOneWarp: one_warp_routes().
template <int kChunks, bool kOneWarp>
__global__ void __launch_bounds__(kThreads, 2) norm_route(const __grid_constant__ NormRouteArgs a, LiveRows rows) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  __shared__ PartialSums parts;
  start_kernel_behind();
  const int64_t row = blockIdx.y;
  if (row >= *rows.live) return wait_for_kernel_before();  // the same in all blocks of a cluster
  const int n = a.route.params.n_experts, cols = static_cast<int>(a.norm.cols);
  const int lane = threadIdx.x % kWarp, block = static_cast<int>(blockIdx.x);
  auto* staged = reinterpret_cast<float4*>(shared_memory);  // [kExperts - kHeld][kThreads]
  const RouteScratch s(staged + (kExperts - kHeld) * kThreads, n);
  arrive_at_cluster();
  int first = block * kExperts;
  float4 held[kHeld];
#pragma unroll
  for (int e = 0; e < kHeld; e++) held[e] = load_four(expert_row(a, first + e), column_of(0), cols);
  if (column_of(0) < cols) {
#pragma unroll
    for (int e = kHeld; e < kExperts; e++) {
      stage16(reinterpret_cast<uint8_t*>(staged + (e - kHeld) * kThreads + threadIdx.x),
              reinterpret_cast<const uint8_t*>(expert_row(a, first + e) + column_of(0)));
    }
  }
  float4 gain[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; c++) gain[c] = load_four(a.norm.gain, column_of(c), cols);
  wait_for_kernel_before();
  Columns<kChunks> own;
  load_row(a.norm, row, gain, own);
  float sums[kExperts] = {};
#pragma unroll
  for (int e = 0; e < kHeld; e++) sums[e] = dot_four(held[e], own.scaled[0], 0);
  wait_for_staged();  // a thread reads what it has copied itself
  if (column_of(0) < cols) {
#pragma unroll
    for (int e = kHeld; e < kExperts; e++) {
      sums[e] = dot_four(staged[(e - kHeld) * kThreads + threadIdx.x], own.scaled[0], 0);
    }
  }
  add_products<1>(a, first, own, sums);
  float squares = 0;
#pragma unroll
  for (const float4& x : own.x) squares = dot_four(x, x, squares);
  squares = warp_sum(squares);
  if (lane == 0) parts.squares[threadIdx.x / kWarp] = squares;
  wait_for_cluster();  // its first block has begun
  finish_logits(a, first, sums, parts, s.logits);
  if constexpr (!kOneWarp) {  // which has no more than the blocks multiply at a time
    for (first += kBlocks * kExperts; first < n; first += kBlocks * kExperts) {
#pragma unroll
      for (float& sum : sums) sum = 0;
      __syncthreads();  // the parts of the experts before have been read
      add_products<0>(a, first, own, sums);
      finish_logits(a, first, sums, parts, s.logits);
    }
  }
  __syncwarp();
  arrive_at_cluster();
  // Behind the barrier, which would wait for what is stored before it.
  if (block == kBlocks - 1) store_normed(a.norm, row, own, norm_factor(parts, a.norm));
  if (block != 0) return;
  wait_for_cluster();
  if constexpr (kOneWarp) {
    if (threadIdx.x < kWarp) route_by_one_warp(a.route, row, s);
  } else {
    route_logits<kThreads>(a.route, row, s);
  }
}

size_t shared_bytes(const NormRouteArgs& args) {
  return (kExperts - kHeld) * kThreads * sizeof(float4) + route_scratch_bytes(args.route.params.n_experts);
}

bool aligned(const void* p, int64_t stride = 0) { return reinterpret_cast<uintptr_t>(p) % 16 == 0 && stride % 4 == 0; }

}  // namespace

bool norm_route_fits(const NormRouteArgs& args) {
  const RmsNormArgs& norm = args.norm;
  return starts_early() && norm.cols <= kChunkCols * kMostChunks && norm.cols % 4 == 0 &&
         aligned(args.weights, norm.cols) && aligned(norm.gain) && aligned(norm.x, norm.x_stride) &&
         aligned(norm.y, norm.y_stride);
}

void launch_norm_route(const NormRouteArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const size_t shared = shared_bytes(args);  // n_experts is at most kMaxRouted: always granted where there are clusters
  const bool one_chunk = args.norm.cols <= kChunkCols;
  const auto by_warp = one_chunk ? norm_route<1, true> : norm_route<kMostChunks, true>;
  const auto by_block = one_chunk ? norm_route<1, false> : norm_route<kMostChunks, false>;
  const auto kernel = one_warp_routes(args.route) ? by_warp : by_block;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = kBlocks;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kBlocks, static_cast<unsigned>(rows.rows));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaLaunchKernelEx(&config, kernel, args, rows);
}

}  // namespace strata::kernels::cuda
