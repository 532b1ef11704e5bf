// Latent attention in the shapes of large models.
#include <cmath>
#include <numeric>

#include "device/paged.h"
#include "kernels_cases.h"
#include "kernels_rig.h"
#include "kernels_weights.h"

namespace strata::test {

using device::host::HostDevice;

namespace {

std::vector<int64_t> first_rows(int64_t n) {
  std::vector<int64_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

struct HeadForm {
  quant::Type type;
  int n_heads;
  int64_t head_rows, cols;
  int32_t live;
  bool transposed = false;
};

void add_head_product(HostDevice& host, OpCases& cases, const HeadForm& form) {
  OpCase& c = add_case<device::HeadMatMul>(host, cases, std::string("_") + quant::info(form.type).name + "_" +
                                                            std::to_string(form.live) + "_rows" +
                                                            (form.transposed ? "_transposed" : ""));
  const int64_t rows = form.n_heads * form.head_rows;
  const size_t row_bytes = quant::row_bytes(form.type, static_cast<size_t>(form.cols));
  const auto w = c.packed<uint8_t>(rows, static_cast<int64_t>(row_bytes));
  const int64_t inputs = form.transposed ? form.head_rows : form.cols;
  const int64_t outputs = form.transposed ? form.cols : form.head_rows;
  const int64_t bucket = form.live + 1;
  const auto x = c.grid<float>(bucket, form.n_heads * (inputs + 8));
  const auto live = c.count_grid();
  const auto y = c.grid<float>(bucket, form.n_heads * (outputs + 3));
  c.fill = [=](Random& random) {
    const auto bytes = any_weights(form.type, static_cast<size_t>(rows * form.cols), random);
    std::memcpy(w->row(0), bytes.data(), bytes.size());
    for (const auto& grid : {x, y}) grid->fill_normal(random);
    live->at(0, 0) = form.live;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::HeadMatMul{.w = {w->memory(), 0, form.type, rows, form.cols, row_bytes}, .x = *x, .live = *live,
                                 .y = *y, .n_heads = form.n_heads, .transposed = form.transposed});
  };
  c.expect = [=, &host, &c] {
    std::vector<float> values(static_cast<size_t>(rows * form.cols));
    quant::info(form.type).decode(w->row(0), values.data(), values.size());
    double largest = 0;
    for (const float v : values) largest = std::max(largest, std::abs(double{v}));
    // One rounding a term, of the size of a sum of normal numbers.
    const double off = 4 * static_cast<double>(inputs) * kRounding * largest * std::sqrt(static_cast<double>(inputs));
    return wants_of_host(host, c, *y, first_rows(form.live), [&](int64_t, int64_t) { return off; });
  };
}

struct LatentForm {
  const char* name;
  kernels::KvType type;
  int n_heads;
  int latent_dim, n_rot;
  int32_t live;
  int64_t max_position;
  double tolerance;  // what an element of the cache that is rounded the other way may do to an output
};

// The first half are rows of a prompt, the others single ones of other sequences.
void add_wide_latent(HostDevice& host, OpCases& cases, const LatentForm& form) {
  OpCase& c = add_case<device::LatentAttend>(host, cases, form.name);
  const PagedShape shape{.n_kv_heads = 1, .key_dim = form.latent_dim + form.n_rot, .value_dim = form.latent_dim,
                         .type = form.type, .block_tokens = 16, .bucket = form.live + 1, .live = form.live,
                         .max_position = form.max_position};
  const Paged paged(c, shape);
  constexpr int kNope = 24;
  const int head_dim = kNope + form.n_rot;
  const auto heads = c.grid<float>(shape.bucket, int64_t{form.n_heads} * head_dim);
  const auto q = c.grid<float>(shape.bucket, int64_t{form.n_heads} * shape.key_dim);
  const auto latent = c.grid<float>(shape.bucket, shape.key_dim);
  const auto gain = c.grid<float>(1, form.latent_dim);
  const auto cos_sin = c.grid<float>(shape.bucket, form.n_rot);
  const auto y = c.grid<float>(shape.bucket, int64_t{form.n_heads} * form.latent_dim);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    for (int64_t r = 0; r < shape.live; r++) {
      const bool prompt = r < shape.live / 2;
      paged.slots->at(0, r) = prompt ? 0 : static_cast<int32_t>(1 + r % 2);
      paged.positions->at(0, r) = static_cast<int32_t>(shape.max_position - (prompt ? shape.live - r : r));
    }
    paged.fill_cache(random);
    for (const auto& grid : {heads, q, latent, gain}) grid->fill_normal(random);
    for (int64_t r = 0; r < shape.bucket; r++) {
      for (int p = 0; p < form.n_rot / 2; p++) {
        const double angle = 6 * random.uniform();
        cos_sin->at(r, p) = static_cast<float>(std::cos(angle));
        cos_sin->at(r, p + form.n_rot / 2) = static_cast<float>(std::sin(angle));
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    device::KvBlocks kv = paged.kv();
    kv.v = kv.k;
    kv.values_in_keys = true;
    s.enqueue(device::LatentAttend{.heads = *heads, .q = *q, .latent = *latent, .gain = *gain, .cos_sin = *cos_sin,
                                   .rows = paged.row_map(), .kv = kv, .y = *y, .n_heads = form.n_heads,
                                   .scale = 1 / std::sqrt(static_cast<float>(shape.key_dim)), .eps = 1e-6f});
  };
  c.expect = [=, &host, &c] {
    const std::vector<int64_t> rows = first_rows(shape.live);
    auto wants = wants_of_host(host, c, *y, rows, [&](int64_t, int64_t) { return form.tolerance; });
    for (const auto& grid : {q, latent}) {
      const auto more = wants_of_host(host, c, *grid, rows, [](int64_t, int64_t) { return 2e-5; });
      wants.insert(wants.end(), more.begin(), more.end());
    }
    for (const int64_t r : rows) want_scratch(wants, paged.k->row(paged.token_of_row(r)), paged.k->cols() / 4);
    return wants;
  };
}

}  // namespace

void add_wide_latent_cases(HostDevice& host, OpCases& cases) {
  using kernels::KvType;
  using quant::Type;
  for (const int32_t live : {1, 5, 70}) {
    add_head_product(host, cases, {Type::Q8_0, 5, 200, 128, live});
    add_head_product(host, cases, {Type::Q4_K, 3, 100, 512, live});
    add_head_product(host, cases, {Type::Q8_0, 3, 100, 160, live, true});
    add_head_product(host, cases, {Type::BF16, 4, 33, 70, live, true});
  }
  for (const Type type : {Type::Q5_0, Type::Q6_K, Type::Q3_K, Type::IQ4_XS, Type::F16}) {
    add_head_product(host, cases, {type, 2, 40, 256, 9});
    add_head_product(host, cases, {type, 2, 40, 256, 9, true});
  }
  add_wide_latent(host, cases, {"_few_f16", KvType::kF16, 128, 512, 64, 3, 1500, 2e-3});
  add_wide_latent(host, cases, {"_many_f16", KvType::kF16, 16, 512, 64, 40, 700, 2e-3});
  add_wide_latent(host, cases, {"_prompt_f16", KvType::kF16, 16, 512, 64, 150, 400, 2e-3});
  add_wide_latent(host, cases, {"_prompt_many_heads_f16", KvType::kF16, 40, 128, 32, 140, 300, 2e-3});
  add_wide_latent(host, cases, {"_many_heads_f16", KvType::kF16, 50, 256, 32, 20, 300, 2e-3});
  add_wide_latent(host, cases, {"_few_f32", KvType::kF32, 16, 512, 64, 4, 600, 5e-5});
  add_wide_latent(host, cases, {"_many_f32", KvType::kF32, 20, 64, 16, 30, 200, 5e-5});
  add_wide_latent(host, cases, {"_q8_0", KvType::kQ8_0, 16, 512, 64, 5, 500, 2e-2});
  add_wide_latent(host, cases, {"_bf16", KvType::kBf16, 16, 512, 64, 5, 500, 2e-2});
}

}  // namespace strata::test
