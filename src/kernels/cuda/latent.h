// Multi-head latent attention on a CUDA device: the matrices of the heads, and the append to the latent cache. Formulas
// are those of device/ops/latent.h. All pointers are device pointers, strides count elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention.h"
#include "quant/type.h"

namespace strata::kernels::cuda {

// y[r][h] = W_h x[r][h] or W_h^T x[r][h], in float32. The bits of a row do not depend on the rows beside it.
struct HeadProductArgs {
  quant::Type type;
  const uint8_t* w;  // [n_heads * head_rows][cols]
  size_t row_bytes;
  int64_t cols;
  int64_t head_rows;
  int n_heads;
  bool transposed;
  const float* x;
  int64_t x_stride;
  int64_t x_head_stride;
  float* y;
  int64_t y_stride;
  int64_t y_head_stride;
};
void launch_head_products(const HeadProductArgs& args, const LiveRows& rows, cudaStream_t stream);

// Norm and rope of the latent, which goes into the cache then, and rope of the heads' queries.
struct LatentAppendArgs {
  const float* heads;  // the last n_rot values of each head are its rotated query
  int64_t heads_stride;
  int64_t head_stride;
  float* q;  // [rows][n_heads * kv.key_dim]: those values, turned, go behind kv.value_dim others
  int64_t q_stride;
  int n_heads;
  float* latent;  // [rows][kv.key_dim]
  int64_t latent_stride;
  const float* gain;  // [kv.value_dim]
  const float* cos_sin;
  int64_t cos_sin_stride;
  float eps;
  Places places;
  KvCache kv;
};
void launch_latent_append(const LatentAppendArgs& args, const LiveRows& rows, cudaStream_t stream);

}  // namespace strata::kernels::cuda
