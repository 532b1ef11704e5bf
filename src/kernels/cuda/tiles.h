// Products for many items: blocks decode a tile of weights once for a tile of items. With rounded activations the
// tensor cores multiply 8-bit integers; float32 activations are multiplied in float32. The sum of an (item, weight row)
// is formed in one order, whatever items share its tile.
#pragma once

#include "kernels/cuda/product.h"

namespace strata::kernels::cuda {

// Items of a tile.
inline constexpr int kTileItems = 64;

// Sorts the live pairs whose experts are in slots by expert into product.order, for all products of these pairs.
// n_experts is at most kMaxSorted.
void launch_sort_pairs(const Product& product, cudaStream_t stream);
inline constexpr int64_t kMaxSorted = 8192;

// Bytes for the rounded activations.
size_t tiles_workspace(const Product& product);
void launch_tiles(const Product& product, void* workspace, cudaStream_t stream);

}  // namespace strata::kernels::cuda
