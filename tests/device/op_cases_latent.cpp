// Latent attention: the matrices of the heads, and attention to the latent cache.
#include <algorithm>
#include <cmath>

#include "device/op_matrix.h"
#include "device/paged.h"
#include "kernels/ref/ref.h"

namespace strata::test {

namespace ref = kernels::ref;
using device::Device;

namespace {

struct HeadForm {
  const char* name;
  quant::Type type;
  int n_heads;
  int64_t head_rows, cols;
  int64_t between_x, between_y;  // columns between heads that are no input and no output
  int64_t bucket, live;
  bool transposed = false;
};

// Element (output, input) of a head's matrix, however it stands.
std::vector<float> effective_row(const HeadForm& form, const std::vector<float>& w, int head, int64_t output) {
  const float* begin = w.data() + head * form.head_rows * form.cols;
  if (!form.transposed) return {begin + output * form.cols, begin + (output + 1) * form.cols};
  std::vector<float> row;
  for (int64_t i = 0; i < form.head_rows; i++) row.push_back(begin[i * form.cols + output]);
  return row;
}

void head_mat_mul(Device& device, OpCases& cases, const HeadForm& form) {
  OpCase& c = add_case<device::HeadMatMul>(device, cases, form.name);
  const Matrix w(c, form.type, form.n_heads * form.head_rows, form.cols);
  const int64_t inputs = form.transposed ? form.head_rows : form.cols;
  const int64_t outputs = form.transposed ? form.cols : form.head_rows;
  const int64_t x_stride = inputs + form.between_x, y_stride = outputs + form.between_y;
  const auto x = c.grid<float>(form.bucket, form.n_heads * x_stride);
  const auto live = c.count_grid();
  const auto y = c.grid<float>(form.bucket, form.n_heads * y_stride);
  c.fill = [=](Random& random) {
    w.fill(random);
    x->fill_normal(random);
    y->fill_normal(random);
    live->at(0, 0) = static_cast<int32_t>(form.live);
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::HeadMatMul{
        .w = w, .x = *x, .live = *live, .y = *y, .n_heads = form.n_heads, .transposed = form.transposed});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const std::vector<float> values = w.values();
    for (int64_t t = 0; t < form.live; t++) {
      for (int h = 0; h < form.n_heads; h++) {
        const float* in = x->row(t) + h * x_stride;
        for (int64_t o = 0; o < outputs; o++) {
          const std::vector<float> row = effective_row(form, values, h, o);
          const double off = static_cast<double>(inputs) * kRounding * product_size(row.data(), in, inputs);
          wants.push_back({y->row(t) + h * y_stride + o, ref::dot(row.data(), in, inputs), off});
        }
      }
    }
    return wants;
  };
}

struct LatentForm {
  const char* name;
  PagedShape shape;  // of the cache: key_dim is the latent and the rotated values, value_dim the latent
  int n_heads;
  int nope_dim;
};

struct Row {
  std::vector<double> values;
  double size = 0;  // how large its parts were before they were added
};

// The last n_rot values turned in pairs of neighbours.
void turn(Row& row, int n_rot, const float* cos_sin) {
  double* x = row.values.data() + row.values.size() - static_cast<size_t>(n_rot);
  for (int p = 0; p < n_rot / 2; p++) {
    const double a = x[2 * p], b = x[2 * p + 1], cos = cos_sin[p], sin = cos_sin[p + n_rot / 2];
    row.size = std::max(row.size, 2 * std::max(std::abs(a), std::abs(b)));
    x[2 * p] = a * cos - b * sin;
    x[2 * p + 1] = a * sin + b * cos;
  }
}

// Rows 0 to 3 continue one sequence, the later ones are each the newest of another or of the same one further on.
void latent_attend(Device& device, OpCases& cases, const LatentForm& form) {
  OpCase& c = add_case<device::LatentAttend>(device, cases, form.name);
  const PagedShape& shape = form.shape;
  const Paged paged(c, shape);
  constexpr float kEps = 1e-3f;
  const int latent_dim = shape.value_dim, n_rot = shape.key_dim - shape.value_dim;
  const int head_dim = form.nope_dim + n_rot;
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  const auto heads = c.grid<float>(shape.bucket, int64_t{form.n_heads} * head_dim);
  const auto q = c.grid<float>(shape.bucket, int64_t{form.n_heads} * shape.key_dim);
  const auto latent = c.grid<float>(shape.bucket, shape.key_dim);
  const auto gain = c.grid<float>(1, latent_dim);
  const auto cos_sin = c.grid<float>(shape.bucket, n_rot);
  const auto y = c.grid<float>(shape.bucket, int64_t{form.n_heads} * latent_dim);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    for (int64_t r = 0; r < shape.live; r++) {
      paged.slots->at(0, r) = r < 4 ? 0 : static_cast<int32_t>((r - 3) % 3);
      paged.positions->at(0, r) = static_cast<int32_t>(shape.max_position + (r < 4 ? r - 10 : 4 - r));
    }
    paged.fill_cache(random);
    for (const auto& grid : {heads, q, latent, gain, cos_sin}) grid->fill_normal(random);
  };
  c.enqueue = [=](device::Stream& s) {
    device::KvBlocks kv = paged.kv();
    kv.v = kv.k;
    kv.values_in_keys = true;
    s.enqueue(device::LatentAttend{.heads = *heads, .q = *q, .latent = *latent, .gain = *gain, .cos_sin = *cos_sin,
                                   .rows = paged.row_map(), .kv = kv, .y = *y, .n_heads = form.n_heads,
                                   .scale = scale, .eps = kEps});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const bool f16 = shape.type == kernels::KvType::kF16;
    const double stored = f16 ? 0x1p-11 : 0;  // relative, of an element of the cache
    std::vector<Row> appended;
    for (int64_t r = 0; r < shape.live; r++) {
      Row row{std::vector<double>(latent->row(r), latent->row(r) + shape.key_dim), 0};
      ref::rms_norm(latent->row(r), gain->row(0), row.values.data(), latent_dim, double{kEps});
      turn(row, n_rot, cos_sin->row(r));
      for (const double v : row.values) row.size = std::max(row.size, std::abs(v));
      appended.push_back(row);
    }
    // The cache's row of a position, as far as this step does not write it.
    const auto row_at = [&](int32_t slot, int64_t position) {
      for (int64_t r = 0; r < shape.live; r++) {
        if (paged.slots->at(0, r) == slot && paged.positions->at(0, r) == position) {
          return appended[static_cast<size_t>(r)].values;
        }
      }
      std::vector<double> values;
      for (int d = 0; d < shape.key_dim; d++) values.push_back(paged.key(paged.token(slot, position), d));
      return values;
    };
    for (int64_t r = 0; r < shape.live; r++) {
      const Row& own = appended[static_cast<size_t>(r)];
      const int64_t last = paged.positions->at(0, r);
      std::vector<float> keys, values;
      double largest = 0;
      for (int64_t p = 0; p <= last; p++) {
        for (const double v : row_at(paged.slots->at(0, r), p)) {
          keys.push_back(static_cast<float>(v));
          largest = std::max(largest, std::abs(v));
        }
        values.insert(values.end(), keys.end() - shape.key_dim, keys.end() - n_rot);
      }
      for (int h = 0; h < form.n_heads; h++) {
        const float* absorbed = q->row(r) + h * shape.key_dim;
        Row query{std::vector<double>(absorbed, absorbed + latent_dim), 0};
        const float* rotated = heads->row(r) + h * head_dim + form.nope_dim;
        query.values.insert(query.values.end(), rotated, rotated + n_rot);
        turn(query, n_rot, cos_sin->row(r));
        const std::vector<float> exact(query.values.begin(), query.values.end());
        std::vector<double> out(static_cast<size_t>(latent_dim));
        ref::attention({exact.data(), keys.data(), values.data(), last + 1, shape.key_dim, latent_dim, double{scale},
                        nullptr},
                       out.data());
        double terms = 0;
        for (const double v : query.values) terms += std::abs(v) * std::max(largest, query.size);
        const double weight_off = ((3 * shape.key_dim + 16) * kRounding + stored) * terms * scale +
                                  static_cast<double>(last + 16) * kRounding + stored;
        want_row_within(wants, y->row(r) + h * latent_dim, out, 2 * weight_off * largest);
        want_row_within(wants, absorbed + latent_dim,
                        {query.values.begin() + latent_dim, query.values.end()}, 4 * kRounding * query.size);
      }
      const int64_t token = paged.token_of_row(r);
      for (int d = 0; d < shape.key_dim; d++) {
        const double value = own.values[static_cast<size_t>(d)];
        const double off = (latent_dim + 4) * kRounding * own.size;
        wants.push_back({latent->row(r) + d, value, off});
        wants.push_back({paged.key_address(token, d), value, off + std::abs(value) * stored + (f16 ? 0x1p-25 : 0),
                         f16 ? Want::Kind::kF16 : Want::Kind::kF32});
      }
    }
    return wants;
  };
}

}  // namespace

void add_latent_cases(Device& device, OpCases& cases) {
  using kernels::KvType;
  using quant::Type;
  head_mat_mul(device, cases, {"", Type::F32, 3, 7, 20, 5, 2, 7, 5});
  head_mat_mul(device, cases, {"_blocks", Type::Q8_0, 5, 33, 64, 0, 3, 7, 5});
  head_mat_mul(device, cases, {"_many_tokens", Type::F16, 2, 9, 24, 0, 0, 140, 131});
  head_mat_mul(device, cases, {"_transposed", Type::Q8_0, 3, 9, 64, 4, 6, 7, 5, true});
  head_mat_mul(device, cases, {"_transposed_many_tokens", Type::F32, 2, 5, 20, 0, 0, 140, 131, true});
  latent_attend(device, cases, {"", {.n_kv_heads = 1, .key_dim = 14, .value_dim = 10}, 4, 6});
  // More heads than are computed together, and not a multiple of them.
  latent_attend(device, cases, {"_many_heads_f16",
                                {.n_kv_heads = 1, .key_dim = 24, .value_dim = 16, .type = KvType::kF16}, 37, 5});
  latent_attend(device, cases,
                {"_spans", {.n_kv_heads = 1, .key_dim = 12, .value_dim = 8, .max_position = 1300}, 2, 3});
}

}  // namespace strata::test
