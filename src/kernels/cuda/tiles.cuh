// What the tile kernels share: which items a tile has, and the rounded activations in memory.
#pragma once

#include "kernels/cuda/product.cuh"
#include "kernels/cuda/rounding.cuh"
#include "kernels/cuda/tiles.h"

namespace strata::kernels::cuda {

// Columns of a step of the tile kernels.
inline constexpr int kTileCols = 128;

// The pairs sorted by expert, in the memory of Product::order.
struct SortedPairs {
  int32_t* order;   // [pairs] sorted place -> pair
  int32_t* begins;  // [experts + 1] an expert's first place
  int32_t* tiles;   // [experts + 1] an expert's first tile
};
__host__ __device__ inline SortedPairs sorted_pairs(const Product& p) {
  int32_t* begins = p.order + p.max_items;
  return {p.order, begins, begins + p.n_experts + 1};
}

// Items of a tile: places [first, first + n) of the sorted pairs, or of the rows as they are.
struct Tile {
  const int32_t* order = nullptr;  // null: place is item
  int64_t first = 0;
  int n = 0;
  const uint8_t* memory = nullptr;  // of the weights
  __device__ int64_t item(int i) const { return order == nullptr ? first + i : order[first + i]; }
};

// Tile `index`; n is 0 past the last one.
__device__ inline Tile tile_at(const Product& p, int64_t index, int tile_items) {
  Tile tile;
  if (p.experts.slot_of == nullptr) {
    tile.first = index * tile_items;
    const int64_t left = live_items(p) - tile.first;
    tile.n = static_cast<int>(left < 0 ? 0 : left < tile_items ? left : tile_items);
    tile.memory = p.memory;
    return tile;
  }
  const SortedPairs sorted = sorted_pairs(p);
  int64_t low = 0, high = p.n_experts;  // the expert whose tiles hold `index` is in [low, high)
  if (index >= sorted.tiles[high]) return tile;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (sorted.tiles[middle] <= index) low = middle;
    else high = middle;
  }
  tile.order = sorted.order;
  tile.first = sorted.begins[low] + (index - sorted.tiles[low]) * tile_items;
  const int64_t left = sorted.begins[low + 1] - tile.first;
  tile.n = static_cast<int>(left < tile_items ? left : tile_items);
  tile.memory = expert_memory(p, static_cast<int32_t>(low));
  return tile;
}
inline int64_t max_tiles(const Product& p, int tile_items) {
  const int64_t full = (p.max_items + tile_items - 1) / tile_items;
  return p.experts.slot_of == nullptr ? full : full + (p.n_experts < p.max_items ? p.n_experts : p.max_items);
}

// A rounded row in memory: codes with zeros behind, scales, sums.
__host__ __device__ inline int64_t padded_cols(int64_t cols) { return (cols + kTileCols - 1) / kTileCols * kTileCols; }
__host__ __device__ inline int64_t rounded_row_bytes(int64_t cols) {
  return padded_cols(cols) + padded_cols(cols) / 32 * 4 + padded_cols(cols) / 16 * 4;
}
__device__ inline RoundedRow rounded_row(void* workspace, int64_t cols, int64_t row) {
  auto* at = static_cast<uint8_t*>(workspace) + row * rounded_row_bytes(cols);
  auto* d = reinterpret_cast<float*>(at + padded_cols(cols));
  return {reinterpret_cast<int8_t*>(at), d, d + padded_cols(cols) / 32};
}

// Of the types of each file tiles_*.cu; false for others.
bool launch_tiles_k(const Product& p, void* workspace, cudaStream_t stream);
bool launch_tiles_blocks(const Product& p, void* workspace, cudaStream_t stream);
bool launch_tiles_iq(const Product& p, void* workspace, cudaStream_t stream);
bool launch_tiles_bits(const Product& p, void* workspace, cudaStream_t stream);
void launch_tiles_float(const Product& p, cudaStream_t stream);
void launch_tiles_split(const Product& p, cudaStream_t stream);

}  // namespace strata::kernels::cuda
