// The gated delta net: causal convolution, gates, delta rule, gated norm. Recurrent operations go through the segments
// of a step in row order and keep their state per sequence slot.
#pragma once

#include "device/ops/op.h"

namespace strata::device {

// Channel layout of the convolved rows: n_key_heads x key_dim q, the same k, then n_value_heads x value_dim v.
struct DeltaShape {
  int n_key_heads = 0;
  int n_value_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  int kernel = 0;      // taps of the convolution
  bool tiled = false;  // value head h uses key head h % n_key_heads; else h / (n_value_heads / n_key_heads)

  int64_t channels() const { return 2 * int64_t{n_key_heads} * key_dim + int64_t{n_value_heads} * value_dim; }
  int64_t conv_state() const { return channels() * (kernel - 1); }
  int64_t state() const { return int64_t{n_value_heads} * value_dim * key_dim; }
};

// y = silu(causal depthwise convolution of x), then q and k of each head divided by their norm (eps added to the sum of
// squares) and q by sqrt(key_dim).
struct DeltaConv {
  static constexpr const char* kName = "delta_conv";
  In<float> x;              // [rows][channels]
  In<float> taps;           // [channels][kernel] packed, the last tap multiplies the current value
  InOut<float> conv_state;  // [slots][channels * (kernel-1)]
  SegmentMap segments;
  Out<float> y;  // [rows][channels]
  DeltaShape shape;
  float eps = 0;
  template <class V>
  void visit(V& v) const {
    v(x);
    v(taps);
    v(conv_state);
    v(segments.n_segments);
    v(segments.segments);
    v(y);
  }
  void check() const {
    ASSERT(x.cols == shape.channels());
    ASSERT(y.cols == shape.channels());
    ASSERT(conv_state.cols == shape.conv_state());
    ASSERT(taps.cols * taps.rows == shape.channels() * shape.kernel);
    ASSERT(!overlap(x, y));
  }
};

// beta = sigmoid(b), g = softplus(a + dt_bias) * decay. With `grouped`, ba holds for each key head its value heads' b,
// then their a; else all b, then all a.
struct DeltaGates {
  static constexpr const char* kName = "delta_gates";
  In<float> ba;       // [rows][2 * n_value_heads]
  In<float> dt_bias;  // [1][n_value_heads]
  In<float> decay;    // [1][n_value_heads], <= 0
  In<int32_t> live;
  Out<float> g_beta;  // [rows][2 * n_value_heads]: all g, then all beta
  int n_key_heads = 0;
  bool grouped = false;
  template <class V>
  void visit(V& v) const {
    v(ba);
    v(dt_bias);
    v(decay);
    v(live);
    v(g_beta);
  }
  void check() const {
    ASSERT(ba.cols == 2 * dt_bias.cols);
    ASSERT(g_beta.cols == ba.cols);
    ASSERT(decay.cols == dt_bias.cols);
    ASSERT(!overlap(ba, g_beta));
  }
};

// The gated delta rule. Segments of at least chunk_min_rows rows use the chunk form, others the step form (equal up to
// rounding); chunk_min_rows 0 means always the step form, whose bits don't depend on how a prompt is cut.
struct DeltaNet {
  static constexpr const char* kName = "delta_net";
  In<float> qkv;       // [rows][channels], as DeltaConv leaves it
  In<float> g_beta;    // [rows][2 * n_value_heads]
  InOut<float> state;  // [slots][n_value_heads * value_dim * key_dim]
  SegmentMap segments;
  Out<float> y;  // [rows][n_value_heads * value_dim]
  DeltaShape shape;
  int chunk_min_rows = 0;
  template <class V>
  void visit(V& v) const {
    v(qkv);
    v(g_beta);
    v(state);
    v(segments.n_segments);
    v(segments.segments);
    v(y);
  }
  void check() const {
    ASSERT(qkv.cols == shape.channels());
    ASSERT(g_beta.cols == 2 * shape.n_value_heads);
    ASSERT(state.cols == shape.state());
    ASSERT(y.cols == int64_t{shape.n_value_heads} * shape.value_dim);
    ASSERT(!overlap(qkv, y));
  }
};

// x[r][head] = rms_norm(x[r][head]) * gain * gate(z[r][head]); the gate is silu or sigmoid.
struct GatedNorm {
  static constexpr const char* kName = "gated_norm";
  InOut<float> x;  // [rows][n_heads * head_dim]
  In<float> z;     // [rows][n_heads * head_dim]
  In<float> gain;  // [1][head_dim]
  In<int32_t> live;
  bool sigmoid_gate = false;
  float eps = 0;
  template <class V>
  void visit(V& v) const {
    v(x);
    v(z);
    v(gain);
    v(live);
  }
  void check() const {
    ASSERT(x.cols == z.cols);
    ASSERT(x.cols % gain.cols == 0);
  }
};

}  // namespace strata::device
