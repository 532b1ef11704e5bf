// The mixture of experts at the sizes of models: norm and router in one, and experts with the sum of their outputs.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels_cases.h"
#include "kernels_rig.h"
#include "kernels_weights.h"

namespace strata::test {

using device::host::HostDevice;

namespace {

std::vector<int64_t> numbers_below(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) all[static_cast<size_t>(i)] = i;
  return all;
}

struct NormRouteForm {
  int n_experts, n_used;
  int64_t cols, bucket;
  int32_t live;
  kernels::Gating gating = kernels::Gating::kSoftmax;
  bool biased = false;
  int n_groups = 0;
  bool tied = false;  // each four experts have the same logits: two neighbours and two in the other half
};

void add_norm_route(HostDevice& host, OpCases& cases, const NormRouteForm& form) {
  OpCase& c = add_case<device::Router>(host, cases,
                                       "_norm_" + std::to_string(form.n_experts) + "_of_" + std::to_string(form.cols) +
                                           "_" + std::to_string(form.live) + (form.tied ? "_rows_tied" : "_rows"));
  // Packed, since rows that begin anywhere take other kernels.
  const auto w = c.packed<float>(form.n_experts, form.cols);
  const auto x = c.packed<float>(form.bucket, form.cols);
  const auto gain = c.packed<float>(1, form.cols);
  const auto bias = c.grid<float>(1, form.n_experts), selection_bias = c.grid<float>(1, form.n_experts);
  const auto live = c.count_grid();
  const auto ids = c.grid<int32_t>(form.bucket, form.n_used);
  const auto weights = c.grid<float>(form.bucket, form.n_used);
  const auto logits = c.grid<float>(form.bucket, form.n_experts);
  const auto normed = c.packed<float>(form.bucket, form.cols);
  c.fill = [=](Random& random) {
    w->fill_normal(random, 1 / std::sqrt(static_cast<double>(form.cols)));
    for (int64_t e = 0; form.tied && e < form.n_experts; e++) {
      std::memcpy(w->row(e), w->row(e % (form.n_experts / 2) / 2 * 2), static_cast<size_t>(form.cols) * sizeof(float));
    }
    x->fill_normal(random, 3);
    for (const auto& grid : {gain, bias, selection_bias, normed}) grid->fill_normal(random);
    live->at(0, 0) = form.live;
  };
  c.enqueue = [=](device::Stream& s) {
    device::Router op{.w = {w->memory(), 0, quant::Type::F32, form.n_experts, form.cols,
                            static_cast<size_t>(form.cols) * sizeof(float)},
                      .x = *x, .bias = {}, .selection_bias = {}, .live = *live, .ids = *ids, .weights = *weights,
                      .logits = *logits};
    if (form.biased) op.bias = *bias, op.selection_bias = *selection_bias;
    op.params = {.n_experts = form.n_experts, .n_used = form.n_used, .gating = form.gating, .normalize = !form.biased,
                 .scale = 0, .n_groups = form.n_groups, .n_groups_used = form.n_groups / 2};
    op.gain = *gain;
    op.normed = *normed;
    op.eps = 1e-6f;
    s.enqueue(op);
  };
  c.expect = [=, &host, &c] {
    const std::vector<int64_t> rows = numbers_below(form.live);
    std::vector<Want> wants = wants_of_host(host, c, *normed, rows, [](int64_t, int64_t) { return 1e-5; });
    // Rounding errors of a logit add up like a random walk; a weight is off by as much, in parts of itself.
    double size = 0;
    for (int64_t r = 0; r < form.live; r++) {
      double terms = 0;
      for (int64_t i = 0; i < form.cols; i++) {
        terms += std::abs(wants[static_cast<size_t>(r * form.cols + i)].value) / std::sqrt(double(form.cols));
      }
      size = std::max(size, terms);
    }
    const double off = 4 * std::sqrt(static_cast<double>(form.cols)) * kRounding * size;
    const auto of_weights = wants_of_host(host, c, *weights, rows, [&](int64_t, int64_t) { return off; });
    wants.insert(wants.end(), of_weights.begin(), of_weights.end());
    for (Want want : wants_of_host_ints(host, c, *ids, rows)) wants.push_back(want);
    for (const int64_t r : rows) want_scratch(wants, logits->row(r), form.n_experts);
    return wants;
  };
}

struct SummedForm {
  const char* name;
  quant::Type gate, down;
  int64_t dim, ffn;
  int n_experts, n_used;
  int64_t bucket;
  int32_t live;
  bool clamped = false;
  bool fetched = false;  // the last expert comes over the link first, beside those in slots
};

void add_summed(HostDevice& host, OpCases& cases, const SummedForm& form) {
  OpCase& c = add_case<device::ExpertFfn>(host, cases, std::string("_sum_") + form.name);
  device::ExpertBlob blob;
  size_t end = 0;
  const auto matrix = [&](quant::Type type, int64_t rows, int64_t cols) {
    device::ExpertMatrix m{type, rows, cols, quant::row_bytes(type, static_cast<size_t>(cols)), align_up(end, 64)};
    end = m.offset + static_cast<size_t>(rows) * m.row_bytes;
    return m;
  };
  blob.gate = matrix(form.gate, form.ffn, form.dim);
  blob.up = matrix(form.gate, form.ffn, form.dim);
  blob.down = matrix(form.down, form.dim, form.ffn);
  blob.bytes = align_up(end, 64);
  const int n_slots = form.n_experts - (form.fetched ? 2 : 1);  // the last experts are in none
  const auto stride = static_cast<int64_t>(blob.bytes) + 64;
  const int64_t pairs = form.bucket * form.n_used;
  const auto slots = c.packed<uint8_t>(n_slots, stride);
  const auto offsets = c.grid<int64_t>(1, n_slots);
  const auto x = c.grid<float>(form.bucket, form.dim);
  const auto ids = c.grid<int32_t>(form.bucket, form.n_used);
  const auto slot_of = c.grid<int32_t>(1, form.n_experts);
  const auto live = c.count_grid();
  const auto inputs = c.grid<float>(pairs, std::max(form.dim, form.ffn));
  const auto hidden = c.grid<float>(pairs, form.ffn);
  const auto groups = c.packed<int32_t>(1, device::expert_group_ints(pairs, form.n_experts));
  const auto y = c.grid<float>(pairs, form.dim);
  const auto weights = c.grid<float>(form.bucket, form.n_used);
  const auto sum = c.grid<float>(form.bucket, form.dim);
  const auto elsewhere = c.packed<uint8_t>(1, stride), stage = c.packed<uint8_t>(1, stride);
  const auto linked_at = c.grid<int64_t>(1, form.n_experts), staged_at = c.grid<int64_t>(1, form.n_experts);
  const auto memories = std::make_shared<std::vector<const device::Memory*>>(
      std::vector<const device::Memory*>{elsewhere->memory(), stage->memory()});
  c.fill = [=](Random& random) {
    const auto fill_expert = [&](uint8_t* to) {
      for (const device::ExpertMatrix* m : {&blob.gate, &blob.up, &blob.down}) {
        const auto bytes = any_weights(m->type, static_cast<size_t>(m->rows * m->cols), random);
        std::memcpy(to + m->offset, bytes.data(), bytes.size());
      }
    };
    for (int64_t s = 0; s < n_slots; s++) {
      fill_expert(slots->row(s));
      offsets->at(0, s) = s * stride;
    }
    for (int e = 0; e < form.n_experts; e++) slot_of->at(0, e) = e < n_slots ? n_slots - 1 - e : -1;
    if (form.fetched) {
      fill_expert(elsewhere->row(0));
      slot_of->at(0, form.n_experts - 1) = device::kLinkedPlace;
      linked_at->at(0, form.n_experts - 1) = reinterpret_cast<int64_t>(elsewhere->row(0));
    }
    x->fill_normal(random, 0.1);
    weights->fill_normal(random);
    sum->fill_normal(random);
    live->at(0, 0) = form.live;
    for (int64_t r = 0; r < form.bucket; r++) {
      const auto first = static_cast<int64_t>(random.below(static_cast<uint64_t>(form.n_experts)));
      for (int64_t j = 0; j < form.n_used; j++)
        ids->at(r, j) = r < form.live ? static_cast<int32_t>((first + j) % form.n_experts) : -1;
    }
  };
  c.enqueue = [=](device::Stream& s) {
    device::ExpertFormula formula;
    formula.round_activations = true;
    if (form.clamped) {
      formula.activation = device::ExpertFormula::Activation::kSwigluClamped;
      formula.alpha = 1.702f;
      formula.limit = 7;
    }
    device::ExpertSlots places{slots->memory(), *offsets};
    if (form.fetched) {
      s.enqueue(device::FetchExperts{.place_of = *slot_of, .linked = *memories, .linked_at = *linked_at,
                                     .blob_bytes = static_cast<int64_t>(blob.bytes), .stage = *stage,
                                     .staged_at = *staged_at});
      places.linked = *memories;
      places.linked_at = *staged_at;
      places.fetched = true;
    }
    s.enqueue(device::ExpertFfn{.x = *x, .ids = *ids, .live = *live, .slot_of = *slot_of,
                                .slots = places, .blob = blob, .formula = formula,
                                .inputs = *inputs, .hidden = *hidden, .groups = *groups, .y = *y,
                                .weights = *weights, .sum = *sum});
  };
  c.expect = [=, &host, &c] {
    // A hidden value that differs in its last bit may be rounded to the code beside: outputs are then off by their
    // weight times a step of the row's codes. Two such values in the row of each pair are allowed for.
    double step = 0, largest = 0;
    for (const Want& h : wants_of_host(host, c, *hidden, numbers_below(form.live * form.n_used),
                                       [](int64_t, int64_t) { return 0.0; })) {
      if (std::isfinite(h.value)) step = std::max(step, std::abs(h.value) / 127);
    }
    const auto n = static_cast<size_t>(form.dim * form.ffn);
    std::vector<float> values(n);
    for (int64_t s = 0; s < n_slots + (form.fetched ? 1 : 0); s++) {
      const uint8_t* at = s < n_slots ? slots->row(s) : elsewhere->row(0);
      quant::info(form.down).decode(at + blob.down.offset, values.data(), n);
      for (const float v : values) largest = std::max(largest, std::abs(double{v}));
    }
    const auto tolerance = [&](int64_t r, int64_t) {
      double all = 0;
      for (int j = 0; j < form.n_used; j++) all += std::abs(weights->at(r, j));
      return all * 2 * largest * step + 1e-5;
    };
    std::vector<Want> wants = wants_of_host(host, c, *sum, numbers_below(form.live), tolerance);
    for (int64_t p = 0; p < pairs; p++) {
      want_scratch(wants, inputs->row(p), inputs->cols());
      want_scratch(wants, hidden->row(p), form.ffn);
      want_scratch(wants, y->row(p), form.dim);
    }
    want_scratch(wants, groups->row(0), groups->cols());
    if (form.fetched) {
      want_scratch(wants, stage->row(0), static_cast<int64_t>(blob.bytes) / 4);
      want_scratch(wants, &staged_at->at(0, form.n_experts - 1), 2);
    }
    return wants;
  };
}

}  // namespace

void add_norm_route_cases(HostDevice& host, OpCases& cases) {
  using kernels::Gating;
  add_norm_route(host, cases, {.n_experts = 128, .n_used = 8, .cols = 2048, .bucket = 1, .live = 1});
  add_norm_route(host, cases, {.n_experts = 128, .n_used = 8, .cols = 2048, .bucket = 8, .live = 7});
  add_norm_route(host, cases, {.n_experts = 128, .n_used = 7, .cols = 2048, .bucket = 2, .live = 2, .tied = true});
  add_norm_route(host, cases, {.n_experts = 32, .n_used = 4, .cols = 2880, .bucket = 2, .live = 2,
                               .gating = Gating::kSoftmaxSelected, .biased = true});
  add_norm_route(host, cases, {.n_experts = 160, .n_used = 6, .cols = 4096, .bucket = 3, .live = 2,
                               .gating = Gating::kSigmoid, .biased = true, .n_groups = 8});
  add_norm_route(host, cases, {.n_experts = 512, .n_used = 10, .cols = 2048, .bucket = 2, .live = 2});
  add_norm_route(host, cases, {.n_experts = 7, .n_used = 2, .cols = 36, .bucket = 4, .live = 3});
  add_norm_route(host, cases, {.n_experts = 16, .n_used = 4, .cols = 5120, .bucket = 2, .live = 2});
}

void add_summed_expert_cases(HostDevice& host, OpCases& cases) {
  using quant::Type;
  add_summed(host, cases, {"q4_k_m", Type::Q4_K, Type::Q6_K, 2048, 768, 12, 8, 1, 1});
  add_summed(host, cases, {"q4_k_m_4", Type::Q4_K, Type::Q6_K, 2048, 768, 12, 8, 4, 3});
  add_summed(host, cases, {"q8_0", Type::Q8_0, Type::Q8_0, 512, 1536, 6, 5, 2, 2});
  add_summed(host, cases, {"mxfp4", Type::MXFP4, Type::MXFP4, 2880, 320, 5, 4, 2, 1, true});
  add_summed(host, cases, {"q5_k_q3_k", Type::Q5_K, Type::Q3_K, 768, 512, 5, 3, 3, 3});
  add_summed(host, cases, {"fetched", Type::Q4_K, Type::Q6_K, 2048, 768, 12, 8, 1, 1, false, true});
  add_summed(host, cases, {"fetched_4", Type::Q4_K, Type::Q6_K, 2048, 768, 12, 8, 4, 3, false, true});
  add_summed(host, cases, {"fetched_q8_0", Type::Q8_0, Type::Q8_0, 512, 1536, 6, 5, 2, 2, false, true});
  add_summed(host, cases, {"many_used", Type::Q4_0, Type::Q4_0, 64, 96, 24, 20, 2, 2});
  add_summed(host, cases, {"many_rows", Type::Q4_K, Type::Q6_K, 256, 256, 12, 8, 40, 37});
}

}  // namespace strata::test
