// What a model with several residual streams adds to them out of looked-up features: a gate for each stream, and a
// causal convolution with distant taps.
#pragma once

#include "device/ops/op.h"

namespace strata::device {

// For each stream c of n_streams = x.cols / value.cols, with dim = value.cols and rms(v, g) = v / sqrt(mean(v^2) + eps)
// * g over the stream's own dim values:
//   s = rms(key_c, key_gain_c) . rms(x_c, query_gain_c) / sqrt(dim)
//   t = sign(s) * sqrt(max(|s|, 1e-6)), and 0 for s = 0
//   gated_c = sigmoid(t) * value
//   normed_c = rms(gated_c, out_gain_c)
struct StreamGate {
  static constexpr const char* kName = "stream_gate";
  In<float> x;           // [rows][n_streams * dim]
  InOut<float> key;      // [rows][n_streams * dim]; becomes `gated`
  In<float> value;       // [rows][dim]; may be other columns of key's rows
  In<float> key_gain;    // [1][n_streams * dim]
  In<float> query_gain;  // [1][n_streams * dim]
  In<float> out_gain;    // [1][n_streams * dim]
  In<int32_t> live;
  Out<float> normed;  // [rows][n_streams * dim]
  float eps = 0;
  template <class V>
  void visit(V& v) const {
    v(x);
    v(key);
    v(value);
    v(key_gain);
    v(query_gain);
    v(out_gain);
    v(live);
    v(normed);
  }
  void check() const {
    ASSERT(x.cols % value.cols == 0);
    ASSERT(key.cols == x.cols);
    ASSERT(normed.cols == x.cols);
    ASSERT(key_gain.cols == x.cols);
    ASSERT(query_gain.cols == x.cols);
    ASSERT(out_gain.cols == x.cols);
    ASSERT(!overlap(x, key));
    ASSERT(!overlap(x, normed));
    ASSERT(!overlap(key, normed));
    ASSERT(!overlap(value, normed));
  }
};

// x[r] += add[r] + silu(sum_j taps[channel][j] * y at (kernel-1-j) * distance tokens before r), per channel; the last
// tap multiplies the row's own y. What lies before the step comes from the sequence's history, which keeps the last
// n = distance * (kernel-1) rows of y, that of position p in its row p mod n; before the start of a sequence it is 0.
struct DistantConv {
  static constexpr const char* kName = "distant_conv";
  In<float> y;            // [rows][channels]
  In<float> add;          // [rows][channels]
  In<float> taps;         // [channels][kernel] packed
  InOut<float> history;   // [slots][distance * (kernel-1) * channels]
  SegmentMap segments;
  In<int32_t> positions;  // [1][rows]
  InOut<float> x;         // [rows][channels]
  int kernel = 0;
  int distance = 0;

  int64_t depth() const { return int64_t{distance} * (kernel - 1); }
  template <class V>
  void visit(V& v) const {
    v(y);
    v(add);
    v(taps);
    v(history);
    v(segments.n_segments);
    v(segments.segments);
    v(positions);
    v(x);
  }
  void check() const {
    ASSERT(kernel >= 2);
    ASSERT(distance >= 1);
    ASSERT(y.cols == x.cols);
    ASSERT(add.cols == x.cols);
    ASSERT(taps.rows * taps.cols == x.cols * kernel);
    ASSERT(history.cols == depth() * x.cols);
    ASSERT(positions.cols >= x.rows);
    ASSERT(!overlap(x, y));
    ASSERT(!overlap(x, add));
  }
};

}  // namespace strata::device
