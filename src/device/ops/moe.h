// Routing, the routed experts that lie in the slots of a device, and the sum over experts.
#pragma once

#include <span>

#include "device/ops/op.h"

namespace strata::device {

// What one expert computes, as data: h = activation(gate x (+bias), up x (+bias)); out = down h (+bias). Scales of the
// blob multiply a product before its bias.
struct ExpertFormula {
  enum class Activation {
    kSiluMul,        // silu(g) * u
    kSwigluClamped,  // g = min(g, limit), u = clamp(u, +-limit); g * sigmoid(alpha g) * (u + 1)
  };
  Activation activation = Activation::kSiluMul;
  float alpha = 0;
  float limit = 0;
  bool round_activations = false;  // to 8 bits, before products with types that have integer products
};

// A matrix of an expert within its blob; offsets are bytes from the start of the blob.
struct ExpertMatrix {
  quant::Type type = quant::Type::F32;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs, contiguous
  size_t row_bytes = 0;
  size_t offset = 0;          // of row 0
  int64_t bias_offset = -1;   // float32 [rows]; -1: no bias
  int64_t scale_offset = -1;  // one float32; -1: no scale
};

// The blobs of a layer's experts: alike, wherever each of them lies.
struct ExpertBlob {
  ExpertMatrix gate;  // [ffn][dim]
  ExpertMatrix up;    // [ffn][dim]
  ExpertMatrix down;  // [dim][ffn]
  size_t bytes = 0;
};

// Memory of which an operation reads the blobs that a table names: those in slots, and those that stay in page-locked
// memory of the host and are read over the link.
struct ExpertSlots {
  Memory* memory = nullptr;  // null: a table names linked experts alone
  In<int64_t> offsets;       // [1][n_slots] where each slot starts: bytes, a multiple of 16
  std::span<const Memory* const> linked = {};  // pinned, of whichever device; what holds the span outlives all uses
  In<int64_t> linked_at = {};  // [1][n_experts] address of each expert of the layer in one of them, or 0
  // The operation directly in front on the stream is the FetchExperts that has written linked_at, and each linked
  // expert has come to a row of its stage, which is aligned as slots are.
  bool fetched = false;
};
// What a table says of an expert that is read over the link, instead of its slot.
inline constexpr int32_t kLinkedPlace = INT32_MAX;

// logits = W x (+ bias); ids and weights of the k experts of each row, best first (kernels::route). With a gain the
// formula of RmsNorm comes first: normed = rms_norm(x) * gain, and that is multiplied.
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
  In<float> gain = {};     // [1][dim] or empty: no norm
  Out<float> normed = {};  // [rows][dim], not x; empty without a gain
  float eps = 0;
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
    v(gain);
    v(normed);
  }
  void check() const {
    ASSERT(w.cols == x.cols);
    ASSERT(w.rows == params.n_experts);
    ASSERT(ids.cols == params.n_used);
    ASSERT(weights.cols == params.n_used);
    ASSERT(logits.cols == params.n_experts);
    ASSERT(gain.empty() == normed.empty());
    if (gain.empty()) return;
    ASSERT(gain.cols == x.cols);
    ASSERT(normed.cols == x.cols);
    ASSERT(normed.rows == x.rows);
    ASSERT(!overlap(x, normed));
  }
};

// y[r*k + j] = the ExpertFormula of x[r] for every pair (r, j) whose expert ids[r][j] is in a slot or linked; the rows
// of the other pairs are left alone. A pair's result does not depend on the pairs beside it.
// With `weights` the rows of y are scratch, and what they hold goes to sum[r] as Combine would add it; the other pairs
// add nothing.
struct ExpertFfn {
  static constexpr const char* kName = "expert_ffn";
  In<float> x;          // [rows][dim]
  In<int32_t> ids;      // [rows][k], in [0, n_experts)
  In<int32_t> live;     // [1]
  In<int32_t> slot_of;  // [1][n_experts] slot of each expert of the layer, kLinkedPlace, or -1
  ExpertSlots slots;
  ExpertBlob blob;
  ExpertFormula formula;
  Out<float> inputs;    // [rows * k][at least max(dim, ffn)], scratch
  Out<float> hidden;    // [rows * k][ffn], scratch
  Out<int32_t> groups;  // [1][expert_group_ints(rows * k, n_experts)], scratch
  Out<float> y;         // [rows * k][dim]
  In<float> weights = {};  // [rows][k] or empty: no sum
  InOut<float> sum = {};   // [rows][dim], not x; empty without weights
  template <class V>
  void visit(V& v) const {
    v(x);
    v(ids);
    v(live);
    v(slot_of);
    v(slots);
    v(slots.offsets);
    v(slots.linked_at);
    v(inputs);
    v(hidden);
    v(groups);
    v(y);
    v(weights);
    v(sum);
  }
  void check() const;
  void footprint(RangeSink& sink) const;
};
// Integers in which the pairs of a step are sorted by expert: the sorted pairs, and three for every expert.
constexpr int64_t expert_group_ints(int64_t n_pairs, int64_t n_experts) { return n_pairs + 3 * n_experts + 1; }

// x[r] += sum over j of weights[r][j] * row of the pair r*k + j, the sum formed in rank order j = 0, 1, ... before it
// is added. Rows of pairs whose expert is in no slot are those of `arrived`, which may lie in pinned memory of the host
// and is read for these pairs only; without `arrived` all are in `rows`.
struct Combine {
  static constexpr const char* kName = "combine";
  In<float> rows;     // [n * k][dim] one row per (token, rank)
  In<float> weights;  // [n][k]
  In<int32_t> ids;    // [n][k]
  In<int32_t> live;
  InOut<float> x;             // [n][dim]
  In<float> arrived = {};     // [n * k][dim] or empty
  In<int32_t> slot_of = {};   // [1][n_experts], with `arrived`; < 0: in no slot
  template <class V>
  void visit(V& v) const {
    v(rows);
    v(weights);
    v(ids);
    v(live);
    v(x);
    v(arrived);
    v(slot_of);
  }
  void check() const {
    ASSERT(rows.cols == x.cols);
    ASSERT(rows.rows >= x.rows * weights.cols);
    ASSERT(!overlap(rows, x));
    ASSERT(arrived.empty() == slot_of.empty());
    ASSERT(arrived.empty() || arrived.cols == x.cols);
    ASSERT(arrived.empty() || arrived.rows >= x.rows * weights.cols);
  }
};

}  // namespace strata::device
