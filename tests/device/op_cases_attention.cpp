#include <algorithm>
#include <cmath>

#include "device/op_case.h"
#include "device/paged.h"
#include "kernels/ref/ref.h"

namespace strata::test {

namespace ref = kernels::ref;
using device::Device;

namespace {

void rope_angles(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::RopeAngles>(device, cases, "");
  constexpr int64_t kRows = 7, kPairs = 5;
  constexpr int32_t kLive = 6;
  constexpr float kMagnitude = 1.25f;
  const auto positions = c.grid<int32_t>(1, kRows);
  const auto inv_freq = c.grid<float>(1, kPairs);
  const auto live = c.count_grid();
  const auto cos_sin = c.grid<float>(kRows, 2 * kPairs);
  c.fill = [=](Random& random) {
    for (int64_t p = 0; p < kPairs; p++) inv_freq->at(0, p) = std::pow(0.1f, static_cast<float>(p));
    for (int64_t r = 0; r < kLive; r++) positions->at(0, r) = static_cast<int32_t>(random.below(200'000));
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::RopeAngles{.positions = *positions, .inv_freq = *inv_freq, .live = *live, .cos_sin = *cos_sin,
                                 .magnitude = kMagnitude});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      std::vector<double> row(2 * kPairs);
      for (size_t p = 0; p < kPairs; p++) {
        const double angle = double(positions->at(0, r)) * inv_freq->at(0, static_cast<int64_t>(p));
        row[p] = std::cos(angle) * kMagnitude;
        row[p + kPairs] = std::sin(angle) * kMagnitude;
      }
      want_row_within(wants, cos_sin->row(r), row, 4 * kRounding);
    }
    return wants;
  };
}

struct RopeForm {
  const char* name;
  PagedShape shape;
  int n_heads, q_head_stride;
  int n_pairs;
  bool norms, interleaved;
};

// A head after its norm and rope, and how large its parts were before they were added.
struct Head {
  std::vector<double> values;
  double size = 0;
};
Head rotated(const float* x, const float* gain, int dim, const float* cos_sin, int n_pairs, bool interleaved,
             float eps) {
  std::vector<double> normed(x, x + dim);
  if (gain != nullptr) ref::rms_norm(x, gain, normed.data(), dim, double{eps});
  Head head{normed, 0};
  for (int p = 0; p < n_pairs; p++) {
    const auto a = static_cast<size_t>(interleaved ? 2 * p : p);
    const auto b = static_cast<size_t>(interleaved ? 2 * p + 1 : p + n_pairs);
    const double cos = cos_sin[p], sin = cos_sin[p + n_pairs];
    head.values[a] = normed[a] * cos - normed[b] * sin;
    head.values[b] = normed[a] * sin + normed[b] * cos;
  }
  for (const double v : normed) head.size = std::max(head.size, 2 * std::abs(v));
  return head;
}

void rope_append(Device& device, OpCases& cases, const RopeForm& form) {
  OpCase& c = add_case<device::RopeAppend>(device, cases, form.name);
  const PagedShape& shape = form.shape;
  const Paged paged(c, shape);
  constexpr float kEps = 1e-3f;
  const auto q = c.grid<float>(shape.bucket, int64_t{form.n_heads} * form.q_head_stride);
  const auto k = c.grid<float>(shape.bucket, int64_t{shape.n_kv_heads} * shape.key_dim);
  const auto v = c.grid<float>(shape.bucket, int64_t{shape.n_kv_heads} * shape.value_dim);
  const auto q_norm = form.norms ? c.grid<float>(1, shape.key_dim) : nullptr;
  const auto k_norm = form.norms ? c.grid<float>(1, shape.key_dim) : nullptr;
  const auto cos_sin = c.grid<float>(shape.bucket, 2 * form.n_pairs);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    paged.fill_cache(random);
    for (const auto& grid : {q, k, v, cos_sin}) grid->fill_normal(random);
    if (form.norms) q_norm->fill_normal(random), k_norm->fill_normal(random);
  };
  c.enqueue = [=](device::Stream& s) {
    device::RopeAppend op{.q = *q, .k = *k, .v = *v, .q_norm = {}, .k_norm = {}, .cos_sin = *cos_sin,
                          .rows = paged.row_map(), .kv = paged.kv(), .n_heads = form.n_heads,
                          .q_head_stride = form.q_head_stride, .interleaved = form.interleaved, .eps = kEps};
    if (form.norms) op.q_norm = q_norm->view(), op.k_norm = k_norm->view();
    s.enqueue(op);
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const bool f16 = shape.type == kernels::KvType::kF16;
    const double roundings = (shape.key_dim + 4) * kRounding;
    const auto norm = [](const auto& gain) { return gain ? gain->row(0) : nullptr; };
    for (int64_t r = 0; r < shape.live; r++) {
      for (int h = 0; h < form.n_heads; h++) {
        const float* x = q->row(r) + h * form.q_head_stride;
        const Head head =
            rotated(x, norm(q_norm), shape.key_dim, cos_sin->row(r), form.n_pairs, form.interleaved, kEps);
        want_row_within(wants, x, head.values, roundings * 4 * head.size);
      }
      const int64_t token = paged.token_of_row(r);
      for (int64_t i = 0; i < k->cols(); i++) {
        const int64_t h = i / shape.key_dim, d = i % shape.key_dim;
        const float* x = k->row(r) + h * shape.key_dim;
        const Head head =
            rotated(x, norm(k_norm), shape.key_dim, cos_sin->row(r), form.n_pairs, form.interleaved, kEps);
        const double value = head.values[static_cast<size_t>(d)];
        const double off = roundings * 4 * head.size;
        wants.push_back({x + d, value, off});
        wants.push_back({paged.key_address(token, i), value, f16 ? off + std::abs(value) * 0x1p-11 + 0x1p-25 : off,
                         f16 ? Want::Kind::kF16 : Want::Kind::kF32});
      }
      for (int64_t i = 0; i < v->cols(); i++) {
        const float x = v->at(r, i);
        wants.push_back({paged.value_address(token, i), f16 ? quant::f16_to_f32(quant::f32_to_f16(x)) : x, 0,
                         f16 ? Want::Kind::kF16 : Want::Kind::kF32});
      }
    }
    return wants;
  };
}

struct AttentionForm {
  const char* name;
  PagedShape shape;
  int n_heads;
  int64_t window = 0;
  bool sinks = false, gated = false;
};

void attention(Device& device, OpCases& cases, const AttentionForm& form) {
  OpCase& c = add_case<device::Attention>(device, cases, form.name);
  const PagedShape& shape = form.shape;
  const Paged paged(c, shape);
  const int stride = shape.key_dim + (form.gated ? shape.value_dim : 0);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.key_dim));
  const auto q = c.grid<float>(shape.bucket, int64_t{form.n_heads} * stride);
  const auto sinks = form.sinks ? c.grid<float>(1, form.n_heads) : nullptr;
  const auto y = c.grid<float>(shape.bucket, int64_t{form.n_heads} * shape.value_dim);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    paged.fill_cache(random);
    q->fill_normal(random);
    if (sinks) sinks->fill_normal(random, 2);
  };
  c.enqueue = [=](device::Stream& s) {
    device::Attention op{.q = *q,
                         .sinks = {},
                         .rows = paged.row_map(),
                         .kv = paged.kv(),
                         .y = *y,
                         .n_heads = form.n_heads,
                         .q_head_stride = stride,
                         .gated = form.gated,
                         .window = form.window,
                         .scale = scale};
    if (sinks) op.sinks = sinks->view();
    s.enqueue(op);
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < shape.live; r++) {
      const int64_t last = paged.positions->at(0, r);
      const int64_t first = form.window > 0 ? std::max<int64_t>(0, last - form.window + 1) : 0;
      for (int h = 0; h < form.n_heads; h++) {
        const int kv_head = h / (form.n_heads / shape.n_kv_heads);
        const float* query = q->row(r) + h * stride;
        std::vector<float> keys, values;
        double size = 0;  // of the terms of the largest score
        for (int64_t p = first; p <= last; p++) {
          const int64_t token = paged.token(paged.slots->at(0, r), p);
          double terms = 0;
          for (int d = 0; d < shape.key_dim; d++) {
            keys.push_back(paged.key(token, kv_head * shape.key_dim + d));
            terms += std::abs(double{query[d]} * keys.back());
          }
          size = std::max(size, terms * scale);
          for (int d = 0; d < shape.value_dim; d++) values.push_back(paged.value(token, kv_head * shape.value_dim + d));
        }
        std::vector<double> row(static_cast<size_t>(shape.value_dim));
        ref::attention({query, keys.data(), values.data(), last - first + 1, shape.key_dim, shape.value_dim,
                        double{scale}, sinks ? &sinks->at(0, h) : nullptr},
                       row.data());
        for (int d = 0; form.gated && d < shape.value_dim; d++) {
          row[static_cast<size_t>(d)] *= ref::sigmoid(query[shape.key_dim + d]);
        }
        // A weight is off by the error of its score, relative to itself; all values are below 6.
        const double weight_off =
            (shape.key_dim + 8) * kRounding * size + static_cast<double>(last - first + 16) * kRounding;
        want_row_within(wants, y->row(r) + h * shape.value_dim, row, 2 * weight_off * 6);
      }
    }
    return wants;
  };
}

struct AppendAttendForm {
  const char* name;
  PagedShape shape;
  int n_heads, n_pairs;
  int64_t window = 0;
  bool norms = false, sinks = false, gated = false;
};

// Rows 0 to 3 continue one sequence, the later ones are each the newest of another or of the same one further on.
void append_attend(Device& device, OpCases& cases, const AppendAttendForm& form) {
  OpCase& c = add_case<device::AppendAttend>(device, cases, form.name);
  const PagedShape& shape = form.shape;
  const Paged paged(c, shape);
  constexpr float kEps = 1e-3f;
  const int stride = shape.key_dim + (form.gated ? shape.value_dim : 0);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.key_dim));
  const auto q = c.grid<float>(shape.bucket, int64_t{form.n_heads} * stride);
  const auto k = c.grid<float>(shape.bucket, int64_t{shape.n_kv_heads} * shape.key_dim);
  const auto v = c.grid<float>(shape.bucket, int64_t{shape.n_kv_heads} * shape.value_dim);
  const auto norms = c.grid<float>(2, shape.key_dim);  // of queries, of keys
  const auto cos_sin = c.grid<float>(shape.bucket, 2 * form.n_pairs);
  const auto sinks = c.grid<float>(1, form.n_heads);
  const auto arrivals = c.grid<int32_t>(shape.bucket, form.n_heads);
  const auto y = c.grid<float>(shape.bucket, int64_t{form.n_heads} * shape.value_dim);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    for (int64_t r = 0; r < shape.live; r++) {
      paged.slots->at(0, r) = r < 4 ? 0 : static_cast<int32_t>((r - 3) % 3);
      paged.positions->at(0, r) = static_cast<int32_t>(shape.max_position + (r < 4 ? r - 10 : 4 - r));
    }
    paged.fill_cache(random);
    for (const auto& grid : {q, k, v, norms, cos_sin}) grid->fill_normal(random);
    sinks->fill_normal(random, 2);
    for (int64_t r = 0; r < shape.bucket; r++) std::fill_n(arrivals->row(r), form.n_heads, 0);
  };
  c.enqueue = [=](device::Stream& s) {
    device::AppendAttend op{.append = {.q = *q, .k = *k, .v = *v, .q_norm = {}, .k_norm = {}, .cos_sin = *cos_sin,
                                       .rows = paged.row_map(), .kv = paged.kv(), .n_heads = form.n_heads,
                                       .q_head_stride = stride, .interleaved = form.gated, .eps = kEps},
                            .sinks = {},
                            .arrivals = *arrivals,
                            .y = *y,
                            .gated = form.gated,
                            .window = form.window,
                            .scale = scale};
    if (form.norms) op.append.q_norm = norms->view().slice(0, 1), op.append.k_norm = norms->view().slice(1, 1);
    if (form.sinks) op.sinks = sinks->view();
    s.enqueue(op);
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const auto turned = [&](const float* x, int64_t gain, int64_t r) {
      return rotated(x, form.norms ? norms->row(gain) : nullptr, shape.key_dim, cos_sin->row(r), form.n_pairs,
                     form.gated, kEps);
    };
    const auto row_at = [&](int32_t slot, int64_t position) {
      int64_t r = 0;
      while (r < shape.live && (paged.slots->at(0, r) != slot || paged.positions->at(0, r) != position)) r++;
      return r;
    };
    for (int64_t r = 0; r < shape.live; r++) {
      const int32_t slot = paged.slots->at(0, r);
      const int64_t last = paged.positions->at(0, r);
      const int64_t first = form.window > 0 ? std::max<int64_t>(0, last - form.window + 1) : 0;
      for (int h = 0; h < form.n_heads; h++) {
        const int kv_head = h / (form.n_heads / shape.n_kv_heads);
        const Head head = turned(q->row(r) + h * stride, 0, r);
        const std::vector<float> query(head.values.begin(), head.values.end());
        std::vector<float> keys, values;
        double size = 0;  // of the terms of the largest score
        for (int64_t p = first; p <= last; p++) {
          const int64_t token = paged.token(slot, p), fresh = row_at(slot, p);
          Head key{{}, 0};
          if (fresh < shape.live) key = turned(k->row(fresh) + kv_head * shape.key_dim, 1, fresh);
          double terms = 0;
          for (int d = 0; d < shape.key_dim; d++) {
            keys.push_back(fresh < shape.live ? static_cast<float>(key.values[static_cast<size_t>(d)])
                                              : paged.key(token, kv_head * shape.key_dim + d));
            terms += head.size * std::max(key.size, double{std::abs(keys.back())});
          }
          size = std::max(size, terms * scale);
          for (int d = 0; d < shape.value_dim; d++) {
            const int64_t at = kv_head * shape.value_dim + d;
            values.push_back(fresh < shape.live ? v->at(fresh, at) : paged.value(token, at));
          }
        }
        std::vector<double> row(static_cast<size_t>(shape.value_dim));
        ref::attention({query.data(), keys.data(), values.data(), last - first + 1, shape.key_dim, shape.value_dim,
                        double{scale}, form.sinks ? &sinks->at(0, h) : nullptr},
                       row.data());
        const float* gates = q->row(r) + h * stride + shape.key_dim;
        for (int d = 0; form.gated && d < shape.value_dim; d++) row[static_cast<size_t>(d)] *= ref::sigmoid(gates[d]);
        // A weight is off by the error of its score, relative to itself; all values are below 6.
        const double weight_off =
            (3 * shape.key_dim + 16) * kRounding * size + static_cast<double>(last - first + 16) * kRounding;
        want_row_within(wants, y->row(r) + h * shape.value_dim, row, 2 * weight_off * 6);
        want_scratch(wants, q->row(r) + h * stride, shape.key_dim);
      }
      want_scratch(wants, k->row(r), k->cols());
      const int64_t token = paged.token_of_row(r);
      for (int64_t i = 0; i < k->cols(); i++) {
        const int64_t h = i / shape.key_dim, d = i % shape.key_dim;
        const Head key = turned(k->row(r) + h * shape.key_dim, 1, r);
        wants.push_back({paged.key_address(token, i), key.values[static_cast<size_t>(d)],
                         (shape.key_dim + 4) * kRounding * 4 * key.size});
      }
      for (int64_t i = 0; i < v->cols(); i++) wants.push_back({paged.value_address(token, i), v->at(r, i), 0});
    }
    return wants;
  };
}

}  // namespace

void add_attention_cases(Device& device, OpCases& cases) {
  using kernels::KvType;
  rope_angles(device, cases);
  rope_append(device, cases, {"_norms", {.key_dim = 10, .value_dim = 6}, 4, 10, 3, true, false});
  rope_append(device, cases,
              {"_interleaved_f16", {.key_dim = 8, .value_dim = 8, .type = KvType::kF16}, 6, 8, 4, false, true});
  rope_append(device, cases,
              {"_gate_between", {.n_kv_heads = 1, .key_dim = 12, .value_dim = 12}, 3, 24, 6, true, false});
  attention(device, cases, {"", {.key_dim = 10, .value_dim = 6}, 4});
  attention(device, cases, {"_window", {.key_dim = 16, .value_dim = 16}, 6, 7});
  attention(device, cases, {"_window_of_a_block", {.key_dim = 16, .value_dim = 16}, 2, 4});
  attention(device, cases, {"_sinks_f16", {.key_dim = 20, .value_dim = 20, .type = KvType::kF16}, 4, 0, true});
  attention(device, cases, {"_gated", {.n_kv_heads = 1, .key_dim = 12, .value_dim = 9}, 3, 0, false, true});
  attention(device, cases, {"_bf16", {.key_dim = 20, .value_dim = 24, .type = KvType::kBf16}, 4});
  append_attend(device, cases, {"", {.key_dim = 10, .value_dim = 6}, 4, 3});
  append_attend(device, cases, {"_norms_window", {.key_dim = 16, .value_dim = 16}, 20, 8, 7, true, true});
  append_attend(device, cases,
                {"_gated_spans", {.n_kv_heads = 1, .key_dim = 12, .value_dim = 9, .max_position = 400}, 3, 4, 0, true,
                 false, true});
  append_attend(device, cases, {"_many_rows", {.key_dim = 8, .value_dim = 8, .bucket = 12, .live = 11}, 4, 4});
  // Contexts of several spans, with fewer (row, KV head) items than three threads would want.
  attention(device, cases,
            {"_spans_q8_0", {.n_kv_heads = 1, .key_dim = 32, .value_dim = 64, .type = KvType::kQ8_0,
                             .block_tokens = 32, .max_position = 1300}, 3, 0, true, false});
  attention(device, cases,
            {"_spans_window", {.n_kv_heads = 1, .key_dim = 8, .value_dim = 8, .max_position = 1300}, 2, 600});
  attention(device, cases,
            {"_all", {.key_dim = 32, .value_dim = 24, .type = KvType::kF16, .max_position = 70}, 8, 33, true, true});
}

}  // namespace strata::test
