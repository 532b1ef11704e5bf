// Embedding, normalisation, matrix products, activations and row moves.
#pragma once

#include "device/ops/op.h"

namespace strata::device {

// y[r] = row ids[r] of the table, as float32. Ids are in range (the engine checks them).
struct Embed {
  static constexpr const char* kName = "embed";
  Weight table;     // [vocab][dim]
  In<int32_t> ids;  // [1][rows]
  In<int32_t> live;
  Out<float> y;  // [rows][dim]
  template <class V>
  void visit(V& v) const {
    v(table);
    v(ids);
    v(live);
    v(y);
  }
  void check() const {
    ASSERT(table.cols == y.cols);
    ASSERT(ids.cols >= y.rows);
  }
};

// y[r] = x[r] / sqrt(mean(x[r]^2) + eps) * gain
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  In<float> x;     // [rows][dim]
  In<float> gain;  // [1][dim]
  In<int32_t> live;
  Out<float> y;  // [rows][dim], not x
  float eps = 0;
  template <class V>
  void visit(V& v) const {
    v(x);
    v(gain);
    v(live);
    v(y);
  }
  void check() const {
    ASSERT(x.cols == y.cols);
    ASSERT(gain.cols == x.cols);
    ASSERT(x.rows == y.rows);
    ASSERT(!overlap(x, y));
  }
};

// y[r] = W x[r] (+ bias), or with `accumulate` y[r] += that.
struct MatMul {
  static constexpr const char* kName = "mat_mul";
  Weight w;        // [out][in]
  In<float> x;     // [rows][in]
  In<float> bias;  // [1][out] or empty
  In<int32_t> live;
  InOut<float> y;  // [rows][out]
  bool accumulate = false;
  template <class V>
  void visit(V& v) const {
    v(w);
    v(x);
    v(bias);
    v(live);
    if (accumulate)
      v(y);
    else
      v(Out<float>(y));
  }
  void check() const {
    ASSERT(w.cols == x.cols);
    ASSERT(w.rows == y.cols);
    ASSERT(x.rows == y.rows);
    ASSERT(bias.empty() || bias.cols == w.rows);
    ASSERT(!overlap(x, y));
  }
};

// Products of the same rows with several matrices, after an RMS norm of the rows: n = x[r] / sqrt(mean(x[r]^2) + eps) *
// gain, or x[r] where gain is empty; y[r] = W_0 n (+ bias_0), then W_1 n (+ bias_1) and so on in the columns behind.
struct Project {
  static constexpr const char* kName = "project";
  static constexpr int kMost = 4;
  struct Part {
    Weight w;        // [out][in]; empty: there are no more
    In<float> bias;  // [1][out] or empty
  };
  In<float> x;     // [rows][in]
  In<float> gain;  // [1][in] or empty
  Part parts[kMost] = {};
  In<int32_t> live;
  Out<float> normed;  // [rows][in] scratch: holds the normed rows or not. With a gain
  Out<float> y;       // [rows][out of all parts]
  float eps = 0;

  bool has(int part) const { return part < kMost && !parts[part].w.empty(); }
  // The parts one by one, from their inputs on.
  MatMul product(int part) const {
    int64_t column = 0;
    for (int i = 0; i < part; i++) column += parts[i].w.rows;
    return {.w = parts[part].w,
            .x = gain.empty() ? x : In<float>(normed),
            .bias = parts[part].bias,
            .live = live,
            .y = y.columns(column, parts[part].w.rows)};
  }
  RmsNorm norm() const { return {.x = x, .gain = gain, .live = live, .y = normed, .eps = eps}; }

  template <class V>
  void visit(V& v) const {
    v(x);
    v(gain);
    for (int i = 0; has(i); i++) {
      v(parts[i].w);
      v(parts[i].bias);
    }
    v(live);
    v(normed);
    v(y);
  }
  void check() const {
    ASSERT(has(0));
    ASSERT(!overlap(x, y));
    if (!gain.empty()) norm().check();
    int64_t columns = 0;
    for (int i = 0; has(i); i++) {
      product(i).check();
      columns += parts[i].w.rows;
    }
    ASSERT(columns == y.cols);
  }
};

// gate[r] = silu(gate[r]) * up[r], in place.
struct SiluMul {
  static constexpr const char* kName = "silu_mul";
  InOut<float> gate;  // [rows][n]
  In<float> up;       // [rows][n]
  In<int32_t> live;
  template <class V>
  void visit(V& v) const {
    v(gate);
    v(up);
    v(live);
  }
  void check() const {
    ASSERT(gate.cols == up.cols);
    ASSERT(gate.rows == up.rows);
  }
};

// x[r] += sigmoid(gate[r]) * y[r]; an empty gate adds y as it is.
struct AddGated {
  static constexpr const char* kName = "add_gated";
  In<float> y;     // [rows][dim]
  In<float> gate;  // [rows][1] or empty
  In<int32_t> live;
  InOut<float> x;  // [rows][dim]
  template <class V>
  void visit(V& v) const {
    v(y);
    v(gate);
    v(live);
    v(x);
  }
  void check() const {
    ASSERT(x.cols == y.cols);
    ASSERT(gate.empty() || gate.cols == 1);
    ASSERT(!overlap(x, y));
  }
};

// y[i] = x[rows[i]] for i < live[0].
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  In<float> x;       // [n][dim]
  In<int32_t> rows;  // [1][m] row numbers of x
  In<int32_t> live;  // [1] entries of rows in use
  Out<float> y;      // [m][dim]
  template <class V>
  void visit(V& v) const {
    v(x);
    v(rows);
    v(live);
    v(y);
  }
  void check() const {
    ASSERT(x.cols == y.cols);
    ASSERT(rows.cols >= y.rows);
    ASSERT(!overlap(x, y));
  }
};

}  // namespace strata::device
