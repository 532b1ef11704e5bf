// A kernel that does nothing: what a launch, or a node of a graph, costs alone.
#pragma once

#include <cuda_runtime_api.h>

namespace strata::kernels::cuda {

void launch_nothing(cudaStream_t stream);

}  // namespace strata::kernels::cuda
