#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/latent.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/turn.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kWarps = 4;

// `held`: key_dim floats of shared memory, of one warp.
__device__ void append_latent(const LatentAppendArgs& a, int64_t row, const float* cos_sin, int lane, float* held) {
  const int key_dim = a.kv.key_dim, value_dim = a.kv.value_dim;
  float* latent = a.latent + row * a.latent_stride;
  for (int i = value_dim + lane; i < key_dim; i += kWarp) held[i] = latent[i];
  norm_and_turn({value_dim, 0, true, a.eps}, latent, a.gain, cos_sin, lane, held);
  turn_pairs(held + value_dim, cos_sin, (key_dim - value_dim) / 2, true, lane);
  for (int i = lane; i < key_dim; i += kWarp) latent[i] = held[i];
  const int64_t token = token_at(a.places, a.kv, a.places.slots[row], a.places.positions[row]);
  store_head(a.kv.type, held, key_dim, a.kv.k + token * a.kv.k_token_bytes, lane);
}

__device__ void turn_query(const LatentAppendArgs& a, int64_t row, int head, const float* cos_sin, int lane,
                           float* held) {
  const int n_rot = a.kv.key_dim - a.kv.value_dim;
  const float* from = a.heads + row * a.heads_stride + (head + 1) * a.head_stride - n_rot;
  norm_and_turn({n_rot, n_rot / 2, true, a.eps}, from, nullptr, cos_sin, lane, held);
  float* q = a.q + row * a.q_stride + int64_t{head} * a.kv.key_dim + a.kv.value_dim;
  for (int i = lane; i < n_rot; i += kWarp) q[i] = held[i];
}

// A warp for the latent of a row and one for each head.
__global__ void __launch_bounds__(kWarps * kWarp)
    latent_append(const __grid_constant__ LatentAppendArgs a, LiveRows rows) {
  extern __shared__ float shared[];  // [kWarps][key_dim]
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x;
  if (row >= *rows.live) return;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int head = static_cast<int>(blockIdx.y) * kWarps + warp - 1;
  const float* cos_sin = a.cos_sin + row * a.cos_sin_stride;
  float* held = shared + warp * a.kv.key_dim;
  if (head < 0) append_latent(a, row, cos_sin, lane, held);
  else if (head < a.n_heads) turn_query(a, row, head, cos_sin, lane, held);
}

}  // namespace

void launch_latent_append(const LatentAppendArgs& a, const LiveRows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>(a.n_heads / kWarps + 1));
  const size_t shared = static_cast<size_t>(kWarps * a.kv.key_dim) * sizeof(float);
  if (rows.rows > 0) launch_after(latent_append, grid, kWarps * kWarp, shared, stream, a, rows);
}

}  // namespace strata::kernels::cuda
