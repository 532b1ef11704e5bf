// Residuals of several streams on a CUDA device: formulas are those of device/ops/hyper.h, whose products stand between
// these kernels. All pointers are device pointers, strides count elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows.h"

namespace strata::kernels::cuda {

struct MixArgs {
  const float* x;  // [rows][n_streams * dim]
  int64_t x_stride;
  const float* gain;  // [n_streams * dim]
  float* normed;      // [rows][n_streams * dim]
  int64_t normed_stride;
  float* low;  // [rows][rank]
  int64_t low_stride;
  int64_t rank;
  float* gates;  // [rows][n_streams * dim]
  int64_t gates_stride;
  float* y;  // [rows][dim]
  int64_t y_stride;
  const float* inject;  // [n_streams][n_streams * dim] or null: the amounts come from elsewhere, or there are none
  int64_t inject_stride;
  float* amounts;  // [rows][n_streams] or null
  int64_t amounts_stride;
  int n_streams;
  int64_t dim;
  float eps;
};
// normed[c] = x[c] / sqrt(mean(x[c]^2) + eps) * gain[c] for each stream c. With `inject` its products with each stream
// go to the row of `gates`, which is written later.
void launch_norm_streams(const MixArgs& args, const LiveRows& rows, cudaStream_t stream);
// low = silu(low / n_streams) and, where there are amounts, amounts = 2 sigmoid(amounts / n_streams): with `inject` of
// the sums of what launch_norm_streams() left.
void launch_activate_low(const MixArgs& args, const LiveRows& rows, cudaStream_t stream);
// y = 1 / n_streams * the sum over the streams c, in order, of sigmoid(gates[c]) * normed[c].
void launch_mix_streams(const MixArgs& args, const LiveRows& rows, cudaStream_t stream);

// x[c] += amounts[c] * y for each stream c, then y = 0.
struct StreamAddArgs {
  float* y;  // [rows][dim]
  int64_t y_stride;
  const float* amounts;  // [rows][n_streams]
  int64_t amounts_stride;
  float* x;  // [rows][n_streams * dim]
  int64_t x_stride;
  int n_streams;
  int64_t dim;
};
void launch_add_streams(const StreamAddArgs& args, const LiveRows& rows, cudaStream_t stream);

}  // namespace strata::kernels::cuda
