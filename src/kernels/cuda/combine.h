// The weighted sum of the rows of a token's experts, on a CUDA device.
#pragma once

#include "kernels/cuda/rows.h"

namespace strata::kernels::cuda {

// x[r] += sum over j of weights[r][j] * row of the pair r * k + j, in order of j, each product and sum rounded.
struct CombineArgs {
  const float* pairs;
  int64_t pairs_stride;
  const float* weights;  // [rows][k]
  int64_t weights_stride;
  int k;
  float* x;
  int64_t x_stride;
  int64_t cols;
  // Of pairs whose expert is in no slot (slot_of < 0), when slot_of is not null: their rows, which may lie in memory of
  // the host, or null for nothing to add.
  const int32_t* slot_of = nullptr;
  const int32_t* ids = nullptr;  // [rows][k]
  int64_t ids_stride = 0;
  const float* arrived = nullptr;
  int64_t arrived_stride = 0;
};
void launch_combine(const CombineArgs& args, const LiveRows& rows, cudaStream_t stream);

}  // namespace strata::kernels::cuda
