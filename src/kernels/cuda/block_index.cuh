// Where the blocks of a sequence and their keys lie.
#pragma once

#include "kernels/cuda/block_index.h"

namespace strata::kernels::cuda {

// Block b of a sequence, counted through the KV cache in blocks of index.block tokens: the row of its key.
__device__ __forceinline__ int64_t cache_block(const Places& places, const BlockKeys& index, int32_t slot, int64_t b) {
  const auto per_kv = static_cast<uint32_t>(index.kv_block_tokens / index.block), at = static_cast<uint32_t>(b);
  const int32_t kv_block = places.block_table[slot * places.table_stride + at / per_kv];
  return int64_t{kv_block} * per_kv + at % per_kv;
}

// Complete blocks up to a position.
__device__ __forceinline__ int64_t complete_blocks(const BlockKeys& index, int64_t position) {
  return (position + 1) / index.block;
}

}  // namespace strata::kernels::cuda
