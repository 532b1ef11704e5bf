// Element-wise work on rows, norms and row moves, on a CUDA device. Kernels are launched for
// `rows` rows and return early from live[0] on. All pointers are device pointers, strides count elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "quant/type.h"

namespace strata::kernels::cuda {

// Rows of floats and how many of them a step has: the first live[0] * per_live of at most `rows`.
struct LiveRows {
  const int32_t* live;
  int64_t rows;
  int per_live = 1;
};

// y[r] = row ids[r] of a table of packed blocks, as float32.
struct EmbedArgs {
  quant::Type type;
  const uint8_t* table;
  size_t row_bytes;
  int64_t cols;
  const int32_t* ids;
  float* y;
  int64_t y_stride;
};
void launch_embed(const EmbedArgs& args, const LiveRows& rows, cudaStream_t stream);

// y[r] = x[r] / sqrt(mean(x[r]^2) + eps) * gain
struct RmsNormArgs {
  const float* x;
  int64_t x_stride;
  const float* gain;  // [cols]
  float* y;
  int64_t y_stride;
  int64_t cols;
  float eps;
};
void launch_rms_norm(const RmsNormArgs& args, const LiveRows& rows, cudaStream_t stream);

// x[r][head] = rms_norm(x[r][head]) * gain * gate(z[r][head])
struct GatedNormArgs {
  float* x;
  int64_t x_stride;
  const float* z;
  int64_t z_stride;
  const float* gain;  // [dim]
  int64_t n_heads;
  int64_t dim;
  bool sigmoid_gate;  // else silu
  float eps;
};
void launch_gated_norm(const GatedNormArgs& args, const LiveRows& rows, cudaStream_t stream);

// gate[r] = silu(gate[r]) * up[r]
void launch_silu_mul(float* gate, int64_t gate_stride, const float* up, int64_t up_stride, int64_t cols,
                     const LiveRows& rows, cudaStream_t stream);

// x[r] += sigmoid(gate[r][0]) * y[r]; gate null: 1.
struct AddGatedArgs {
  float* x;
  int64_t x_stride;
  const float* y;
  int64_t y_stride;
  const float* gate;
  int64_t gate_stride;
  int64_t cols;
};
void launch_add_gated(const AddGatedArgs& args, const LiveRows& rows, cudaStream_t stream);

// y[i] = x[from[i]]
struct GatherArgs {
  const float* x;
  int64_t x_stride;
  const int32_t* from;
  float* y;
  int64_t y_stride;
  int64_t cols;
};
void launch_gather(const GatherArgs& args, const LiveRows& rows, cudaStream_t stream);

}  // namespace strata::kernels::cuda
