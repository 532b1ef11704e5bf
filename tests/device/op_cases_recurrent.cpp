// The gated delta net. Rows go through the segments in row order; a slot that no segment names keeps its state.
#include <algorithm>
#include <cmath>

#include "device/op_segments.h"
#include "kernels/ref/ref.h"

namespace strata::test {

namespace ref = kernels::ref;
using device::DeltaShape;
using device::Device;

namespace {

void delta_conv(Device& device, OpCases& cases, const char* name, const DeltaShape& shape) {
  OpCase& c = add_case<device::DeltaConv>(device, cases, name);
  const Segments segments(c, kThreeSegments);
  constexpr float kEps = 1e-2f;
  const int64_t channels = shape.channels();
  const auto x = c.grid<float>(segments.rows(), channels);
  const auto taps = c.packed<float>(channels, shape.kernel);
  const auto state = c.grid<float>(Segments::kSlots, shape.conv_state());
  const auto y = c.grid<float>(segments.rows(), channels);
  c.fill = [=](Random& random) {
    segments.fill();
    for (const auto& grid : {x, taps, state}) grid->fill_normal(random);
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::DeltaConv{.x = *x, .taps = *taps, .conv_state = *state, .segments = segments.map(), .y = *y,
                                .shape = shape, .eps = kEps});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (const Segment& s : segments.list) {
      std::vector<float> own(state->row(s.slot), state->row(s.slot) + shape.conv_state());
      for (int64_t r = s.first; r < s.first + s.rows; r++) {
        std::vector<double> row(static_cast<size_t>(channels));
        ref::conv_step(x->row(r), taps->row(0), own.data(), row.data(), channels, shape.kernel);
        for (int h = 0; h < 2 * shape.n_key_heads; h++) {
          double* head = row.data() + h * shape.key_dim;
          double sum = double{kEps};
          for (int i = 0; i < shape.key_dim; i++) sum += head[i] * head[i];
          const double factor = 1 / std::sqrt(sum) / (h < shape.n_key_heads ? std::sqrt(double(shape.key_dim)) : 1);
          for (int i = 0; i < shape.key_dim; i++) head[i] *= factor;
        }
        // Sums of a few products of values below 5, through a function whose slope is at most 1.1.
        want_row_within(wants, y->row(r), row, 200 * kRounding);
      }
      for (int64_t i = 0; i < shape.conv_state(); i++)
        wants.push_back({&state->at(s.slot, i), own[static_cast<size_t>(i)]});
    }
    return wants;
  };
}

void delta_gates(Device& device, OpCases& cases, bool grouped) {
  OpCase& c = add_case<device::DeltaGates>(device, cases, grouped ? "_grouped" : "");
  constexpr int64_t kRows = 6, kHeads = 6;
  constexpr int kKeyHeads = 2;
  constexpr int32_t kLive = 5;
  const auto ba = c.grid<float>(kRows, 2 * kHeads);
  const auto dt_bias = c.grid<float>(1, kHeads);
  const auto decay = c.grid<float>(1, kHeads);
  const auto live = c.count_grid();
  const auto g_beta = c.grid<float>(kRows, 2 * kHeads);
  c.fill = [=](Random& random) {
    ba->fill_normal(random, 4);
    ba->at(0, 2 * kHeads - 1) = 60;  // softplus of it is itself
    dt_bias->fill_normal(random);
    for (int64_t h = 0; h < kHeads; h++) decay->at(0, h) = static_cast<float>(-random.uniform());
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::DeltaGates{.ba = *ba, .dt_bias = *dt_bias, .decay = *decay, .live = *live, .g_beta = *g_beta,
                                 .n_key_heads = kKeyHeads, .grouped = grouped});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      // The values in the order in which they lie: for each group its b, then its a.
      const int64_t groups = grouped ? kKeyHeads : 1, size = kHeads / groups;
      for (int64_t group = 0; group < groups; group++) {
        for (int64_t i = 0; i < size; i++) {
          const int64_t h = group * size + i;
          const double b = ba->at(r, group * 2 * size + i);
          const double a = double{ba->at(r, group * 2 * size + size + i)} + dt_bias->at(0, h);
          wants.push_back({&g_beta->at(r, h), std::log1p(std::exp(a)) * decay->at(0, h), 1e-6 * (1 + std::abs(a))});
          wants.push_back({&g_beta->at(r, kHeads + h), ref::sigmoid(b), 1e-6});
        }
      }
    }
    return wants;
  };
}

struct DeltaForm {
  const char* name;
  DeltaShape shape;
  std::vector<Segment> segments;
  int chunk_min_rows;
};

std::vector<float> gathered(const Grid<float>& grid, int64_t first, int64_t rows, int64_t col, int64_t cols) {
  std::vector<float> out;
  for (int64_t r = first; r < first + rows; r++) out.insert(out.end(), grid.row(r) + col, grid.row(r) + col + cols);
  return out;
}

void delta_net(Device& device, OpCases& cases, const DeltaForm& form) {
  OpCase& c = add_case<device::DeltaNet>(device, cases, form.name);
  const DeltaShape shape = form.shape;
  const Segments segments(c, form.segments);
  const int64_t heads = shape.n_value_heads;
  const auto qkv = c.grid<float>(segments.rows(), shape.channels());
  const auto g_beta = c.grid<float>(segments.rows(), 2 * heads);
  const auto state = c.grid<float>(Segments::kSlots, shape.state());
  const auto y = c.grid<float>(segments.rows(), heads * shape.value_dim);
  c.fill = [=](Random& random) {
    segments.fill();
    qkv->fill_normal(random);
    state->fill_normal(random);
    for (int64_t r = 0; r < segments.rows(); r++) {
      for (int h = 0; h < 2 * shape.n_key_heads; h++) {  // unit keys, queries below
        float* head = qkv->row(r) + h * shape.key_dim;
        const double norm = std::sqrt(ref::dot(head, head, shape.key_dim));
        for (int i = 0; i < shape.key_dim; i++) head[i] = static_cast<float>(head[i] / norm);
      }
      for (int64_t h = 0; h < heads; h++) {
        g_beta->at(r, h) = static_cast<float>(-random.uniform());
        g_beta->at(r, heads + h) = static_cast<float>(random.uniform());
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::DeltaNet{.qkv = *qkv, .g_beta = *g_beta, .state = *state, .segments = segments.map(), .y = *y,
                               .shape = shape, .chunk_min_rows = form.chunk_min_rows});
  };
  c.expect = [=] {
    // Outputs and states are of order 1; the recurrence forgets, so errors don't add up over the tokens.
    constexpr double kTolerance = 2e-5;
    std::vector<Want> wants;
    const int64_t key_channels = int64_t{shape.n_key_heads} * shape.key_dim;
    for (const Segment& s : segments.list) {
      for (int64_t h = 0; h < heads; h++) {
        const int64_t key_head = shape.tiled ? h % shape.n_key_heads : h * shape.n_key_heads / heads;
        const auto columns = [&](int64_t col, int64_t cols) { return gathered(*qkv, s.first, s.rows, col, cols); };
        const std::vector<float> q = columns(key_head * shape.key_dim, shape.key_dim);
        const std::vector<float> k = columns(key_channels + key_head * shape.key_dim, shape.key_dim);
        const std::vector<float> v = columns(2 * key_channels + h * shape.value_dim, shape.value_dim);
        const std::vector<float> g = gathered(*g_beta, s.first, s.rows, h, 1);
        const std::vector<float> beta = gathered(*g_beta, s.first, s.rows, heads + h, 1);
        const int64_t state_size = int64_t{shape.value_dim} * shape.key_dim;
        const float* at = state->row(s.slot) + h * state_size;
        std::vector<double> own(at, at + state_size);
        std::vector<double> out(static_cast<size_t>(s.rows) * static_cast<size_t>(shape.value_dim));
        ref::delta({q.data(), k.data(), v.data(), g.data(), beta.data(), s.rows, shape.key_dim, shape.value_dim},
                   own.data(), out.data());
        want_row_within(wants, at, own, kTolerance);
        for (int64_t t = 0; t < s.rows; t++) {
          const auto from = out.begin() + t * shape.value_dim;
          want_row_within(wants, y->row(s.first + t) + h * shape.value_dim, {from, from + shape.value_dim}, kTolerance);
        }
      }
    }
    return wants;
  };
}

void gated_norm(Device& device, OpCases& cases, bool sigmoid_gate) {
  OpCase& c = add_case<device::GatedNorm>(device, cases, sigmoid_gate ? "_sigmoid" : "_silu");
  constexpr int64_t kRows = 6, kHeads = 3, kDim = 11;
  constexpr int32_t kLive = 4;
  constexpr float kEps = 1e-2f;
  const auto x = c.grid<float>(kRows, kHeads * kDim);
  const auto z = c.grid<float>(kRows, kHeads * kDim);
  const auto gain = c.grid<float>(1, kDim);
  const auto live = c.count_grid();
  c.fill = [=](Random& random) {
    for (const auto& grid : {x, z, gain}) grid->fill_normal(random);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(
        device::GatedNorm{.x = *x, .z = *z, .gain = *gain, .live = *live, .sigmoid_gate = sigmoid_gate, .eps = kEps});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      for (int64_t h = 0; h < kHeads; h++) {
        std::vector<double> row(kDim);
        ref::rms_norm(x->row(r) + h * kDim, gain->row(0), row.data(), kDim, double{kEps});
        for (int64_t i = 0; i < kDim; i++) {
          const double gate = z->at(r, h * kDim + i);
          row[static_cast<size_t>(i)] *= sigmoid_gate ? ref::sigmoid(gate) : ref::silu(gate);
        }
        want_row(wants, x->row(r) + h * kDim, row, 32);
      }
    }
    return wants;
  };
}

}  // namespace

void add_recurrent_cases(Device& device, OpCases& cases) {
  const DeltaShape small{
      .n_key_heads = 2, .n_value_heads = 4, .key_dim = 8, .value_dim = 6, .kernel = 4, .tiled = false};
  DeltaShape tiled = small;
  tiled.tiled = true;
  const DeltaShape wide{
      .n_key_heads = 3, .n_value_heads = 3, .key_dim = 40, .value_dim = 50, .kernel = 3, .tiled = false};
  delta_conv(device, cases, "", small);
  delta_conv(device, cases, "_over_several_pieces", wide);
  delta_gates(device, cases, false);
  delta_gates(device, cases, true);
  delta_net(device, cases, {"_step", small, kThreeSegments, 0});
  delta_net(device, cases, {"_step_tiled", tiled, kThreeSegments, 0});
  delta_net(device, cases, {"_chunk", tiled, {{1, 0, 70}, {4, 70, 3}, {0, 74, 20}}, 16});
  delta_net(device, cases, {"_wide", wide, kThreeSegments, 5});
  gated_norm(device, cases, false);
  gated_norm(device, cases, true);
}

}  // namespace strata::test
