// Embedding, norms, products, activations, row moves, routing and the sum over experts.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/op_matrix.h"
#include "kernels/ref/ref.h"

namespace strata::test {

namespace ref = kernels::ref;
using device::Device;
using device::Weight;

namespace {

constexpr int64_t kBucket = 7;  // rows of the views
constexpr int32_t kLive = 5;    // rows in use

void embed(Device& device, OpCases& cases, quant::Type type) {
  OpCase& c = add_case<device::Embed>(device, cases, std::string("_") + quant::info(type).name);
  constexpr int64_t kDim = 256;
  const Matrix table(c, type, 11, kDim);
  const auto ids = c.grid<int32_t>(1, kBucket);
  const auto live = c.count_grid();
  const auto y = c.grid<float>(kBucket, kDim);
  c.fill = [=](Random& random) {
    table.fill(random);
    for (int64_t r = 0; r < kLive; r++) ids->at(0, r) = static_cast<int32_t>(random.below(11));
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) { s.enqueue(device::Embed{.table = table, .ids = *ids, .live = *live, .y = *y}); };
  c.expect = [=] {
    std::vector<Want> wants;
    const std::vector<float> values = table.values();
    for (int64_t r = 0; r < kLive; r++) {
      const float* row = values.data() + ids->at(0, r) * kDim;
      want_row(wants, y->row(r), {row, row + kDim}, 0);
    }
    return wants;
  };
}

void rms_norm(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::RmsNorm>(device, cases, "");
  constexpr int64_t kDim = 37;
  constexpr float kEps = 1e-2f;  // large enough to show where it is added
  const auto x = c.grid<float>(kBucket, kDim);
  const auto gain = c.grid<float>(1, kDim);
  const auto live = c.count_grid();
  const auto y = c.grid<float>(kBucket, kDim);
  c.fill = [=](Random& random) {
    x->fill_normal(random, 0.3);
    gain->fill_normal(random);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::RmsNorm{.x = *x, .gain = *gain, .live = *live, .y = *y, .eps = kEps});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      std::vector<double> row(kDim);
      ref::rms_norm(x->row(r), gain->row(0), row.data(), kDim, double{kEps});
      want_row(wants, y->row(r), row, kDim);
    }
    return wants;
  };
}

struct MatMulForm {
  const char* name;
  quant::Type type;
  bool bias, accumulate;
  int64_t rows, cols, bucket, live;
};

void mat_mul(Device& device, OpCases& cases, const MatMulForm& form) {
  OpCase& c = add_case<device::MatMul>(device, cases, form.name);
  const Matrix w(c, form.type, form.rows, form.cols);
  const auto x = c.grid<float>(form.bucket, form.cols);
  const auto bias = form.bias ? c.grid<float>(1, form.rows) : nullptr;
  const auto live = c.count_grid();
  const auto y = c.grid<float>(form.bucket, form.rows);
  c.fill = [=](Random& random) {
    w.fill(random);
    x->fill_normal(random);
    if (bias) bias->fill_normal(random, 3);
    if (form.accumulate) y->fill_normal(random, 3);
    live->at(0, 0) = static_cast<int32_t>(form.live);
  };
  c.enqueue = [=](device::Stream& s) {
    device::MatMul op{.w = w, .x = *x, .bias = {}, .live = *live, .y = *y, .accumulate = form.accumulate};
    if (bias) op.bias = *bias;
    s.enqueue(op);
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const std::vector<float> values = w.values();
    for (int64_t t = 0; t < form.live; t++) {
      for (int64_t r = 0; r < form.rows; r++) {
        const float* row = values.data() + r * form.cols;
        double value = ref::dot(row, x->row(t), form.cols);
        double size = product_size(row, x->row(t), form.cols) + std::abs(value);
        if (bias) value += bias->at(0, r), size += std::abs(bias->at(0, r));
        if (form.accumulate) value += y->at(t, r), size += std::abs(y->at(t, r));
        wants.push_back({&y->at(t, r), value, static_cast<double>(form.cols) * kRounding * size});
      }
    }
    return wants;
  };
}

struct ProjectForm {
  const char* name;
  quant::Type type;
  std::vector<int64_t> rows;  // of each part
  bool norm, biases;
};

void project(Device& device, OpCases& cases, const ProjectForm& form) {
  OpCase& c = add_case<device::Project>(device, cases, form.name);
  constexpr int64_t kDim = 64;
  constexpr float kEps = 1e-2f;
  const int64_t all_rows = std::accumulate(form.rows.begin(), form.rows.end(), int64_t{0});
  const auto x = c.grid<float>(kBucket, kDim);
  const auto gain = c.grid<float>(1, kDim);
  std::vector<Matrix> weights;
  for (const int64_t rows : form.rows) weights.emplace_back(c, form.type, rows, kDim);
  const auto bias = c.grid<float>(1, all_rows);
  const auto live = c.count_grid();
  const auto normed = c.grid<float>(kBucket, kDim);
  const auto y = c.grid<float>(kBucket, all_rows);
  c.fill = [=](Random& random) {
    x->fill_normal(random, 0.3);
    gain->fill_normal(random);
    for (const Matrix& w : weights) w.fill(random);
    bias->fill_normal(random, 3);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    device::Project op{.x = *x, .gain = {}, .live = *live, .normed = *normed, .y = *y, .eps = kEps};
    if (form.norm) op.gain = *gain;
    int64_t column = 0;
    for (size_t i = 0; i < weights.size(); i++) {
      op.parts[i].w = weights[i];
      if (form.biases) op.parts[i].bias = bias->view().columns(column, form.rows[i]);
      column += form.rows[i];
    }
    s.enqueue(op);
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t t = 0; t < kLive; t++) {
      std::vector<double> row(x->row(t), x->row(t) + kDim);
      if (form.norm) ref::rms_norm(x->row(t), gain->row(0), row.data(), kDim, double{kEps});
      int64_t column = 0;
      for (size_t part = 0; part < weights.size(); part++) {
        const std::vector<float> values = weights[part].values();
        for (int64_t r = 0; r < form.rows[part]; r++, column++) {
          double value = form.biases ? bias->at(0, column) : 0, size = std::abs(value);
          for (int64_t i = 0; i < kDim; i++) {
            const double term = double{values[static_cast<size_t>(r * kDim + i)]} * row[static_cast<size_t>(i)];
            value += term;
            size += std::abs(term);
          }
          wants.push_back({&y->at(t, column), value, (2 * kDim + 8) * kRounding * size});
        }
      }
      if (form.norm) want_scratch(wants, normed->row(t), kDim);
    }
    return wants;
  };
}

void silu_mul(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::SiluMul>(device, cases, "");
  constexpr int64_t kN = 53;
  const auto gate = c.grid<float>(kBucket, kN);
  const auto up = c.grid<float>(kBucket, kN);
  const auto live = c.count_grid();
  c.fill = [=](Random& random) {
    gate->fill_normal(random, 3);
    up->fill_normal(random);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) { s.enqueue(device::SiluMul{.gate = *gate, .up = *up, .live = *live}); };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      std::vector<double> row(kN);
      ref::silu_mul(gate->row(r), up->row(r), row.data(), kN);
      want_row(wants, gate->row(r), row, 16);
    }
    return wants;
  };
}

void add_gated(Device& device, OpCases& cases, bool gated) {
  OpCase& c = add_case<device::AddGated>(device, cases, gated ? "" : "_without_gate");
  constexpr int64_t kDim = 29;
  const auto y = c.grid<float>(kBucket, kDim);
  const auto gate = gated ? c.grid<float>(kBucket, 1) : nullptr;
  const auto live = c.count_grid();
  const auto x = c.grid<float>(kBucket, kDim);
  c.fill = [=](Random& random) {
    y->fill_normal(random);
    if (gate) gate->fill_normal(random, 2);
    x->fill_normal(random);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    device::AddGated op{.y = *y, .gate = {}, .live = *live, .x = *x};
    if (gate) op.gate = *gate;
    s.enqueue(op);
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      const double factor = gate ? ref::sigmoid(gate->at(r, 0)) : 1;
      for (int64_t i = 0; i < kDim; i++) {
        const double added = factor * y->at(r, i);
        wants.push_back({&x->at(r, i), x->at(r, i) + added,
                         8 * kRounding * (std::abs(added) + std::abs(x->at(r, i)))});
      }
    }
    return wants;
  };
}

void gather_rows(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::GatherRows>(device, cases, "");
  constexpr int64_t kDim = 31;
  const auto x = c.grid<float>(9, kDim);
  const auto rows = c.grid<int32_t>(1, 4);
  const auto live = c.count_grid();
  const auto y = c.grid<float>(4, kDim);
  c.fill = [=](Random& random) {
    x->fill_normal(random);
    live->at(0, 0) = 3;
    for (int64_t i = 0; i < 3; i++) rows->at(0, i) = static_cast<int32_t>(random.below(9));
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::GatherRows{.x = *x, .rows = *rows, .live = *live, .y = *y});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t i = 0; i < 3; i++) {
      const float* row = x->row(rows->at(0, i));
      want_row(wants, y->row(i), {row, row + kDim}, 0);
    }
    return wants;
  };
}

// The choice and the weights of one row, in doubles: softmax over all experts.
void route_row(const std::vector<double>& logits, const float* selection_bias, int k, bool normalize,
               std::vector<int>& ids, std::vector<double>& weights) {
  std::vector<double> p = logits;
  const double max = *std::max_element(p.begin(), p.end());
  double total = 0;
  for (double& v : p) total += v = std::exp(v - max);
  for (double& v : p) v /= total;
  std::vector<int> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int e) {
    return p[static_cast<size_t>(e)] + (selection_bias != nullptr ? double{selection_bias[e]} : 0.0);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return score(a) > score(b); });
  ids.assign(order.begin(), order.begin() + k);
  double sum = 0;
  weights.clear();
  for (const int e : ids) weights.push_back(p[static_cast<size_t>(e)]), sum += weights.back();
  if (normalize) {
    for (double& w : weights) w /= sum;
  }
}

void router(Device& device, OpCases& cases, bool with_biases, bool with_norm) {
  OpCase& c = add_case<device::Router>(device, cases,
                                       std::string(with_biases ? "_with_biases" : "") + (with_norm ? "_and_norm" : ""));
  constexpr float kEps = 1e-2f;
  constexpr int64_t kExperts = 19, kDim = 24;
  constexpr int kUsed = 3;
  const Matrix w(c, quant::Type::F32, kExperts, kDim);
  const auto x = c.grid<float>(kBucket, kDim);
  const auto bias = with_biases ? c.grid<float>(1, kExperts) : nullptr;
  const auto selection_bias = with_biases ? c.grid<float>(1, kExperts) : nullptr;
  const auto live = c.count_grid();
  const auto ids = c.grid<int32_t>(kBucket, kUsed);
  const auto weights = c.grid<float>(kBucket, kUsed);
  const auto logits = c.grid<float>(kBucket, kExperts);
  const auto gain = c.grid<float>(1, kDim);
  const auto normed = c.grid<float>(kBucket, kDim);
  c.fill = [=](Random& random) {
    w.fill(random);
    x->fill_normal(random, 0.3);
    gain->fill_normal(random);
    if (bias) bias->fill_normal(random), selection_bias->fill_normal(random, 0.1);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    device::Router op{.w = w, .x = *x, .bias = {}, .selection_bias = {}, .live = *live, .ids = *ids,
                      .weights = *weights, .logits = *logits};
    if (bias) op.bias = *bias, op.selection_bias = *selection_bias;
    op.params = {.n_experts = kExperts, .n_used = kUsed, .gating = kernels::Gating::kSoftmax,
                 .normalize = !with_biases, .scale = 0, .n_groups = 0, .n_groups_used = 0};
    if (with_norm) {
      op.gain = *gain;
      op.normed = *normed;
      op.eps = kEps;
    }
    s.enqueue(op);
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const std::vector<float> values = w.values();
    for (int64_t r = 0; r < kLive; r++) {
      std::vector<double> input(x->row(r), x->row(r) + kDim);
      if (with_norm) {
        ref::rms_norm(x->row(r), gain->row(0), input.data(), kDim, double{kEps});
        want_row(wants, normed->row(r), input, 16);
      }
      std::vector<double> row;
      double size = 0;
      for (int64_t e = 0; e < kExperts; e++) {
        const float* we = values.data() + e * kDim;
        double logit = bias ? bias->at(0, e) : 0, terms = 0;
        for (int64_t i = 0; i < kDim; i++) {
          const double term = double{we[i]} * input[static_cast<size_t>(i)];
          logit += term;
          terms += std::abs(term);
        }
        row.push_back(logit);
        size = std::max(size, terms + std::abs(logit));
      }
      const double off = (with_norm ? 2 : 1) * kDim * kRounding * size;
      if (with_norm) want_scratch(wants, logits->row(r), kExperts);
      else want_row_within(wants, logits->row(r), row, off);
      std::vector<int> chosen;
      std::vector<double> chosen_weights;
      route_row(row, selection_bias ? selection_bias->row(0) : nullptr, kUsed, !with_biases, chosen, chosen_weights);
      for (int j = 0; j < kUsed; j++) {
        wants.push_back({&ids->at(r, j), double(chosen[static_cast<size_t>(j)]), 0, Want::Kind::kI32});
        const double weight = chosen_weights[static_cast<size_t>(j)];
        wants.push_back({&weights->at(r, j), weight, (2 * off + 8 * kRounding) * weight});
      }
    }
    return wants;
  };
}

void combine(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::Combine>(device, cases, "");
  constexpr int64_t kDim = 33, kUsed = 3;
  const auto rows = c.grid<float>(kBucket * kUsed, kDim);
  const auto weights = c.grid<float>(kBucket, kUsed);
  const auto ids = c.grid<int32_t>(kBucket, kUsed);
  const auto live = c.count_grid();
  const auto x = c.grid<float>(kBucket, kDim);
  c.fill = [=](Random& random) {
    rows->fill_normal(random);
    weights->fill_normal(random);
    x->fill_normal(random);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::Combine{.rows = *rows, .weights = *weights, .ids = *ids, .live = *live, .x = *x});
  };
  // Float sums in the order of the formula: bits, not closeness.
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      for (int64_t i = 0; i < kDim; i++) {
        float total = 0;
        for (int64_t j = 0; j < kUsed; j++) total += weights->at(r, j) * rows->at(r * kUsed + j, i);
        wants.push_back({&x->at(r, i), double{x->at(r, i) + total}});
      }
    }
    return wants;
  };
}

}  // namespace

void add_basic_cases(Device& device, OpCases& cases) {
  using quant::Type;
  embed(device, cases, Type::F16);
  embed(device, cases, Type::Q4_K);
  rms_norm(device, cases);
  mat_mul(device, cases, {"_f32", Type::F32, false, false, 45, 39, kBucket, kLive});
  mat_mul(device, cases, {"_f16_bias", Type::F16, true, false, 45, 39, kBucket, kLive});
  mat_mul(device, cases, {"_q8_0_accumulate", Type::Q8_0, false, true, 45, 96, kBucket, kLive});
  mat_mul(device, cases, {"_q4_k_bias_accumulate", Type::Q4_K, true, true, 13, 256, kBucket, kLive});
  mat_mul(device, cases, {"_many_tokens", Type::Q8_0, false, false, 21, 64, 140, 131});
  mat_mul(device, cases, {"_many_tokens_bias", Type::F32, true, true, 21, 20, 140, 131});
  project(device, cases, {"", quant::Type::F32, {11}, true, false});
  project(device, cases, {"_without_norm", quant::Type::Q8_0, {5, 9}, false, true});
  project(device, cases, {"_of_four", quant::Type::Q8_0, {7, 3, 1, 6}, true, true});
  silu_mul(device, cases);
  add_gated(device, cases, true);
  add_gated(device, cases, false);
  gather_rows(device, cases);
  router(device, cases, false, false);
  router(device, cases, true, false);
  router(device, cases, false, true);
  router(device, cases, true, true);
  combine(device, cases);
}

OpCases all_op_cases(Device& device) {
  OpCases cases;
  add_basic_cases(device, cases);
  add_attention_cases(device, cases);
  add_latent_cases(device, cases);
  add_recurrent_cases(device, cases);
  add_expert_cases(device, cases);
  add_share_cases(device, cases);
  add_hyper_cases(device, cases);
  add_sparse_cases(device, cases);
  add_ngram_cases(device, cases);
  return cases;
}

}  // namespace strata::test
