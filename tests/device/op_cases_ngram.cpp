// Gated streams, and the convolution with distant taps: rows, and the sequences that they belong to, at positions
// before, at and behind the depth of the history.
#include <cmath>

#include "device/op_segments.h"
#include "kernels/ref/ref.h"

namespace strata::test {

namespace ref = kernels::ref;
using device::Device;

namespace {

constexpr float kEps = 1e-2f;

// The last row has a score of 0, the one before a negative one.
void stream_gate(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::StreamGate>(device, cases, "");
  constexpr int64_t kRows = 6, kStreams = 3, kDim = 11, kWide = kStreams * kDim;
  constexpr int32_t kLive = 4;
  const auto x = c.grid<float>(kRows, kWide);
  const auto projected = c.grid<float>(kRows, kWide + kDim);
  const auto key_gain = c.grid<float>(1, kWide);
  const auto query_gain = c.grid<float>(1, kWide);
  const auto out_gain = c.grid<float>(1, kWide);
  const auto live = c.count_grid();
  const auto normed = c.grid<float>(kRows, kWide);
  c.fill = [=](Random& random) {
    for (const auto& grid : {x, projected, key_gain, query_gain, out_gain}) grid->fill_normal(random);
    for (int64_t i = 0; i < kWide; i++) {
      x->at(kLive - 1, i) = 0;
      x->at(kLive - 2, i) = -projected->at(kLive - 2, i) * key_gain->at(0, i) * query_gain->at(0, i);
    }
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::StreamGate{.x = *x,
                                 .key = projected->view().columns(0, kWide),
                                 .value = projected->view().columns(kWide, kDim),
                                 .key_gain = *key_gain,
                                 .query_gain = *query_gain,
                                 .out_gain = *out_gain,
                                 .live = *live,
                                 .normed = *normed,
                                 .eps = kEps});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      for (int64_t at = 0; at < kWide; at += kDim) {
        const auto norm = [&](const auto* v, const float* gain) {
          double sum = 0;
          for (int64_t i = 0; i < kDim; i++) sum += double{v[i]} * double{v[i]};
          std::vector<double> out(kDim);
          const double root = std::sqrt(sum / kDim + double{kEps});
          for (int64_t i = 0; i < kDim; i++) out[static_cast<size_t>(i)] = double{v[i]} / root * double{gain[i]};
          return out;
        };
        const std::vector<double> key = norm(projected->row(r) + at, key_gain->row(0) + at);
        const std::vector<double> query = norm(x->row(r) + at, query_gain->row(0) + at);
        double score = 0;
        for (size_t i = 0; i < key.size(); i++) score += key[i] * query[i] / std::sqrt(double(kDim));
        const double root = std::sqrt(std::max(std::abs(score), 1e-6));
        const double gate = ref::sigmoid(score > 0 ? root : score < 0 ? -root : 0);
        std::vector<double> gated(kDim);
        for (size_t i = 0; i < gated.size(); i++) gated[i] = gate * double{projected->row(r)[kWide + i]};
        // A root of a score that may be near 0: its error is bounded by the root of the score's.
        want_row(wants, projected->row(r) + at, gated, 2000);
        want_row_within(wants, normed->row(r) + at, norm(gated.data(), out_gain->row(0) + at), 1e-5);
      }
    }
    return wants;
  };
}

void distant_conv(Device& device, OpCases& cases, const char* name, int64_t channels, int kernel, int distance) {
  OpCase& c = add_case<device::DistantConv>(device, cases, name);
  const Segments segments(c, {{3, 0, 4}, {0, 4, 1}, {2, 6, 17}});
  const std::vector<int32_t> first_positions = {5, 0, 40};
  const int64_t depth = int64_t{distance} * (kernel - 1);
  const auto y = c.grid<float>(segments.rows(), channels);
  const auto add = c.grid<float>(segments.rows(), channels);
  const auto taps = c.packed<float>(channels, kernel);
  const auto history = c.grid<float>(Segments::kSlots, depth * channels);
  const auto positions = c.grid<int32_t>(1, segments.rows());
  const auto x = c.grid<float>(segments.rows(), channels);
  c.fill = [=](Random& random) {
    segments.fill();
    for (const auto& grid : {y, add, taps, history, x}) grid->fill_normal(random);
    for (size_t i = 0; i < first_positions.size(); i++) {
      const Segment& s = segments.list[i];
      for (int32_t r = 0; r < s.rows; r++) positions->at(0, s.first + r) = first_positions[i] + r;
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::DistantConv{.y = *y,
                                  .add = *add,
                                  .taps = *taps,
                                  .history = *history,
                                  .segments = segments.map(),
                                  .positions = *positions,
                                  .x = *x,
                                  .kernel = kernel,
                                  .distance = distance});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (size_t i = 0; i < segments.list.size(); i++) {
      const Segment& s = segments.list[i];
      for (int64_t ch = 0; ch < channels; ch++) {
        // By position, from the start of the sequence on; what lies before the history is never asked for.
        std::vector<double> past(static_cast<size_t>(first_positions[i]), NAN);
        for (int64_t p = std::max<int64_t>(0, std::ssize(past) - depth); p < std::ssize(past); p++) {
          past[static_cast<size_t>(p)] = history->at(s.slot, p % depth * channels + ch);
        }
        for (int32_t r = 0; r < s.rows; r++) past.push_back(y->at(s.first + r, ch));
        for (int32_t r = 0; r < s.rows; r++) {
          double sum = 0;
          for (int j = 0; j < kernel; j++) {
            const int64_t p = first_positions[i] + r - int64_t{distance} * (kernel - 1 - j);
            if (p >= 0) sum += double{taps->at(ch, j)} * past[static_cast<size_t>(p)];
          }
          const int64_t row = s.first + r;
          const double value = double{x->at(row, ch)} + double{add->at(row, ch)} + ref::silu(sum);
          wants.push_back({&x->at(row, ch), value, 200 * kRounding});
        }
        for (int64_t p = std::max<int64_t>(0, std::ssize(past) - depth); p < std::ssize(past); p++) {
          if (p < first_positions[i]) continue;  // as it was
          wants.push_back({&history->at(s.slot, p % depth * channels + ch), past[static_cast<size_t>(p)]});
        }
      }
    }
    return wants;
  };
}

}  // namespace

void add_ngram_cases(Device& device, OpCases& cases) {
  stream_gate(device, cases);
  distant_conv(device, cases, "", 10, 4, 3);
  distant_conv(device, cases, "_near_over_several_pieces", 300, 2, 1);
}

}  // namespace strata::test
