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
  // More of them than the rings of all multiprocessors hold.
  add_product(host, cases, {Type::Q8_0, Rounding::kOnce, 30000, 256, 1, 1, true, false});
  add_product(host, cases, {Type::Q6_K, Rounding::kTwice, 30000, 256, 1, 1, false, true});
  // Whole rounds of lanes, and a few more columns.
  for (const Type type : {Type::Q4_0, Type::Q8_0, Type::MXFP4, Type::Q3_K, Type::Q4_K, Type::Q6_K}) {
    add_product(host, cases, {type, Rounding::kOnce, 131, 2048, 1, 1, false, true});
    add_product(host, cases, {type, Rounding::kTwice, 131, 4096, 1, 1, true, false});
    add_product(host, cases, {type, Rounding::kOnce, 131, 2304, 4, 3, true, true});
    add_product(host, cases, {type, Rounding::kTwice, 131, 2304, 2, 2, false, false});
  }
}

namespace {

struct ProjectForm {
  std::vector<quant::Type> types;  // of the parts
  Rounding rounding;
  int64_t cols;
  int32_t live;
};

// Inputs are small powers of two and the norm has no epsilon, so that host and device norm to the same bits and then
// round to the same codes.
void add_projection(HostDevice& host, OpCases& cases, const ProjectForm& form) {
  constexpr int64_t kPartRows = 37;
  std::string name = "_" + std::to_string(form.live) + "_rows_of_" + std::to_string(form.cols);
  for (const quant::Type type : form.types) name += std::string("_") + quant::info(type).name;
  OpCase& c = add_case<device::Project>(host, cases, name);
  const auto n = static_cast<int64_t>(form.types.size());
  const auto x = c.grid<float>(form.live, form.cols);
  const auto gain = c.grid<float>(1, form.cols);
  std::vector<std::shared_ptr<Grid<uint8_t>>> weights;
  for (const quant::Type type : form.types) {
    weights.push_back(
        c.packed<uint8_t>(kPartRows, static_cast<int64_t>(quant::row_bytes(type, static_cast<size_t>(form.cols)))));
  }
  const auto bias = c.grid<float>(1, kPartRows);
  const auto live = c.count_grid();
  const auto normed = c.grid<float>(form.live, form.cols);
  const auto y = c.grid<float>(form.live, n * kPartRows);
  c.fill = [=](Random& random) {
    for (int64_t r = 0; r < form.live; r++) {
      for (int64_t i = 0; i < form.cols; i++) {
        const float size = random.below(2) == 0 ? 1.0f : 2.0f;
        x->at(r, i) = random.below(2) == 0 ? size : -size;
      }
    }
    gain->fill_normal(random);
    bias->fill_normal(random);
    for (size_t i = 0; i < weights.size(); i++) {
      const auto bytes = any_weights(form.types[i], static_cast<size_t>(kPartRows * form.cols), random);
      std::memcpy(weights[i]->row(0), bytes.data(), bytes.size());
    }
    live->at(0, 0) = form.live;
  };
  c.enqueue = [=](device::Stream& s) {
    device::Project op{.x = *x, .gain = *gain, .live = *live, .normed = *normed, .y = *y, .eps = 0};
    for (size_t i = 0; i < weights.size(); i++) {
      const quant::Type type = form.types[i];
      const size_t row_bytes = quant::row_bytes(type, static_cast<size_t>(form.cols));
      op.parts[i].w = {weights[i]->memory(), 0, type, kPartRows, form.cols, row_bytes, form.rounding};
      if (i == 1) op.parts[i].bias = *bias;
    }
    s.enqueue(op);
  };
  c.expect = [=, &host, &c] {
    std::vector<std::vector<float>> values;
    for (size_t i = 0; i < weights.size(); i++) {
      values.push_back(
          decoded_weights(form.types[i], weights[i]->row(0), static_cast<size_t>(kPartRows * form.cols)));
    }
    auto wants = wants_of_host(host, c, *y, first_rows(form.live), [&](int64_t, int64_t column) {
      const float* row = values[static_cast<size_t>(column / kPartRows)].data() + column % kPartRows * form.cols;
      double size = 3;
      for (int64_t i = 0; i < form.cols; i++) size += std::abs(2.0 * row[i] * gain->at(0, i));
      return static_cast<double>(form.cols + 16) * kRounding * size;
    });
    for (int64_t r = 0; r < form.live; r++) want_scratch(wants, normed->row(r), form.cols);
    return wants;
  };
}

}  // namespace

void add_projection_cases(HostDevice& host, OpCases& cases) {
  using quant::Type;
  for (const int32_t live : {1, 2, 5, 20}) {
    add_projection(host, cases, {{Type::Q8_0, Type::Q8_0, Type::Q8_0}, Rounding::kOnce, 2048, live});
    add_projection(host, cases, {{Type::Q4_K, Type::Q4_K, Type::Q6_K}, Rounding::kOnce, 768, live});
    add_projection(host, cases, {{Type::MXFP4, Type::F16, Type::F16, Type::MXFP4}, Rounding::kNone, 96, live});
  }
  add_projection(host, cases, {{Type::Q8_0, Type::Q8_0}, Rounding::kTwice, 288, 3});
  add_projection(host, cases, {{Type::Q5_K, Type::Q5_K}, Rounding::kOnce, 32768, 1});  // too wide to be normed in place
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
