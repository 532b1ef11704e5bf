// Where the rows of a step belong, as kernels take it.
#pragma once

#include "device/ops/op.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/segments.h"

namespace strata::device::cuda {

inline kernels::cuda::Places places_of(const RowMap& rows) {
  return {.positions = rows.positions.data(),
          .slots = rows.slots.data(),
          .block_table = rows.block_table.data(),
          .table_stride = rows.block_table.stride,
          .max_blocks = rows.block_table.cols};
}

inline kernels::cuda::KvCache cache_of(const KvBlocks& kv) {
  return {.k = reinterpret_cast<uint8_t*>(kv.k->address()),
          .v = reinterpret_cast<uint8_t*>(kv.v->address()),
          .type = kv.type,
          .block_tokens = kv.block_tokens,
          .n_kv_heads = kv.n_kv_heads,
          .key_dim = kv.key_dim,
          .value_dim = kv.value_dim,
          .k_token_bytes = kv.k_token_bytes(),
          .v_token_bytes = kv.v_token_bytes(),
          .k_head_bytes = kernels::kv_bytes(kv.type, kv.key_dim),
          .v_head_bytes = kernels::kv_bytes(kv.type, kv.value_dim)};
}

inline kernels::cuda::Segments segments_of(const SegmentMap& map) {
  return {.count = map.n_segments.data(),
          .segments = map.segments.data(),
          .stride = map.segments.stride,
          .max_segments = map.segments.rows};
}

}  // namespace strata::device::cuda
