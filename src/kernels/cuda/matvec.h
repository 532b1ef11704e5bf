// Products for a few items: each warp multiplies two weight rows at a time with up to four activation rows, which lie
// in shared memory. Memory-bound by the weights, and an item's result does not depend on the items beside it.
#pragma once

#include "kernels/cuda/product.h"

namespace strata::kernels::cuda {

// Whether launch_matvec() norms the rows of this product where it has a gain: all of their columns fit a block's shared
// memory as 8-bit integers. Each block does it for itself.
bool matvec_norms(const Product& product);
// Without experts, any number of items; with them, each pair reads its expert's weights. A block can be granted
// max_shared_bytes of shared memory.
void launch_matvec(const Product& product, int n_sms, size_t max_shared_bytes, cudaStream_t stream);

}  // namespace strata::kernels::cuda
