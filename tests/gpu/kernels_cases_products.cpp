#include <algorithm>
#include <cmath>

#include "kernels_cases.h"
#include "kernels_rig.h"
#include "kernels_weights.h"

namespace strata::test {

using device::Rounding;
using device::host::HostDevice;

namespace {

std::vector<float> decoded_weights(quant::Type type, const uint8_t* bytes, size_t n) {
  std::vector<float> values(n);
  quant::info(type).decode(bytes, values.data(), n);
  return values;
}

std::vector<int64_t> first_rows(int64_t n) {
  std::vector<int64_t> rows(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) rows[static_cast<size_t>(i)] = i;
  return rows;
}

struct ProductForm {
  quant::Type type;
  Rounding rounding;
  int64_t rows, cols, bucket;
  int32_t live;
  bool bias, accumulate;
};

std::shared_ptr<Grid<float>> add_product(HostDevice& host, OpCases& cases, const ProductForm& form) {
  const char* rounding = form.rounding == Rounding::kNone ? "" : form.rounding == Rounding::kOnce ? "_once" : "_twice";
  OpCase& c = add_case<device::MatMul>(host, cases, std::string("_") + quant::info(form.type).name + rounding + "_" +
                                                        std::to_string(form.live) + "_rows");
  const size_t row_bytes = quant::row_bytes(form.type, static_cast<size_t>(form.cols));
  const auto w = c.packed<uint8_t>(form.rows, static_cast<int64_t>(row_bytes));
  const auto x = c.grid<float>(form.bucket, form.cols);
  const auto bias = c.grid<float>(1, form.rows);
  const auto live = c.count_grid();
  const auto y = c.grid<float>(form.bucket, form.rows);
  c.fill = [=](Random& random) {
    const auto bytes = any_weights(form.type, static_cast<size_t>(form.rows * form.cols), random);
    std::memcpy(w->row(0), bytes.data(), bytes.size());
    x->fill_normal(random);
    bias->fill_normal(random);
    y->fill_normal(random);
    live->at(0, 0) = form.live;
  };
  c.enqueue = [=](device::Stream& s) {
    device::MatMul op{.w = {w->memory(), 0, form.type, form.rows, form.cols, row_bytes, form.rounding},
                      .x = *x, .bias = {}, .live = *live, .y = *y, .accumulate = form.accumulate};
    if (form.bias) op.bias = *bias;
    s.enqueue(op);
  };
  c.expect = [=, &host, &c] {
    const auto values = decoded_weights(form.type, w->row(0), static_cast<size_t>(form.rows * form.cols));
    // One rounding a term, of the size of all terms together.
    return wants_of_host(host, c, *y, first_rows(form.live), [&](int64_t t, int64_t r) {
      double size = 3;
      for (int64_t i = 0; i < form.cols; i++)
        size += std::abs(double{values[static_cast<size_t>(r * form.cols + i)]} * x->at(t, i));
      return static_cast<double>(form.cols + 16) * kRounding * size;
    });
  };
  return y;
}

}  // namespace

void add_product_cases(HostDevice& host, OpCases& cases) {
  struct Rows {
    int64_t bucket;
    int32_t live;
  };
  int variant = 0;
  for (const quant::Type type : weight_types()) {
    const bool rounds = kernels::act_format(type) != kernels::ActFormat::kNone;
    // Odd widths: a whole number of blocks that is none of tiles or of warps.
    const int64_t block = quant::info(type).block_elems;
    const int64_t cols = block * (block < 256 ? 9 : 3);
    for (const Rounding rounding : {Rounding::kNone, Rounding::kOnce, Rounding::kTwice}) {
      if (rounding != Rounding::kNone && !rounds) continue;
      for (const Rows rows : {Rows{1, 1}, Rows{2, 2}, Rows{8, 7}, Rows{96, 81}}) {
        variant++;
        const bool bias = variant % 2 == 0, accumulate = variant % 3 == 0;
        add_product(host, cases, {type, rounding, 67, cols, rows.bucket, rows.live, bias, accumulate});
      }
    }
  }
  // More columns than shared memory holds at once, and many rows of weights.
  using quant::Type;
  add_product(host, cases, {Type::F32, Rounding::kNone, 9, 20000, 3, 3, false, false});
  add_product(host, cases, {Type::Q4_K, Rounding::kNone, 9, 16384, 4, 4, true, false});
  add_product(host, cases, {Type::Q8_0, Rounding::kOnce, 9, 40000, 1, 1, false, true});
  add_product(host, cases, {Type::Q6_K, Rounding::kTwice, 9, 16384, 4, 3, true, false});
  add_product(host, cases, {Type::Q4_K, Rounding::kOnce, 7000, 256, 1, 1, false, false});
}

const Grid<float>* add_rows_case(HostDevice& host, OpCases& cases, quant::Type type, Rounding rounding, int32_t live) {
  return add_product(host, cases, {type, rounding, 67, 768, live, live, false, false}).get();
}

void add_embed_cases(HostDevice& host, OpCases& cases) {
  for (const quant::Type type : weight_types()) {
    OpCase& c = add_case<device::Embed>(host, cases, std::string("_") + quant::info(type).name);
    constexpr int64_t kCols = 768, kVocab = 5, kRows = 4;
    const size_t row_bytes = quant::row_bytes(type, kCols);
    const auto table = c.packed<uint8_t>(kVocab, static_cast<int64_t>(row_bytes));
    const auto ids = c.grid<int32_t>(1, kRows);
    const auto live = c.count_grid();
    const auto y = c.grid<float>(kRows, kCols);
    c.fill = [=](Random& random) {
      const auto bytes = any_weights(type, kVocab * kCols, random);
      std::memcpy(table->row(0), bytes.data(), bytes.size());
      for (int64_t i = 0; i < kRows; i++) ids->at(0, i) = static_cast<int32_t>(random.below(kVocab));
      live->at(0, 0) = 3;
    };
    c.enqueue = [=](device::Stream& s) {
      s.enqueue(device::Embed{.table = {table->memory(), 0, type, kVocab, kCols, row_bytes}, .ids = *ids,
                              .live = *live, .y = *y});
    };
    c.expect = [=, &host, &c] {
      return wants_of_host(host, c, *y, first_rows(3), [](int64_t, int64_t) { return 0.0; });
    };
  }
}

namespace {

constexpr int64_t kUsed = 4, kExperts = 7, kSlots = 5;
constexpr int64_t kDim = 256, kFfn = 512;
constexpr int32_t kSlotOf[kExperts] = {2, -1, 0, 3, 4, -1, 1};

// What rounding of sums may do to a row of outputs, to each in parts of their root mean square.
constexpr double kSameRow = 2e-5;
double row_size(const std::vector<Want>& wants, size_t first, size_t n) {
  double squares = 0;
  for (size_t i = first; i < first + n; i++) squares += wants[i].value * wants[i].value;
  return std::sqrt(squares / static_cast<double>(n));
}

struct RoutedForm {
  quant::Type gate, up, down;
  bool rounded;
  int64_t bucket;
  int32_t live;
};

void add_routed(HostDevice& host, OpCases& cases, const RoutedForm& form) {
  OpCase& c = add_case<device::ExpertFfn>(host, cases,
                                          std::string("_") + quant::info(form.gate).name + "_" +
                                              quant::info(form.up).name + "_" + quant::info(form.down).name +
                                              (form.rounded ? "_rounded_" : "_") + std::to_string(form.live));
  device::ExpertBlob blob;
  size_t end = 0;
  const auto matrix = [&](quant::Type type, int64_t rows, int64_t cols) {
    device::ExpertMatrix m{type, rows, cols, quant::row_bytes(type, static_cast<size_t>(cols)), end};
    end += static_cast<size_t>(rows) * m.row_bytes;
    return m;
  };
  blob.gate = matrix(form.gate, kFfn, kDim);
  blob.up = matrix(form.up, kFfn, kDim);
  blob.down = matrix(form.down, kDim, kFfn);
  blob.bytes = align_up(end, 64);
  const auto stride = static_cast<int64_t>(blob.bytes) + 32;
  const auto slots = c.packed<uint8_t>(kSlots, stride);
  const auto offsets = c.grid<int64_t>(1, kSlots);
  const auto x = c.grid<float>(form.bucket, kDim);
  const auto ids = c.grid<int32_t>(form.bucket, kUsed);
  const auto slot_of = c.grid<int32_t>(1, kExperts);
  const auto live = c.count_grid();
  const auto inputs = c.grid<float>(form.bucket * kUsed, kFfn);
  const auto hidden = c.grid<float>(form.bucket * kUsed, kFfn);
  const auto groups = c.packed<int32_t>(1, device::expert_group_ints(form.bucket * kUsed, kExperts));
  const auto y = c.grid<float>(form.bucket * kUsed, kDim);
  c.fill = [=](Random& random) {
    for (int64_t s = 0; s < kSlots; s++) {
      for (const device::ExpertMatrix* m : {&blob.gate, &blob.up, &blob.down}) {
        const auto bytes = any_weights(m->type, static_cast<size_t>(m->rows * m->cols), random);
        std::memcpy(slots->row(s) + m->offset, bytes.data(), bytes.size());
      }
      offsets->at(0, s) = s * stride;
    }
    x->fill_normal(random, 0.1);
    for (int64_t r = 0; r < form.bucket; r++) {
      const auto first = static_cast<int64_t>(random.below(kExperts));
      for (int64_t j = 0; j < kUsed; j++)
        ids->at(r, j) = r < form.live ? static_cast<int32_t>((first + j * 2) % kExperts) : -1;
    }
    slot_of->set_row(0, {kSlotOf, kSlotOf + kExperts});
    live->at(0, 0) = form.live;
  };
  c.enqueue = [=](device::Stream& s) {
    device::ExpertFormula formula;
    formula.round_activations = form.rounded;
    s.enqueue(device::ExpertFfn{.x = *x, .ids = *ids, .live = *live, .slot_of = *slot_of,
                                .slots = {slots->memory(), *offsets}, .blob = blob, .formula = formula,
                                .inputs = *inputs, .hidden = *hidden, .groups = *groups, .y = *y});
  };
  c.expect = [=, &host, &c] {
    std::vector<int64_t> pairs;
    for (int64_t p = 0; p < form.live * kUsed; p++) {
      if (kSlotOf[ids->at(p / kUsed, p % kUsed)] >= 0) pairs.push_back(p);
    }
    std::vector<Want> wants = wants_of_host(host, c, *y, pairs, [](int64_t, int64_t) { return 0.0; });
    // A hidden value that differs in its last bit may be rounded to the code beside: each output is then off by its
    // weight times a step of the row's codes. Two such values in a row are allowed for; that they are rare is for
    // same_routed_rows() to see.
    double step = 0;
    if (form.rounded) {
      for (const Want& h : wants_of_host(host, c, *hidden, first_rows(static_cast<int64_t>(pairs.size())),
                                         [](int64_t, int64_t) { return 0.0; })) {
        step = std::max(step, std::abs(h.value) / 127);
      }
    }
    for (size_t i = 0; i < wants.size(); i += kDim) {
      const size_t pair = static_cast<size_t>(pairs[i / kDim]);
      const int32_t slot = kSlotOf[ids->at(static_cast<int64_t>(pair) / kUsed, static_cast<int64_t>(pair) % kUsed)];
      const auto down = decoded_weights(form.down, slots->row(slot) + blob.down.offset, kDim * kFfn);
      const double rounding = kSameRow * row_size(wants, i, kDim);
      for (size_t r = 0; r < kDim; r++) {
        double largest = 0;
        for (size_t j = 0; j < kFfn; j++) largest = std::max(largest, std::abs(double{down[r * kFfn + j]}));
        wants[i + r].tolerance = rounding + 2 * largest * step;
      }
    }
    for (int64_t p = 0; p < form.bucket * kUsed; p++) {
      want_scratch(wants, inputs->row(p), inputs->cols());
      want_scratch(wants, hidden->row(p), kFfn);
    }
    want_scratch(wants, groups->row(0), groups->cols());
    return wants;
  };
}

}  // namespace

SameRows same_routed_rows(const std::vector<Want>& wants) {
  SameRows rows;
  // Outputs come first, then what is scratch.
  for (size_t i = 0; i + kDim <= wants.size() && wants[i].kind == Want::Kind::kF32; i += kDim) {
    const double rounding = kSameRow * row_size(wants, i, kDim);
    bool same = true;
    for (size_t r = i; r < i + kDim; r++) same = same && std::abs(value_at(wants[r]) - wants[r].value) <= rounding;
    rows.all++;
    if (same) rows.same++;
  }
  return rows;
}

void add_routed_cases(HostDevice& host, OpCases& cases) {
  using quant::Type;
  for (const Type type : weight_types()) {
    const bool rounds = kernels::act_format(type) != kernels::ActFormat::kNone;
    for (const bool rounded : {false, true}) {
      if (rounded && !rounds) continue;
      add_routed(host, cases, {type, type, type, rounded, 3, 2});
      add_routed(host, cases, {type, type, type, rounded, 48, 41});
    }
  }
  for (const int32_t live : {2, 41}) {
    // Inputs that are rounded in two ways, and not at all.
    add_routed(host, cases, {Type::Q4_K, Type::Q8_0, Type::Q6_K, true, live + 1, live});
    add_routed(host, cases, {Type::F16, Type::Q5_K, Type::BF16, true, live + 1, live});
  }
}

}  // namespace strata::test
