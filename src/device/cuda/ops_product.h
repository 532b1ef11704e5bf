// How a product is computed: by vectors where there are few items, else by tiles.
#pragma once

#include "device/cuda/cuda_ops.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/tiles.h"

namespace strata::device::cuda {

// y = W x (+ bias) for the live rows, with x as it is.
kernels::cuda::Product product_of(const Weight& w, const In<float>& x, const In<float>& bias, const In<int32_t>& live,
                                  const View<float>& y);
bool in_tiles(const kernels::cuda::Product& product, const OpContext& context);
// Of the context that run_product() uses.
size_t product_workspace(const kernels::cuda::Product& product, const OpContext& context);
// Pairs that go to experts have been sorted (kernels/cuda/tiles.h) when the product is computed in tiles.
void run_product(const kernels::cuda::Product& product, const OpContext& context);

}  // namespace strata::device::cuda
