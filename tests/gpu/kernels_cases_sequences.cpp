#include <cmath>

#include "device/paged.h"
#include "kernels_cases.h"
#include "kernels_rig.h"

namespace strata::test {

using device::DeltaShape;
using device::host::HostDevice;

namespace {

struct PromptForm {
  const char* name;
  PagedShape shape;
  int n_heads;
  int64_t window = 0;
  bool sinks = false, gated = false;
};

void add_prompt_attention(HostDevice& host, OpCases& cases, const PromptForm& form) {
  OpCase& c = add_case<device::Attention>(host, cases, form.name);
  const PagedShape& shape = form.shape;
  const Paged paged(c, shape);
  const int stride = shape.key_dim + (form.gated ? shape.value_dim : 0);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.key_dim));
  const auto q = c.grid<float>(shape.bucket, int64_t{form.n_heads} * stride);
  const auto sinks = c.grid<float>(1, form.n_heads);
  const auto y = c.grid<float>(shape.bucket, int64_t{form.n_heads} * shape.value_dim);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    // A row of another sequence, a run of a prompt, two more rows, another run that starts in the middle.
    for (int64_t r = 0; r < shape.live; r++) {
      const bool second = r >= shape.live / 2;
      paged.slots->at(0, r) = r == 0 ? 2 : second ? 1 : 0;
      paged.positions->at(0, r) = static_cast<int32_t>(second ? r - shape.live / 2 + 5 : r);
    }
    paged.fill_cache(random);
    q->fill_normal(random);
    sinks->fill_normal(random, 2);
  };
  c.enqueue = [=](device::Stream& s) {
    device::Attention op{.q = *q, .sinks = {}, .rows = paged.row_map(), .kv = paged.kv(), .y = *y,
                         .n_heads = form.n_heads, .q_head_stride = stride, .gated = form.gated,
                         .window = form.window, .scale = scale};
    if (form.sinks) op.sinks = sinks->view();
    s.enqueue(op);
  };
  c.expect = [=, &host, &c] {
    std::vector<int64_t> rows;
    for (int64_t r = 0; r < shape.live; r++) rows.push_back(r);
    return wants_of_host(host, c, *y, rows, [](int64_t, int64_t) { return 2e-5; });
  };
}

}  // namespace

void add_prompt_attention_cases(HostDevice& host, OpCases& cases) {
  using kernels::KvType;
  const auto shape = [](int kv_heads, int key_dim, int value_dim, KvType type) {
    return PagedShape{.n_kv_heads = kv_heads, .key_dim = key_dim, .value_dim = value_dim, .type = type,
                      .block_tokens = 16, .bucket = 150, .live = 141, .max_position = 160};
  };
  add_prompt_attention(host, cases, {"_prompt_f32", shape(2, 24, 24, KvType::kF32), 4});
  add_prompt_attention(host, cases, {"_prompt_f16", shape(2, 128, 128, KvType::kF16), 16});
  add_prompt_attention(host, cases, {"_prompt_bf16", shape(1, 64, 64, KvType::kBf16), 3, 40});
  add_prompt_attention(host, cases, {"_prompt_q8_0", shape(2, 64, 96, KvType::kQ8_0), 6, 0, true});
  add_prompt_attention(host, cases, {"_prompt_wide", shape(1, 256, 256, KvType::kF16), 8, 0, false, true});
  add_prompt_attention(host, cases, {"_prompt_wider", shape(1, 320, 288, KvType::kF16), 20, 33, true, true});
  add_prompt_attention(host, cases, {"_prompt_odd", shape(2, 10, 6, KvType::kF32), 2, 7, true, false});
}

namespace {

struct AppendForm {
  const char* name;
  PagedShape shape;
  int n_heads;
  int64_t window = 0;
  // What a value of the cache that is rounded the other way, on the device, may do to an output.
  double tolerance = 2e-5;
};

void add_append_attend(HostDevice& host, OpCases& cases, const AppendForm& form) {
  OpCase& c = add_case<device::AppendAttend>(host, cases, form.name);
  const PagedShape& shape = form.shape;
  const Paged paged(c, shape);
  const int dim = shape.key_dim;
  const auto q = c.grid<float>(shape.bucket, int64_t{form.n_heads} * dim);
  const auto k = c.grid<float>(shape.bucket, int64_t{shape.n_kv_heads} * dim);
  const auto v = c.grid<float>(shape.bucket, int64_t{shape.n_kv_heads} * shape.value_dim);
  const auto gains = c.grid<float>(2, dim);
  const auto cos_sin = c.grid<float>(shape.bucket, dim);
  const auto arrivals = c.grid<int32_t>(shape.bucket, form.n_heads);
  const auto y = c.grid<float>(shape.bucket, int64_t{form.n_heads} * shape.value_dim);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    // Two rows continue one sequence, the others are the newest ones of two more and one in the first's past.
    for (int64_t r = 0; r < shape.live; r++) {
      paged.slots->at(0, r) = r < 2 ? 0 : static_cast<int32_t>(r % 3);
      paged.positions->at(0, r) = static_cast<int32_t>(shape.max_position - (r < 2 ? 1 - r : 40 * (r - 2) + 3));
    }
    paged.fill_cache(random);
    for (const auto& grid : {q, k, v, gains}) grid->fill_normal(random);
    for (int64_t r = 0; r < shape.bucket; r++) {
      for (int64_t i = 0; i < dim / 2; i++) {
        const double angle = 6 * random.uniform();
        cos_sin->at(r, i) = static_cast<float>(std::cos(angle));
        cos_sin->at(r, dim / 2 + i) = static_cast<float>(std::sin(angle));
      }
      std::fill_n(arrivals->row(r), form.n_heads, 0);
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::AppendAttend{
        .append = {.q = *q, .k = *k, .v = *v, .q_norm = gains->view().slice(0, 1), .k_norm = gains->view().slice(1, 1),
                   .cos_sin = *cos_sin, .rows = paged.row_map(), .kv = paged.kv(), .n_heads = form.n_heads,
                   .q_head_stride = dim, .interleaved = false, .eps = 1e-6f},
        .sinks = {},
        .arrivals = *arrivals,
        .y = *y,
        .window = form.window,
        .scale = 1 / std::sqrt(static_cast<float>(dim))});
  };
  c.expect = [=, &host, &c] {
    std::vector<int64_t> rows;
    for (int64_t r = 0; r < shape.live; r++) rows.push_back(r);
    auto wants = wants_of_host(host, c, *y, rows, [&](int64_t, int64_t) { return form.tolerance; });
    for (const int64_t r : rows) {
      want_scratch(wants, q->row(r), q->cols());
      want_scratch(wants, k->row(r), k->cols());
      const int64_t token = paged.token_of_row(r);
      want_scratch(wants, paged.k->row(token), paged.k->cols() / 4);
      want_scratch(wants, paged.v->row(token), paged.v->cols() / 4);
    }
    return wants;
  };
}

}  // namespace

void add_append_attend_cases(HostDevice& host, OpCases& cases) {
  using kernels::KvType;
  const auto shape = [](int kv_heads, int dim, KvType type, int64_t bucket, int64_t max_position) {
    return PagedShape{.n_kv_heads = kv_heads, .key_dim = dim, .value_dim = dim, .type = type, .block_tokens = 32,
                      .bucket = bucket, .live = static_cast<int32_t>(bucket), .max_position = max_position};
  };
  for (const int64_t bucket : {1, 5}) {
    add_append_attend(host, cases, {"_short_f16", shape(4, 128, KvType::kF16, bucket, 180), 32, 0, 1e-3});
    add_append_attend(host, cases, {"_long_f16", shape(4, 128, KvType::kF16, bucket, 5000), 32, 0, 1e-3});
    add_append_attend(host, cases, {"_long_f32", shape(2, 64, KvType::kF32, bucket, 2100), 8});
    add_append_attend(host, cases, {"_window_f16", shape(2, 64, KvType::kF16, bucket, 900), 20, 100, 1e-3});
    add_append_attend(host, cases, {"_window_bf16", shape(2, 64, KvType::kBf16, bucket, 900), 16, 128, 8e-3});
    add_append_attend(host, cases, {"_q8_0", shape(4, 128, KvType::kQ8_0, bucket, 700), 32, 0, 5e-3});
  }
}

namespace {

struct LongForm {
  const char* name;
  DeltaShape shape;
};

struct Rows {
  int32_t slot, first, rows;
};

void add_long_delta(HostDevice& host, OpCases& cases, const LongForm& form) {
  static const std::vector<Rows> list = {{1, 0, 90}, {0, 90, 1}, {3, 91, 2}};
  constexpr int64_t kRows = 96, kLiveRows = 93, kSlots = 4;
  const DeltaShape shape = form.shape;
  const auto n = static_cast<int64_t>(list.size());
  const auto fill_segments = [=](const Grid<int32_t>& count, const Grid<int32_t>& table) {
    count.at(0, 0) = static_cast<int32_t>(n);
    for (int64_t i = 0; i < n; i++) {
      const Rows& s = list[static_cast<size_t>(i)];
      table.set_row(i, {s.slot, s.first, s.rows});
    }
  };
  std::vector<int64_t> live_rows;
  for (int64_t r = 0; r < kLiveRows; r++) live_rows.push_back(r);
  const std::vector<int64_t> slots = {0, 1, 3};

  {
    OpCase& c = add_case<device::DeltaConv>(host, cases, form.name);
    const auto count = c.count_grid();
    const auto table = c.grid<int32_t>(n + 1, 3);
    const auto x = c.grid<float>(kRows, shape.channels());
    const auto taps = c.packed<float>(shape.channels(), shape.kernel);
    const auto state = c.grid<float>(kSlots, shape.conv_state());
    const auto y = c.grid<float>(kRows, shape.channels());
    c.fill = [=](Random& random) {
      fill_segments(*count, *table);
      for (const auto& grid : {x, taps, state}) grid->fill_normal(random);
    };
    c.enqueue = [=](device::Stream& s) {
      s.enqueue(device::DeltaConv{.x = *x, .taps = *taps, .conv_state = *state, .segments = {*count, *table}, .y = *y,
                                  .shape = shape, .eps = 1e-6f});
    };
    c.expect = [=, &host, &c] {
      auto wants = wants_of_host(host, c, *y, live_rows, [](int64_t, int64_t) { return 1e-5; });
      const auto states = wants_of_host(host, c, *state, slots, [](int64_t, int64_t) { return 0.0; });
      wants.insert(wants.end(), states.begin(), states.end());
      return wants;
    };
  }

  OpCase& c = add_case<device::DeltaNet>(host, cases, form.name);
  const auto count = c.count_grid();
  const auto table = c.grid<int32_t>(n + 1, 3);
  const auto qkv = c.grid<float>(kRows, shape.channels());
  const auto g_beta = c.grid<float>(kRows, 2 * shape.n_value_heads);
  const auto state = c.grid<float>(kSlots, shape.state());
  const auto y = c.grid<float>(kRows, int64_t{shape.n_value_heads} * shape.value_dim);
  c.fill = [=](Random& random) {
    fill_segments(*count, *table);
    qkv->fill_normal(random, 1 / std::sqrt(static_cast<double>(shape.key_dim)));
    state->fill_normal(random);
    for (int64_t r = 0; r < kRows; r++) {
      for (int64_t h = 0; h < shape.n_value_heads; h++) {
        g_beta->at(r, h) = static_cast<float>(-random.uniform());
        g_beta->at(r, shape.n_value_heads + h) = static_cast<float>(random.uniform());
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::DeltaNet{.qkv = *qkv, .g_beta = *g_beta, .state = *state, .segments = {*count, *table}, .y = *y,
                               .shape = shape, .chunk_min_rows = 0});
  };
  c.expect = [=, &host, &c] {
    auto wants = wants_of_host(host, c, *y, live_rows, [](int64_t, int64_t) { return 2e-5; });
    const auto states = wants_of_host(host, c, *state, slots, [](int64_t, int64_t) { return 2e-5; });
    wants.insert(wants.end(), states.begin(), states.end());
    return wants;
  };
}

}  // namespace

void add_long_delta_cases(HostDevice& host, OpCases& cases) {
  add_long_delta(host, cases, {"_long", {2, 4, 128, 128, 4, false}});
  add_long_delta(host, cases, {"_long_tiled", {2, 4, 200, 64, 4, true}});
  add_long_delta(host, cases, {"_long_small", {1, 2, 40, 30, 3, false}});
  add_long_delta(host, cases, {"_long_wide", {1, 1, 300, 20, 2, false}});
}

void add_route_cases(HostDevice& host, OpCases& cases) {
  using kernels::Gating;
  for (const Gating gating : {Gating::kSoftmax, Gating::kSigmoid, Gating::kSoftmaxSelected}) {
    for (const int groups : {1, 8}) {
      for (const bool biased : {false, true}) {
        OpCase& c = add_case<device::Router>(host, cases,
                                             "_gating_" + std::to_string(static_cast<int>(gating)) + "_groups_" +
                                                 std::to_string(groups) + (biased ? "_biased" : ""));
        constexpr int64_t kRows = 40, kLiveRows = 37, kExperts = 72, kDim = 64;
        constexpr int kUsed = 6;
        const auto w = c.packed<float>(kExperts, kDim);
        const auto x = c.grid<float>(kRows, kDim);
        const auto selection_bias = c.grid<float>(1, kExperts);
        const auto live = c.count_grid();
        const auto ids = c.grid<int32_t>(kRows, kUsed);
        const auto weights = c.grid<float>(kRows, kUsed);
        const auto logits = c.grid<float>(kRows, kExperts);
        c.fill = [=](Random& random) {
          // Quarters, so that logits are exact and ties happen.
          for (int64_t e = 0; e < kExperts; e++) {
            for (int64_t i = 0; i < kDim; i++) w->at(e, i) = static_cast<float>(random.below(5)) * 0.25f - 0.5f;
          }
          for (int64_t r = 0; r < kRows; r++) {
            for (int64_t i = 0; i < kDim; i++) x->at(r, i) = static_cast<float>(random.below(5)) * 0.25f - 0.5f;
          }
          x->at(3, 0) = NAN;  // no logit is a number
          selection_bias->fill_normal(random, 0.1);
          live->at(0, 0) = kLiveRows;
        };
        c.enqueue = [=](device::Stream& s) {
          device::Router op{.w = {w->memory(), 0, quant::Type::F32, kExperts, kDim, kDim * sizeof(float)}, .x = *x,
                            .bias = {}, .selection_bias = {}, .live = *live, .ids = *ids, .weights = *weights,
                            .logits = *logits};
          if (biased) op.selection_bias = *selection_bias;
          op.params = {.n_experts = kExperts, .n_used = kUsed, .gating = gating, .normalize = biased,
                       .scale = biased ? 2.5f : 0.0f, .n_groups = groups, .n_groups_used = 3};
          s.enqueue(op);
        };
        c.expect = [=, &host, &c] {
          std::vector<int64_t> rows;
          for (int64_t r = 0; r < kLiveRows; r++) {
            if (r != 3) rows.push_back(r);
          }
          auto wants = wants_of_host(host, c, *weights, rows, [](int64_t, int64_t) { return 1e-6; });
          const auto all = wants_of_host(host, c, *logits, rows, [](int64_t, int64_t) { return 0.0; });
          wants.insert(wants.end(), all.begin(), all.end());
          // The host's ids, by running it once more.
          const auto before = c.snapshot();
          const auto stream = host.make_stream("ids");
          c.enqueue(*stream);
          for (int64_t r = 0; r < kLiveRows; r++) {
            for (int j = 0; j < kUsed; j++)
              wants.push_back({&ids->at(r, j), double(ids->at(r, j)), 0, Want::Kind::kI32});
          }
          for (size_t m = 0; m < before.size(); m++)
            std::memcpy(c.memories()[m]->address(), before[m].data(), before[m].size());
          want_scratch(wants, weights->row(3), kUsed);
          want_scratch(wants, logits->row(3), kExperts);
          return wants;
        };
      }
    }
  }
}

}  // namespace strata::test
