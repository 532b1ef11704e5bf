// Multi-head latent attention in absorbed form: a token keeps one row, a latent and one rotated key, which all heads
// read. Matrices of the heads bring queries into the space of the latent and results back from it.
#pragma once

#include "device/ops/attention.h"

namespace strata::device {

// y[r][h] = W_h x[r][h] for each head h, or with `transposed` W_h^T x[r][h].
struct HeadMatMul {
  static constexpr const char* kName = "head_mat_mul";
  Weight w;     // [n_heads * rows of a head][cols]: W_0, W_1 and so on; a transposed one is not rounded
  In<float> x;  // [rows][n_heads * x_head_stride]: head h starts at h * x_head_stride
  In<int32_t> live;
  Out<float> y;  // [rows][n_heads * y_head_stride]; what lies between the heads is left alone
  int n_heads = 0;
  bool transposed = false;

  int64_t head_rows() const { return w.rows / n_heads; }
  int64_t inputs() const { return transposed ? head_rows() : w.cols; }    // of a head
  int64_t outputs() const { return transposed ? w.cols : head_rows(); }
  int64_t x_head_stride() const { return x.cols / n_heads; }
  int64_t y_head_stride() const { return y.cols / n_heads; }

  template <class V>
  void visit(V& v) const {
    v(w);
    v(x);
    v(live);
    v(y);
  }
  void check() const {
    ASSERT(n_heads > 0);
    ASSERT(w.rows % n_heads == 0);
    ASSERT(x.cols % n_heads == 0);
    ASSERT(y.cols % n_heads == 0);
    ASSERT(inputs() <= x_head_stride());
    ASSERT(outputs() <= y_head_stride());
    ASSERT(x.rows == y.rows);
    ASSERT(w.rounding != Rounding::kTwice);
    ASSERT(!transposed || w.rounding == Rounding::kNone);
    ASSERT(!overlap(x, y));
  }
};

// Appends a row to the cache, and attends to what it holds then:
//   latent[r] = [rms_norm(c) * gain | rope(k)], which goes into the cache at the row's position (key_dim values, of
//   which the first value_dim are the value),
//   q[r][h] = [absorbed | rope(the last n_rot values of heads[r][h])], whose first part is given,
//   y[r][h] = softmax attention of q[r][h] over the positions up to the row's own, values being the latents.
// Rope pairs are interleaved (2p, 2p+1), n_rot = key_dim - value_dim.
struct LatentAttend {
  static constexpr const char* kName = "latent_attend";
  In<float> heads;      // [rows][n_heads * stride], stride >= n_rot: queries as they were projected
  InOut<float> q;       // [rows][n_heads * key_dim]
  InOut<float> latent;  // [rows][key_dim]: c | k as they were projected
  In<float> gain;       // [1][value_dim]
  In<float> cos_sin;    // [rows][n_rot]
  RowMap rows;
  KvBlocks kv;    // values_in_keys
  Out<float> y;   // [rows][n_heads * value_dim]
  int n_heads = 0;
  float scale = 1;
  float eps = 0;

  int n_rot() const { return kv.key_dim - kv.value_dim; }
  int64_t head_stride() const { return heads.cols / n_heads; }

  template <class V>
  void visit(V& v) const {
    v(heads);
    v(q);
    v(latent);
    v(gain);
    v(cos_sin);
    v(rows.live);
    v(rows.positions);
    v(rows.slots);
    v(rows.block_table);
    v(kv);
    v(y);
  }
  void check() const {
    ASSERT(n_heads > 0);
    ASSERT(kv.values_in_keys);
    ASSERT(kv.v == kv.k);
    ASSERT(kv.n_kv_heads == 1);
    ASSERT(kv.value_dim < kv.key_dim);
    ASSERT(heads.cols % n_heads == 0);
    ASSERT(head_stride() >= n_rot());
    ASSERT(q.cols == int64_t{n_heads} * kv.key_dim);
    ASSERT(latent.cols == kv.key_dim);
    ASSERT(gain.cols == kv.value_dim);
    ASSERT(cos_sin.cols == n_rot());
    ASSERT(y.cols == int64_t{n_heads} * kv.value_dim);
    ASSERT(heads.rows == y.rows);
    ASSERT(q.rows == y.rows);
    ASSERT(latent.rows == y.rows);
    ASSERT(rows.positions.cols >= y.rows);
    ASSERT(!overlap(q, y));
    ASSERT(!overlap(q, heads));
    ASSERT(!overlap(latent, y));
    ASSERT(kernels::kAttentionSpan % kv.block_tokens == 0);
    ASSERT(kv.key_dim % kernels::kv_block(kv.type) == 0);
    ASSERT(kv.value_dim % kernels::kv_block(kv.type) == 0);
  }
  void footprint(RangeSink& sink) const;
};

}  // namespace strata::device
