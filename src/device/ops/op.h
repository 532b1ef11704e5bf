// What every operation is made of. An operation is a trivially copyable struct with
//   kName            its name in messages,
//   visit(v)         v(view) for each of its views, weights and block sets,
//   check()          asserts on shapes and aliasing: called when it is bound to a stream, never on replay,
//   footprint(sink)  only for the indirect readers: the ranges it touches given what the memory holds when it runs.
//
// Steps are replayable: what changes from step to step lies in buffers. Row operations work on the first live[0] rows
// of their views (a bucket); the other rows are neither read nor written.
#pragma once

#include <cstdint>

#include "device/view.h"
#include "device/weight.h"

namespace strata::device {

// A layer's KV cache: blocks of `block_tokens` tokens; a token holds n_kv_heads x head_dim elements.
struct KvBlocks {
  Memory* k = nullptr;
  Memory* v = nullptr;
  kernels::KvType type = kernels::KvType::kF32;
  int block_tokens = 0;
  int n_blocks = 0;
  int n_kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  bool values_in_keys = false;  // a head's values are the first of its key: v is k, and n_kv_heads is 1

  size_t k_token_bytes() const { return kernels::kv_bytes(type, int64_t{n_kv_heads} * key_dim); }
  // From the values of a token to those of the next.
  size_t v_token_bytes() const {
    return values_in_keys ? k_token_bytes() : kernels::kv_bytes(type, int64_t{n_kv_heads} * value_dim);
  }
  // What a token takes.
  size_t token_bytes() const { return k_token_bytes() + (values_in_keys ? 0 : v_token_bytes()); }
};

// Where the rows of a step belong. All are inputs of the step, int32.
struct RowMap {
  In<int32_t> live;         // [1] rows in use
  In<int32_t> positions;    // [rows] position in its sequence
  In<int32_t> slots;        // [rows] sequence slot
  In<int32_t> block_table;  // [slots][blocks per sequence] KV block of each run of block_tokens positions
};

// A run of consecutive rows of one sequence: what recurrent operations go through in order.
// segments: [n][3] = slot, first row, rows; n_segments[0] of them are in use.
struct SegmentMap {
  In<int32_t> n_segments;
  In<int32_t> segments;
};

// Receives ranges; used by footprint().
class RangeSink {
 public:
  virtual ~RangeSink() = default;
  virtual void add(const Range& range) = 0;
};

}  // namespace strata::device
