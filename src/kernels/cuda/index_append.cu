// Queries and keys of the index. A block of threads for each row of the step turns its queries and makes the key of the
// block of tokens that the row completes, if all of these tokens are in the step. Those that began in an earlier step
// are in the tail of the sequence, which a block of threads for each segment reads before it writes what the next steps
// will want.
#include <algorithm>

#include "kernels/cuda/block_index.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/segments.cuh"
#include "kernels/cuda/turn.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;

// k of token t of the segment's sequence.
__device__ __forceinline__ const float* key_input(const IndexAppendArgs& a, const Segment& s, int64_t position,
                                                  int64_t t) {
  if (t >= position) return a.k + (s.first + t - position) * a.k_stride;
  return a.tail + s.slot * a.tail_stride + t % a.index.block * a.index.dim;
}

// The key of the block of tokens from `first` on, by one warp. `held`: dim + 2 * n_pairs floats of shared memory.
__device__ void append_key(const IndexAppendArgs& a, const Segment& s, int64_t position, int64_t first, int lane,
                           float* held) {
  const int dim = a.index.dim, block = a.index.block;
  for (int i = lane; i < dim; i += kWarp) {
    float sum = 0;
    for (int64_t t = first; t < first + block; t++) sum += key_input(a, s, position, t)[i];
    held[i] = sum / static_cast<float>(block);
  }
  float* angles = held + dim;
  for (int p = lane; p < a.n_pairs; p += kWarp) {
    double sine, cosine;
    sincos(static_cast<double>(first) * static_cast<double>(a.inv_freq[p]), &sine, &cosine);
    angles[p] = static_cast<float>(cosine * static_cast<double>(a.magnitude));
    angles[a.n_pairs + p] = static_cast<float>(sine * static_cast<double>(a.magnitude));
  }
  __syncwarp();
  norm_and_turn({dim, a.n_pairs, false, a.eps}, held, a.k_norm, angles, lane, held);
  const int64_t at = cache_block(a.places, a.index, static_cast<int32_t>(s.slot), first / block);
  float* key = a.index.keys + at * a.index.stride;
  for (int i = lane; i < dim; i += kWarp) key[i] = held[i];
}

__device__ void append_row(const IndexAppendArgs& a, const Segments& map, int64_t row, int warp, int lane,
                           float* held) {
  const Segment s = segment_of(map, row);
  if (s.rows == 0) return;
  const int dim = a.index.dim, block = a.index.block;
  const int64_t position = a.places.positions[s.first];
  for (int h = warp; h <= a.n_heads; h += kWarps) {
    if (h < a.n_heads) {
      float* q = a.q + row * a.q_stride + int64_t{h} * dim;
      norm_and_turn({dim, a.n_pairs, false, a.eps}, q, a.q_norm, a.cos_sin + row * a.cos_sin_stride, lane, held);
      for (int i = lane; i < dim; i += kWarp) q[i] = held[i];
    } else {
      const int64_t first = position + row - s.first + 1 - block;
      if ((first + block) % block == 0 && first >= position) append_key(a, s, position, first, lane, held);
    }
    __syncwarp();
  }
}

__device__ void append_segment(const IndexAppendArgs& a, const Segment& s, int warp, int lane, float* held) {
  if (s.rows == 0) return;
  const int dim = a.index.dim, block = a.index.block;
  const int64_t position = a.places.positions[s.first], end = position + s.rows;
  const int64_t first = position / block * block;
  if (warp == 0 && first < position && first + block <= end) append_key(a, s, position, first, lane, held);
  __syncthreads();
  for (int64_t t = max(position, end / block * block); t < end; t++) {
    float* to = a.tail + s.slot * a.tail_stride + t % block * dim;
    const float* k = key_input(a, s, position, t);
    for (int i = threadIdx.x; i < dim; i += kThreads) to[i] = k[i];
  }
}

__global__ void __launch_bounds__(kThreads)
    index_append(const __grid_constant__ IndexAppendArgs a, const __grid_constant__ Segments map) {
  extern __shared__ float shared[];  // [kWarps][dim + 2 * n_pairs]
  start_kernel_behind();
  wait_for_kernel_before();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  float* held = shared + warp * (a.index.dim + 2 * a.n_pairs);
  if (blockIdx.x < a.rows) return append_row(a, map, blockIdx.x, warp, lane, held);
  const int64_t i = blockIdx.x - a.rows;
  if (i < *map.count) append_segment(a, segment(map, i), warp, lane, held);
}

}  // namespace

void launch_index_append(const IndexAppendArgs& a, const Segments& segments, cudaStream_t stream) {
  if (a.rows == 0 || segments.max_segments == 0) return;
  const dim3 grid(static_cast<unsigned>(a.rows + std::min(segments.max_segments, a.rows)));
  const size_t shared = kWarps * static_cast<size_t>(a.index.dim + 2 * a.n_pairs) * sizeof(float);
  launch_after(index_append, grid, kThreads, shared, stream, a, segments);
}

}  // namespace strata::kernels::cuda
