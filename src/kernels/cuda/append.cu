// Rope and the append to the KV cache.
#include <cmath>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/turn.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kWarps = 4;

__global__ void angles(AnglesArgs a, LiveRows rows) {
  const int64_t row = blockIdx.x;
  if (row >= *rows.live) return;
  float* out = a.cos_sin + row * a.cos_sin_stride;
  for (int p = threadIdx.x; p < a.n_pairs; p += blockDim.x) {
    const double angle = static_cast<double>(a.positions[row]) * static_cast<double>(a.inv_freq[p]);
    double sine, cosine;
    sincos(angle, &sine, &cosine);
    out[p] = static_cast<float>(cosine * static_cast<double>(a.magnitude));
    out[a.n_pairs + p] = static_cast<float>(sine * static_cast<double>(a.magnitude));
  }
}

// A warp for each head: of the queries, then of the keys, then of the values.
__global__ void append(const __grid_constant__ AppendArgs a, LiveRows rows) {
  start_kernel_behind();
  extern __shared__ float heads[];  // [kWarps][key_dim]
  const int64_t row = blockIdx.x;
  const int32_t live = *rows.live, slot = a.places.slots[row];  // three loads at once
  const int64_t position = a.places.positions[row];
  if (row >= live) return;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int head = static_cast<int>(blockIdx.y) * kWarps + warp;
  const float* cos = a.cos_sin + row * a.cos_sin_stride;
  const KvCache& kv = a.kv;
  float* held = heads + warp * kv.key_dim;
  const auto in_place = [&](float* x, const float* gain) {
    norm_and_turn({kv.key_dim, a.n_pairs, a.interleaved, a.eps}, x, gain, cos, lane, held);
    for (int i = lane; i < kv.key_dim; i += kWarp) x[i] = held[i];
  };
  if (head < a.n_heads) return in_place(a.q + row * a.q_stride + int64_t{head} * a.q_head_stride, a.q_norm);
  const int of_kv = (head - a.n_heads) % kv.n_kv_heads;
  const int64_t token = token_at(a.places, kv, slot, position);
  if (head < a.n_heads + kv.n_kv_heads) {
    in_place(a.k + row * a.k_stride + int64_t{of_kv} * kv.key_dim, a.k_norm);
    store_head(kv.type, held, kv.key_dim, kv.k + token * kv.k_token_bytes + of_kv * kv.k_head_bytes, lane);
  } else if (head < a.n_heads + 2 * kv.n_kv_heads) {
    const float* v = a.v + row * a.v_stride + int64_t{of_kv} * kv.value_dim;
    store_head(kv.type, v, kv.value_dim, kv.v + token * kv.v_token_bytes + of_kv * kv.v_head_bytes, lane);
  }
}

}  // namespace

void launch_angles(const AnglesArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows > 0) angles<<<static_cast<unsigned>(rows.rows), 64, 0, stream>>>(args, rows);
}

void launch_append(const AppendArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const int heads = args.n_heads + 2 * args.kv.n_kv_heads;
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>((heads + kWarps - 1) / kWarps));
  const size_t shared = static_cast<size_t>(kWarps * args.kv.key_dim) * sizeof(float);
  append<<<grid, kWarps * kWarp, shared, stream>>>(args, rows);
}

}  // namespace strata::kernels::cuda
