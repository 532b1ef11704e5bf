// The lookup tables of the codebook formats on the device, from the same file as the host's.
#pragma once

#include "quant/codebooks.h"

// quant/codebooks.cpp defines its tables as `const T name[n] = {...}` in namespace strata::quant; for the time of its
// inclusion `const` says where they are to lie. (The header that it includes stands above already.)
namespace strata::kernels::cuda::on_device {
#define const [[maybe_unused]] static __device__ const
#include "quant/codebooks.cpp"
#undef const
}  // namespace strata::kernels::cuda::on_device

namespace strata::kernels::cuda {
namespace tables = on_device::strata::quant;
}  // namespace strata::kernels::cuda
