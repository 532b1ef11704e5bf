// Residuals of several streams: the mixture that a block reads, and what the streams take of its output.
#include <cmath>

#include "device/op_case.h"
#include "kernels/ref/ref.h"

namespace strata::test {

namespace ref = kernels::ref;
using device::Device;

namespace {

constexpr int64_t kRows = 6;
constexpr int32_t kLive = 4;

// A matrix of float32 as a Weight.
device::Weight weight_of(const Grid<float>& grid) {
  const size_t row_bytes = static_cast<size_t>(grid.cols()) * sizeof(float);
  return {grid.memory(), 0, quant::Type::F32, grid.rows(), grid.cols(), row_bytes};
}

struct MixForm {
  const char* name;
  int n_streams;
  int64_t dim, rank;
  bool inject;
};

// What the formula says of one row: the mixture, the amounts.
struct Mixture {
  std::vector<double> y, amounts;
};
std::vector<double> times(const Grid<float>& w, const std::vector<double>& x) {
  std::vector<double> y(static_cast<size_t>(w.rows()));
  for (int64_t r = 0; r < w.rows(); r++) {
    for (size_t i = 0; i < x.size(); i++) y[static_cast<size_t>(r)] += double{w.at(r, static_cast<int64_t>(i))} * x[i];
  }
  return y;
}
Mixture mixture(const MixForm& form, const float* x, const float* gain, float eps, const Grid<float>& down,
                const Grid<float>& up, const Grid<float>& inject) {
  const auto dim = static_cast<size_t>(form.dim);
  const auto streams = static_cast<size_t>(form.n_streams);
  std::vector<double> normed(streams * dim);
  for (size_t at = 0; at < normed.size(); at += dim) {
    ref::rms_norm(x + at, gain + at, normed.data() + at, form.dim, double{eps});
  }
  std::vector<double> low = times(down, normed);
  for (double& value : low) value = ref::silu(value / form.n_streams);
  const std::vector<double> gates = times(up, low);
  Mixture out{std::vector<double>(dim), times(inject, normed)};
  for (size_t i = 0; i < normed.size(); i++) {
    out.y[i % dim] += ref::sigmoid(gates[i]) * normed[i] / form.n_streams;
  }
  for (double& amount : out.amounts) amount = 2 * ref::sigmoid(amount / form.n_streams);
  return out;
}

void hyper_mix(Device& device, OpCases& cases, const MixForm& form) {
  OpCase& c = add_case<device::HyperMix>(device, cases, form.name);
  constexpr float kEps = 1e-2f;
  const int64_t width = form.n_streams * form.dim;
  const auto x = c.grid<float>(kRows, width);
  const auto gain = c.grid<float>(1, width);
  const auto down = c.packed<float>(form.rank, width);
  const auto up = c.packed<float>(width, form.rank);
  const auto inject = c.packed<float>(form.n_streams, width);
  const auto live = c.count_grid();
  const auto normed = c.grid<float>(kRows, width), gates = c.grid<float>(kRows, width);
  const auto low = c.grid<float>(kRows, form.rank);
  const auto y = c.grid<float>(kRows, form.dim);
  const auto amounts = c.grid<float>(kRows, form.n_streams);
  c.fill = [=](Random& random) {
    for (const auto& grid : {x, gain}) grid->fill_normal(random);
    for (const auto& grid : {down, up, inject}) grid->fill_normal(random, 0.3);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    device::HyperMix op{.x = *x, .gain = *gain, .down = weight_of(*down), .up = weight_of(*up), .inject = {},
                        .live = *live, .normed = *normed, .low = *low, .gates = *gates, .y = *y, .amounts = {},
                        .n_streams = form.n_streams, .eps = kEps};
    if (form.inject) {
      op.inject = weight_of(*inject);
      op.amounts = *amounts;
    }
    s.enqueue(op);
  };
  c.expect = [=] {
    // Sums of at most some hundred products of values around 1, through functions whose slope is at most 1.1.
    constexpr double kTolerance = 1e-5;
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      const Mixture want = mixture(form, x->row(r), gain->row(0), kEps, *down, *up, *inject);
      want_row_within(wants, y->row(r), want.y, kTolerance);
      if (form.inject) want_row_within(wants, amounts->row(r), want.amounts, kTolerance);
      want_scratch(wants, normed->row(r), width);
      want_scratch(wants, gates->row(r), width);
      want_scratch(wants, low->row(r), form.rank);
    }
    return wants;
  };
}

// The numbers that the formula's author computed: two streams of two values, rank 1.
void hyper_mix_by_hand(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::HyperMix>(device, cases, "_by_hand");
  const auto x = c.grid<float>(1, 4), gain = c.grid<float>(1, 4);
  const auto down = c.packed<float>(1, 4), up = c.packed<float>(4, 1), inject = c.packed<float>(2, 4);
  const auto live = c.count_grid();
  const auto normed = c.grid<float>(1, 4), gates = c.grid<float>(1, 4), low = c.grid<float>(1, 1);
  const auto y = c.grid<float>(1, 2), amounts = c.grid<float>(1, 2);
  c.fill = [=](Random&) {
    x->set_row(0, {1, 2, -1, 0.5});
    gain->set_row(0, {1, 0.5, 2, 1});
    down->set_row(0, {0.1f, -0.2f, 0.3f, 0.4f});
    for (int64_t i = 0; i < 4; i++) up->at(i, 0) = std::vector<float>{1, -1, 0.5, 2}[static_cast<size_t>(i)];
    inject->set_row(0, {0.5, 0, 0, 0.25});
    inject->set_row(1, {0, -0.5, 1, 0});
    live->at(0, 0) = 1;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::HyperMix{.x = *x, .gain = *gain, .down = weight_of(*down), .up = weight_of(*up),
                               .inject = weight_of(*inject), .live = *live, .normed = *normed, .low = *low,
                               .gates = *gates, .y = *y, .amounts = *amounts, .n_streams = 2, .eps = 1e-6f});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    want_row_within(wants, y->row(0), {-0.4646754, 0.3066514}, 2e-7);
    want_row_within(wants, amounts->row(0), {1.1180326, 0.3883759}, 2e-7);
    want_row_within(wants, low->row(0), {-0.1221880}, 2e-7);
    want_scratch(wants, normed->row(0), 4);
    want_scratch(wants, gates->row(0), 4);
    return wants;
  };
}

void hyper_add(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::HyperAdd>(device, cases, "");
  constexpr int64_t kDim = 21, kStreams = 3;
  const auto y = c.grid<float>(kRows, kDim);
  const auto amounts = c.grid<float>(kRows, kStreams);
  const auto live = c.count_grid();
  const auto x = c.grid<float>(kRows, kStreams * kDim);
  c.fill = [=](Random& random) {
    for (const auto& grid : {y, amounts, x}) grid->fill_normal(random);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::HyperAdd{.y = *y, .amounts = *amounts, .live = *live, .x = *x});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      for (int64_t i = 0; i < x->cols(); i++) {
        const double term = double{amounts->at(r, i / kDim)} * y->at(r, i % kDim);
        wants.push_back({&x->at(r, i), x->at(r, i) + term, 2 * kRounding * (std::abs(x->at(r, i)) + std::abs(term))});
      }
      want_row_within(wants, y->row(r), std::vector<double>(kDim), 0);
    }
    return wants;
  };
}

}  // namespace

void add_hyper_cases(Device& device, OpCases& cases) {
  hyper_mix(device, cases, {"", 4, 40, 16, true});
  hyper_mix(device, cases, {"_mixes_only", 3, 13, 7, false});
  hyper_mix(device, cases, {"_over_several_pieces", 2, 520, 24, true});
  hyper_mix_by_hand(device, cases);
  hyper_add(device, cases);
}

}  // namespace strata::test
