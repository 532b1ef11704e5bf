// Attention over a paged KV cache: rope, append, attend.
#pragma once

#include "device/ops/op.h"

namespace strata::device {

// cos_sin[r] = cos then sin of position[r] * inv_freq[p], times magnitude: once per step, for all layers.
struct RopeAngles {
  static constexpr const char* kName = "rope_angles";
  In<int32_t> positions;  // [1][rows]
  In<float> inv_freq;     // [1][n_pairs]
  In<int32_t> live;
  Out<float> cos_sin;  // [rows][2 * n_pairs]
  float magnitude = 1;
  template <class V>
  void visit(V& v) const {
    v(positions);
    v(inv_freq);
    v(live);
    v(cos_sin);
  }
  void check() const {
    ASSERT(cos_sin.cols == 2 * inv_freq.cols);
    ASSERT(positions.cols >= cos_sin.rows);
  }
};

// Per-head norm and rope on q (in place) and k, then k and v go into the KV cache at each row's position.
struct RopeAppend {
  static constexpr const char* kName = "rope_append";
  InOut<float> q;     // [rows][n_heads * q_head_stride]: head h starts at h * q_head_stride
  InOut<float> k;     // [rows][n_kv_heads * key_dim]
  In<float> v;        // [rows][n_kv_heads * value_dim]
  In<float> q_norm;   // [1][key_dim] or empty
  In<float> k_norm;   // [1][key_dim] or empty
  In<float> cos_sin;  // [rows][2 * n_pairs]
  RowMap rows;
  KvBlocks kv;
  int n_heads = 0;
  int q_head_stride = 0;  // key_dim, or 2 * key_dim when each head's gate follows its query
  bool interleaved = false;
  float eps = 0;
  template <class V>
  void visit(V& visitor) const {
    visitor(q);
    visitor(k);
    visitor(v);
    visitor(q_norm);
    visitor(k_norm);
    visitor(cos_sin);
    visitor(rows.live);
    visitor(rows.positions);
    visitor(rows.slots);
    visitor(rows.block_table);
    visitor(kv);
  }
  void check() const {
    ASSERT(q.cols == int64_t{n_heads} * q_head_stride);
    ASSERT(k.cols == int64_t{kv.n_kv_heads} * kv.key_dim);
    ASSERT(v.cols == int64_t{kv.n_kv_heads} * kv.value_dim);
    ASSERT(cos_sin.cols <= kv.key_dim);
    ASSERT(n_heads % kv.n_kv_heads == 0);
    ASSERT(rows.positions.cols >= q.rows);
    ASSERT(!kv.values_in_keys);
    ASSERT(kv.key_dim % kernels::kv_block(kv.type) == 0);
    ASSERT(kv.value_dim % kernels::kv_block(kv.type) == 0);
  }
  void footprint(RangeSink& sink) const;
};

// y[r] = softmax attention of row r over positions (pos - window, pos] of its sequence (all of them when window is 0),
// times sigmoid(gate) when each query head is followed by its gate.
struct Attention {
  static constexpr const char* kName = "attention";
  In<float> q;      // as RopeAppend leaves it
  In<float> sinks;  // [1][n_heads] or empty
  RowMap rows;
  KvBlocks kv;
  Out<float> y;  // [rows][n_heads * value_dim]
  int n_heads = 0;
  int q_head_stride = 0;
  bool gated = false;  // gate of head h: the value_dim values after its query
  int64_t window = 0;
  float scale = 1;
  template <class V>
  void visit(V& v) const {
    v(q);
    v(sinks);
    v(rows.live);
    v(rows.positions);
    v(rows.slots);
    v(rows.block_table);
    v(kv);
    v(y);
  }
  void check() const {
    ASSERT(q.cols == int64_t{n_heads} * q_head_stride);
    ASSERT(y.cols == int64_t{n_heads} * kv.value_dim);
    ASSERT(y.rows == q.rows);
    ASSERT(!gated || q_head_stride >= kv.key_dim + kv.value_dim);
    ASSERT(sinks.empty() || sinks.cols == n_heads);
    ASSERT(!overlap(q, y));
    ASSERT(kernels::kAttentionSpan % kv.block_tokens == 0);
    ASSERT(!kv.values_in_keys);
    ASSERT(kv.key_dim % kernels::kv_block(kv.type) == 0);
    ASSERT(kv.value_dim % kernels::kv_block(kv.type) == 0);
  }
  void footprint(RangeSink& sink) const;
};

// RopeAppend, then the Attention of the same rows to what the cache holds then. Rows of `append` whose use ends here
// may keep the values that they had before.
struct AppendAttend {
  static constexpr const char* kName = "append_attend";
  RopeAppend append;
  In<float> sinks;          // [1][n_heads] or empty
  InOut<int32_t> arrivals;  // [rows][n_heads] zeros before and after: for those who share the work of a row
  Out<float> y;             // [rows][n_heads * value_dim]
  bool gated = false;
  int64_t window = 0;
  float scale = 1;

  Attention attention() const {
    return {.q = View<float>(append.q),
            .sinks = sinks,
            .rows = append.rows,
            .kv = append.kv,
            .y = y,
            .n_heads = append.n_heads,
            .q_head_stride = append.q_head_stride,
            .gated = gated,
            .window = window,
            .scale = scale};
  }
  template <class V>
  void visit(V& v) const {
    append.visit(v);
    v(sinks);
    v(arrivals);
    v(y);
  }
  void check() const {
    append.check();
    attention().check();
    ASSERT(!overlap(append.k, y));
    ASSERT(!overlap(append.v, y));
    ASSERT(arrivals.rows == y.rows);
    ASSERT(arrivals.cols == append.n_heads);
  }
  void footprint(RangeSink& sink) const {
    append.footprint(sink);
    attention().footprint(sink);
  }
};

}  // namespace strata::device
