// Norm, router logits and the choice of experts of a few rows in one kernel (devices with thread block clusters,
// sm_90).
#pragma once

#include "kernels/cuda/route.h"

namespace strata::kernels::cuda {

struct NormRouteArgs {
  RmsNormArgs norm;      // y: the normed rows, which are multiplied
  const float* weights;  // [n_experts][norm.cols], packed, aligned to sixteen bytes
  const float* bias;     // [n_experts] added to the logits, or null
  RouteArgs route;       // without logits
};

// Whether the device of the calling thread and the shape allow it.
bool norm_route_fits(const NormRouteArgs& args);
void launch_norm_route(const NormRouteArgs& args, const LiveRows& rows, cudaStream_t stream);

}  // namespace strata::kernels::cuda
