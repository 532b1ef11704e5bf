// Residuals of several streams and looked-up features, in the shapes of a large model.
#include <cmath>

#include "device/op_matrix.h"
#include "device/op_segments.h"
#include "kernels_cases.h"
#include "kernels_rig.h"

namespace strata::test {

using device::Rounding;
using device::host::HostDevice;

namespace {

constexpr int kStreams = 4;

std::vector<int64_t> first_rows(int64_t n) {
  std::vector<int64_t> rows(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) rows[static_cast<size_t>(i)] = i;
  return rows;
}

void add_wide_mix(HostDevice& host, OpCases& cases, Rounding rounding, int32_t live) {
  OpCase& c = add_case<device::HyperMix>(host, cases, "_wide_" + std::to_string(static_cast<int>(rounding)) + "_" +
                                                          std::to_string(live) + "_rows");
  constexpr int64_t kDim = 640, kWidth = kStreams * kDim, kRank = 96;
  const int64_t bucket = live + 2;
  const Matrix down(c, quant::Type::Q8_0, kRank, kWidth), up(c, quant::Type::Q8_0, kWidth, kRank);
  const Matrix inject(c, quant::Type::F32, kStreams, kWidth);
  const auto x = c.grid<float>(bucket, kWidth);
  const auto gain = c.grid<float>(1, kWidth);
  const auto live_rows = c.count_grid();
  const auto normed = c.grid<float>(bucket, kWidth), gates = c.grid<float>(bucket, kWidth);
  const auto low = c.grid<float>(bucket, kRank);
  const auto y = c.grid<float>(bucket, kDim);
  const auto amounts = c.grid<float>(bucket, kStreams);
  c.fill = [=](Random& random) {
    for (const Matrix* m : {&down, &up, &inject}) m->fill(random);
    for (const auto& grid : {x, gain}) grid->fill_normal(random);
    live_rows->at(0, 0) = live;
  };
  c.enqueue = [=](device::Stream& s) {
    device::HyperMix op{.x = *x, .gain = *gain, .down = down, .up = up, .inject = inject, .live = *live_rows,
                        .normed = *normed, .low = *low, .gates = *gates, .y = *y, .amounts = *amounts,
                        .n_streams = kStreams, .eps = 1e-6f};
    op.down.rounding = op.up.rounding = rounding;
    s.enqueue(op);
  };
  c.expect = [=, &host, &c] {
    // A code of a rounded activation that falls the other way moves sums by a part of one in 127.
    const double tolerance = rounding == Rounding::kNone ? 1e-4 : 1e-2;
    auto wants = wants_of_host(host, c, *y, first_rows(live), [&](int64_t, int64_t) { return tolerance; });
    const auto all = wants_of_host(host, c, *amounts, first_rows(live), [](int64_t, int64_t) { return 1e-4; });
    wants.insert(wants.end(), all.begin(), all.end());
    for (int64_t r = 0; r < live; r++) {
      want_scratch(wants, normed->row(r), kWidth);
      want_scratch(wants, gates->row(r), kWidth);
      want_scratch(wants, low->row(r), kRank);
    }
    return wants;
  };
}

void add_wide_gate(HostDevice& host, OpCases& cases) {
  OpCase& c = add_case<device::StreamGate>(host, cases, "_wide");
  constexpr int64_t kDim = 1100, kWidth = kStreams * kDim, kRows = 21;
  constexpr int32_t kLive = 19;
  const auto x = c.grid<float>(kRows, kWidth), projected = c.grid<float>(kRows, kWidth + kDim);
  const auto gains = c.grid<float>(3, kWidth);
  const auto live = c.count_grid();
  const auto normed = c.grid<float>(kRows, kWidth);
  c.fill = [=](Random& random) {
    for (const auto& grid : {x, projected, gains}) grid->fill_normal(random);
    // Scores of some size, whose root does not magnify what sums differ by.
    for (int64_t r = 0; r < kLive; r++) {
      for (int64_t i = 0; i < kWidth; i++) {
        const float sign = r % 2 == 0 ? 1.0f : -1.0f;
        x->at(r, i) += sign * projected->at(r, i) * gains->at(0, i) * gains->at(1, i);
      }
    }
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::StreamGate{.x = *x, .key = projected->view().columns(0, kWidth),
                                 .value = projected->view().columns(kWidth, kDim),
                                 .key_gain = gains->view().slice(0, 1), .query_gain = gains->view().slice(1, 1),
                                 .out_gain = gains->view().slice(2, 1), .live = *live, .normed = *normed,
                                 .eps = 1e-6f});
  };
  c.expect = [=, &host, &c] {
    auto wants = wants_of_host(host, c, *projected, first_rows(kLive), [](int64_t, int64_t) { return 2e-5; });
    const auto all = wants_of_host(host, c, *normed, first_rows(kLive), [](int64_t, int64_t) { return 1e-4; });
    wants.insert(wants.end(), all.begin(), all.end());
    return wants;
  };
}

// A prompt and rows of other sequences beside it, with histories that are and are not full.
void add_long_conv(HostDevice& host, OpCases& cases, std::vector<Segment> list, const char* name) {
  OpCase& c = add_case<device::DistantConv>(host, cases, name);
  constexpr int64_t kChannels = 700;
  constexpr int kKernel = 4, kDistance = 3;
  const Segments segments(c, std::move(list));
  const auto y = c.grid<float>(segments.rows(), kChannels), add = c.grid<float>(segments.rows(), kChannels);
  const auto taps = c.packed<float>(kChannels, kKernel);
  const auto history = c.grid<float>(Segments::kSlots, int64_t{kDistance} * (kKernel - 1) * kChannels);
  const auto positions = c.grid<int32_t>(1, segments.rows());
  const auto x = c.grid<float>(segments.rows(), kChannels);
  c.fill = [=](Random& random) {
    segments.fill();
    for (const auto& grid : {y, add, taps, history, x}) grid->fill_normal(random);
    for (const Segment& s : segments.list) {
      for (int32_t r = 0; r < s.rows; r++) positions->at(0, s.first + r) = 7 * s.slot + r;
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::DistantConv{.y = *y, .add = *add, .taps = *taps, .history = *history, .segments = segments.map(),
                                  .positions = *positions, .x = *x, .kernel = kKernel, .distance = kDistance});
  };
  c.expect = [=, &host, &c] {
    std::vector<int64_t> rows, slots;
    for (const Segment& s : segments.list) {
      slots.push_back(s.slot);
      for (int32_t r = 0; r < s.rows; r++) rows.push_back(s.first + r);
    }
    auto wants = wants_of_host(host, c, *x, rows, [](int64_t, int64_t) { return 1e-5; });
    const auto all = wants_of_host(host, c, *history, slots, [](int64_t, int64_t) { return 0.0; });
    wants.insert(wants.end(), all.begin(), all.end());
    return wants;
  };
}

}  // namespace

void add_stream_cases(HostDevice& host, OpCases& cases) {
  for (const int32_t live : {1, 3, 70}) {
    add_wide_mix(host, cases, Rounding::kNone, live);
    add_wide_mix(host, cases, Rounding::kOnce, live);
  }
  add_wide_gate(host, cases);
  add_long_conv(host, cases, {{2, 0, 1}, {0, 1, 1}, {4, 3, 2}}, "_few_rows");
  add_long_conv(host, cases, {{1, 0, 90}, {0, 90, 5}, {3, 96, 1}}, "_many_rows");
}

}  // namespace strata::test
