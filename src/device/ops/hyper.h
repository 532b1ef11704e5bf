// Residuals of several streams that each block reads as one mixture and adds to by input-dependent amounts
// ("hyper-connections"). A row holds its streams one behind the other.
#pragma once

#include "device/ops/basic.h"

namespace strata::device {

// With n[c] = x[c] / sqrt(mean(x[c]^2) + eps) * gain[c] for each stream c of C, all of them in a row n:
//   g = sigmoid(W_up silu(W_down n / C)),   y = 1/C * sum over c of g[c] * n[c],   amounts = 2 sigmoid(W_inject n / C).
struct HyperMix {
  static constexpr const char* kName = "hyper_mix";
  In<float> x;     // [rows][n_streams * dim]
  In<float> gain;  // [1][n_streams * dim]
  Weight down;     // [rank][n_streams * dim]
  Weight up;       // [n_streams * dim][rank]
  Weight inject;   // [n_streams][n_streams * dim]; empty: no amounts
  In<int32_t> live;
  Out<float> normed;   // [rows][n_streams * dim] scratch
  Out<float> low;      // [rows][rank] scratch
  Out<float> gates;    // [rows][n_streams * dim] scratch
  Out<float> y;        // [rows][dim]
  Out<float> amounts;  // [rows][n_streams] or empty
  int n_streams = 0;
  float eps = 0;

  MatMul down_product() const { return {.w = down, .x = normed, .bias = {}, .live = live, .y = low}; }
  MatMul up_product() const { return {.w = up, .x = low, .bias = {}, .live = live, .y = gates}; }
  MatMul inject_product() const { return {.w = inject, .x = normed, .bias = {}, .live = live, .y = amounts}; }

  template <class V>
  void visit(V& v) const {
    v(x);
    v(gain);
    v(down);
    v(up);
    v(inject);
    v(live);
    v(normed);
    v(low);
    v(gates);
    v(y);
    v(amounts);
  }
  void check() const {
    ASSERT(x.cols == y.cols * n_streams);
    ASSERT(gain.cols == x.cols);
    ASSERT(low.cols <= gates.cols);
    ASSERT(x.rows == y.rows);
    ASSERT(!overlap(x, normed));
    ASSERT(!overlap(normed, gates));
    ASSERT(!overlap(normed, y));
    ASSERT(inject.empty() == amounts.empty());
    down_product().check();
    up_product().check();
    if (!inject.empty()) inject_product().check();
  }
};

// x[r][c] += amounts[r][c] * y[r] for each stream c; y[r] is zeros afterwards, for the next block to add to.
struct HyperAdd {
  static constexpr const char* kName = "hyper_add";
  InOut<float> y;     // [rows][dim]
  In<float> amounts;  // [rows][n_streams]
  In<int32_t> live;
  InOut<float> x;  // [rows][n_streams * dim]
  template <class V>
  void visit(V& v) const {
    v(y);
    v(amounts);
    v(live);
    v(x);
  }
  void check() const {
    ASSERT(x.cols == y.cols * amounts.cols);
    ASSERT(x.rows == y.rows);
    ASSERT(!overlap(x, y));
    ASSERT(!overlap(y, amounts));
  }
};

}  // namespace strata::device
