// Attention of each row to a few blocks of tokens that an index chooses: index keys, choice, attention.
//
// A block is `block` consecutive tokens of a sequence from a multiple of `block` on, and complete when its last token
// is there. `block` divides the tokens of a KV block, so that a block lies in one.
#pragma once

#include "device/ops/attention.h"

namespace strata::device {

// A layer's index: one key for each complete block, where the block table says.
struct BlockIndex {
  InOut<float> keys;     // [KV blocks * keys_per_kv_block()][key_dim]
  int kv_block_tokens = 0;
  int block = 0;

  int keys_per_kv_block() const { return kv_block_tokens / block; }
  bool valid() const { return block > 0 && kv_block_tokens % block == 0; }
};

// Per-head norm and rope on the index queries, in place. The key of each block that a row completes is rope(norm(mean
// of its tokens' k)) at the position of its first token; it goes into the index. `tail` keeps k of the tokens behind a
// sequence's last complete block. Goes through the segments; rows outside them are left alone.
struct IndexAppend {
  static constexpr const char* kName = "index_append";
  InOut<float> q;       // [rows][n_heads * key_dim]
  In<float> k;          // [rows][key_dim]
  In<float> q_norm;     // [1][key_dim]
  In<float> k_norm;     // [1][key_dim]
  In<float> cos_sin;    // [rows][2 * n_pairs]
  In<float> inv_freq;   // [1][n_pairs]
  RowMap rows;          // but for live
  SegmentMap segments;
  InOut<float> tail;  // [slots][(block - 1) * key_dim]: token t at t % block
  BlockIndex index;
  float magnitude = 1;  // of the rope, as cos_sin has it
  float eps = 0;
  template <class V>
  void visit(V& v) const {
    v(q);
    v(k);
    v(q_norm);
    v(k_norm);
    v(cos_sin);
    v(inv_freq);
    v(rows.positions);
    v(rows.slots);
    v(rows.block_table);
    v(segments.n_segments);
    v(segments.segments);
    v(tail);
    v(index.keys);
  }
  void check() const {
    ASSERT(index.valid());
    ASSERT(q.cols % k.cols == 0);
    ASSERT(q.rows == k.rows);
    ASSERT(q_norm.cols == k.cols);
    ASSERT(k_norm.cols == k.cols);
    ASSERT(index.keys.cols == k.cols);
    ASSERT(cos_sin.cols == 2 * inv_freq.cols);
    ASSERT(cos_sin.cols <= k.cols);
    ASSERT(tail.cols == (index.block - 1) * k.cols);
    ASSERT(rows.positions.cols >= q.rows);
  }
};

// The blocks that a row attends to: of the complete ones up to its position all while they are at most `most`, else the
// `most` with the highest score, which is the sum over heads of max(0, q_h . key); of equal scores the earlier block.
// Then the incomplete block at its position, if there is one. They stand in order of position, as blocks of `block`
// tokens of the KV cache: entry e is its tokens e * block to (e + 1) * block - 1.
struct SelectBlocks {
  static constexpr const char* kName = "select_blocks";
  In<float> q;  // [rows][n_heads * key_dim], as IndexAppend leaves it
  RowMap rows;
  BlockIndex index;
  Out<int32_t> chosen;  // [rows][most + 2]: the number of complete blocks, then the blocks
  int most = 0;
  template <class V>
  void visit(V& v) const {
    v(q);
    v(rows.live);
    v(rows.positions);
    v(rows.slots);
    v(rows.block_table);
    v(In<float>(index.keys));
    v(chosen);
  }
  void check() const {
    ASSERT(index.valid());
    ASSERT(most > 0);
    ASSERT(chosen.cols == most + 2);
    ASSERT(chosen.rows == q.rows);
    ASSERT(q.cols % index.keys.cols == 0);
    ASSERT(rows.positions.cols >= q.rows);
  }
};

// Attention of each row to the tokens of its chosen blocks up to its own position.
struct SparseAttention {
  static constexpr const char* kName = "sparse_attention";
  In<float> q;          // as RopeAppend leaves it
  In<int32_t> chosen;   // as SelectBlocks leaves it
  RowMap rows;
  KvBlocks kv;
  Out<float> y;  // [rows][n_heads * value_dim]
  int n_heads = 0;
  int q_head_stride = 0;
  bool gated = false;  // as in Attention
  int block = 0;
  float scale = 1;

  // What it is for rows that attend to all they could.
  Attention dense() const {
    return {.q = q,
            .sinks = {},
            .rows = rows,
            .kv = kv,
            .y = y,
            .n_heads = n_heads,
            .q_head_stride = q_head_stride,
            .gated = gated,
            .window = 0,
            .scale = scale};
  }
  template <class V>
  void visit(V& v) const {
    dense().visit(v);
    v(chosen);
  }
  void check() const {
    dense().check();
    ASSERT(block > 0);
    ASSERT(kv.block_tokens % block == 0);
    ASSERT(chosen.rows == q.rows);
    ASSERT(chosen.cols > 2);
  }
  void footprint(RangeSink& sink) const;
};

}  // namespace strata::device
