// From router logits to experts and their weights, on a CUDA device: kernels::route for each row.
#pragma once

#include "kernels/cuda/rows.h"
#include "kernels/kernels.h"

namespace strata::kernels::cuda {

struct RouteArgs {
  RouteParams params;
  const float* logits;  // [rows][n_experts]
  int64_t logits_stride;
  const float* selection_bias;  // [n_experts] or null
  int32_t* ids;                 // [rows][n_used]
  int64_t ids_stride;
  float* weights;  // [rows][n_used]
  int64_t weights_stride;
};
// n_experts at most kMaxRouted.
void launch_route(const RouteArgs& args, const LiveRows& rows, cudaStream_t stream);

// What fits in the shared memory that every block has.
inline constexpr int kMaxRouted = 2048;

}  // namespace strata::kernels::cuda
