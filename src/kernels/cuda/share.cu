// The first block shares the experts out, the others send the rows that the host computes from: stores to the host's
// memory take the link's time each way, so all of them are under way at once.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.h"
#include "kernels/cuda/share.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFloatsOfBlock = 4 * kThreads;

// Shared memory for n numbers, in whole sixteens: where one thread reads all of them, the compiler joins its reads and
// lets the last go past the end.
size_t table_bytes(int n) { return (static_cast<size_t>(n) + 3) / 4 * 4 * sizeof(int32_t); }

__device__ void send_rows(const ShareArgs& a, int64_t live, int64_t blocks_of_row) {
  const int64_t block = int64_t{blockIdx.x} - 1;
  const int64_t row = block / blocks_of_row;
  const int64_t col = block % blocks_of_row * kFloatsOfBlock + 4 * threadIdx.x;
  if (row >= live || col >= a.cols) return;
  const float* from = a.x + row * a.x_stride + col;
  float* to = a.told_x + row * a.told_x_stride + col;
  const auto together = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  if (together % sizeof(float4) == 0 && col + 4 <= a.cols) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    return;
  }
  for (int64_t i = 0; i < 4 && col + i < a.cols; i++) to[i] = from[i];
}

// counts[e]: pairs of the live rows that go to expert e.
__device__ void count_pairs(const ShareArgs& a, int64_t live, int32_t* counts) {
  for (int e = threadIdx.x; e < a.n_experts; e += kThreads) counts[e] = 0;
  __syncthreads();
  for (int64_t p = threadIdx.x; p < live * a.k; p += kThreads) {
    const int64_t row = p / a.k, j = p % a.k;
    const int32_t id = a.ids[row * a.ids_stride + j];
    a.told_ids[row * a.told_ids_stride + j] = id;
    atomicAdd(counts + id, 1);
  }
  __syncthreads();
}

// Leaves in counts[] those of the experts that may be linked, zeros for all others. How many of them are linked.
__device__ int linked_wanted(const ShareArgs& a, int32_t* counts) {
  __shared__ int missing, linkable;
  if (threadIdx.x == 0) missing = linkable = 0;
  __syncthreads();
  for (int e = threadIdx.x; e < a.n_experts; e += kThreads) {
    const bool misses = counts[e] > 0 && (a.slot_of == nullptr || a.slot_of[e] < 0);
    const bool may = misses && a.linked != nullptr && a.linked[e] != 0;
    if (misses) atomicAdd(&missing, 1);
    if (may) atomicAdd(&linkable, 1);
    if (!may) counts[e] = 0;
  }
  __syncthreads();
  return a.share == nullptr ? 0 : min(a.share[missing], linkable);
}

__global__ void __launch_bounds__(kThreads) share_experts(const __grid_constant__ ShareArgs a, LiveRows rows,
                                                          int64_t blocks_of_row) {
  extern __shared__ int32_t counts[];
  wait_for_kernel_before();
  start_kernel_behind();
  const int64_t live = *rows.live;
  if (blockIdx.x > 0) return send_rows(a, live, blocks_of_row);
  if (threadIdx.x == 0) *a.told_live = static_cast<int32_t>(live);
  count_pairs(a, live, counts);
  const int wanted = linked_wanted(a, counts);
  for (int e = threadIdx.x; e < a.n_experts; e += kThreads) {
    int32_t place = a.slot_of == nullptr ? -1 : a.slot_of[e];
    const int32_t own = counts[e];
    if (own > 0 && wanted > 0) {
      int ahead = 0;
      for (int f = 0; f < a.n_experts; f++) ahead += counts[f] > own || (counts[f] == own && f < e);
      if (ahead < wanted) place = kLinked;
    }
    a.place_of[e] = place;
    a.told_places[e] = place;
  }
}

// The linked experts in order, by the first warp: the first of them in list[], and where each is to be read in
// staged_at[], which the first block alone writes. How many are in the list.
__device__ int list_linked(const FetchArgs& a, int32_t* list) {
  const int lane = static_cast<int>(threadIdx.x);
  int n = 0;
  for (int first = 0; first < a.n_experts; first += kWarp) {
    const int e = first + lane;
    const bool linked = e < a.n_experts && a.place_of[e] == kLinked;
    const unsigned lanes = __ballot_sync(kAllLanes, linked);
    const int at = n + __popc(lanes & ((1u << lane) - 1));
    if (linked) {
      if (at < a.n_places) list[at] = e;
      const auto staged = reinterpret_cast<int64_t>(a.stage) + at * a.stage_stride;
      if (blockIdx.x == 0) a.staged_at[e] = at < a.n_places ? staged : a.linked_at[e];
    }
    n += __popc(lanes);
  }
  return min(n, a.n_places);
}

// Whole warps ask for neighbouring bytes, and all of the device for what fits in flight. All blocks must have begun
// before the kernel behind may, and must leave it room.
constexpr int kFetchThreads = 512;
__global__ void __launch_bounds__(kFetchThreads) fetch_experts(const __grid_constant__ FetchArgs a) {
  extern __shared__ int32_t list[];
  __shared__ int n_listed;
  wait_for_kernel_before();
  start_kernel_behind();
  if (threadIdx.x < kWarp) {
    const int n = list_linked(a, list);
    if (threadIdx.x == 0) n_listed = n;
  }
  __syncthreads();
  const int64_t pieces = a.blob_bytes / static_cast<int64_t>(sizeof(uint4));
  const int64_t all = pieces * n_listed, step = int64_t{gridDim.x} * kFetchThreads;
  for (int64_t i = int64_t{blockIdx.x} * kFetchThreads + threadIdx.x; i < all; i += step) {
    const int64_t place = i / pieces, piece = i % pieces;
    const auto* from = reinterpret_cast<const uint4*>(a.linked_at[list[place]]);
    reinterpret_cast<uint4*>(a.stage + place * a.stage_stride)[piece] = __ldcs(from + piece);
  }
}

}  // namespace

void launch_fetch(const FetchArgs& args, int n_sms, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(n_sms));
  launch_after(fetch_experts, grid, kFetchThreads, table_bytes(args.n_places), stream, args);
}

void launch_share(const ShareArgs& args, const LiveRows& rows, cudaStream_t stream) {
  const int64_t blocks_of_row = (args.cols + kFloatsOfBlock - 1) / kFloatsOfBlock;
  const dim3 grid(static_cast<unsigned>(1 + rows.rows * blocks_of_row));
  launch_after(share_experts, grid, kThreads, table_bytes(args.n_experts), stream, args, rows, blocks_of_row);
}

}  // namespace strata::kernels::cuda
