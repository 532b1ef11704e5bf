// Routing and the sum over experts.
#pragma once

#include "device/ops/op.h"

namespace strata::device {

// logits = W x (+ bias); ids and weights of the k experts of each row, best first (kernels::route).
struct Router {
  static constexpr const char* kName = "router";
  Weight w;                  // [n_experts][dim]
  In<float> x;               // [rows][dim]
  In<float> bias;            // [1][n_experts] added to the logits, or empty
  In<float> selection_bias;  // [1][n_experts] added to the scores for choosing only, or empty
  In<int32_t> live;
  Out<int32_t> ids;    // [rows][k]
  Out<float> weights;  // [rows][k]
  Out<float> logits;   // [rows][n_experts], scratch
  kernels::RouteParams params{};
  template <class V>
  void visit(V& v) const {
    v(w);
    v(x);
    v(bias);
    v(selection_bias);
    v(live);
    v(ids);
    v(weights);
    v(logits);
  }
  void check() const {
    ASSERT(w.cols == x.cols);
    ASSERT(w.rows == params.n_experts);
    ASSERT(ids.cols == params.n_used);
    ASSERT(weights.cols == params.n_used);
    ASSERT(logits.cols == params.n_experts);
  }
};

// x[r] += sum over j of weights[r][j] * rows[r*k + j], the sum formed in rank order j = 0, 1, ... before it is added.
struct Combine {
  static constexpr const char* kName = "combine";
  In<float> rows;     // [n * k][dim] one row per (token, rank)
  In<float> weights;  // [n][k]
  In<int32_t> ids;    // [n][k]
  In<int32_t> live;
  InOut<float> x;  // [n][dim]
  template <class V>
  void visit(V& v) const {
    v(rows);
    v(weights);
    v(ids);
    v(live);
    v(x);
  }
  void check() const {
    ASSERT(rows.cols == x.cols);
    ASSERT(rows.rows >= x.rows * weights.cols);
    ASSERT(!overlap(rows, x));
  }
};

}  // namespace strata::device
