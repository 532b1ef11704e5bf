#include "experts/dispatch_rig.h"

#include <algorithm>
#include <numeric>

#include "device/random_weights.h"
#include "kernels/ref/ref.h"

namespace strata::test {

using experts::ExpertFormula;
using experts::PartKind;

std::vector<float> normals(Random& random, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = static_cast<float>(random.normal());
  return out;
}

Routing random_routing(int64_t rows, int64_t k, int64_t n_experts, Random& random) {
  Routing routing{rows, k, {}, {}};
  std::vector<int32_t> experts(static_cast<size_t>(n_experts));
  std::iota(experts.begin(), experts.end(), 0);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < k; j++) {
      const auto at = static_cast<size_t>(j);
      std::swap(experts[at], experts[at + random.below(experts.size() - at)]);
      routing.ids.push_back(experts[at]);
      routing.weights.push_back(static_cast<float>(0.1 + random.uniform()));
    }
  }
  return routing;
}

DispatchRig::DispatchRig(const ExpertModel& model, const RigOptions& options, experts::ExpertSource* source)
    : model_(model), options_(options), device_(host_options(options.threads)), source_(source),
      ids_(device_, options.max_rows, options.k, 1, 2), live_(device_, 1, 1, 0, 0),
      weights_(device_, options.max_rows, options.k, 2, 1), x_(device_, options.max_rows, model.spec.dim, 3, 5),
      y_(device_, options.max_rows, model.spec.dim, 1, 4) {
  if (source_ == nullptr) {
    arena_ = experts::ArenaSource::create(*model.model, model.layout, device_, device_.compute().pool(), stats).value();
    source_ = arena_.get();
  }
  const experts::DispatchLimits limits{.max_rows = options.max_rows, .n_used = options.k,
                                       .n_experts = model.spec.n_experts, .dim = model.spec.dim,
                                       .ffn = model.spec.ffn};
  dispatch_ = experts::Dispatch::create({device_, device_.compute(), *source_, model.layout, limits, stats}).value();
  graph_ = device_.capture([&](device::Stream& s) {
    dispatch_->run(s, 0, ids_, weights_, x_, y_, live_, options_.formula, nullptr);
  }).value();
  stream_ = device_.make_stream("test");
}

Status DispatchRig::try_run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
  const auto n = static_cast<size_t>(model_.spec.dim), k = static_cast<size_t>(routing.k);
  live_.at(0, 0) = static_cast<int32_t>(routing.rows);
  for (int64_t r = 0; r < options_.max_rows; r++) {
    // Rows past the live ones name no expert and hold no numbers.
    ids_.set_row(r, std::vector<int32_t>(k, -1));
    x_.set_row(r, std::vector<float>(n, NAN));
    y_.set_row(r, std::vector<float>(n, 77));
  }
  for (int64_t r = 0; r < routing.rows; r++) {
    const auto at = static_cast<size_t>(r);
    ids_.set_row(r, {routing.ids.begin() + r * routing.k, routing.ids.begin() + (r + 1) * routing.k});
    weights_.set_row(r, {routing.weights.begin() + r * routing.k, routing.weights.begin() + (r + 1) * routing.k});
    x_.set_row(r, {x.data() + at * n, x.data() + (at + 1) * n});
    y_.set_row(r, {y.data() + at * n, y.data() + (at + 1) * n});
  }
  graph_->replay(*stream_);
  const Status status = stream_->synchronize();
  stream_->reset();
  for (int64_t r = routing.rows; r < options_.max_rows; r++) {
    for (int64_t i = 0; i < model_.spec.dim; i++) EXPECT_EQ(y_.at(r, i), 77) << "row " << r << " is not live";
  }
  return status;
}

std::vector<float> DispatchRig::run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
  const Status status = try_run(routing, x, y);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return result(routing.rows);
}

void DispatchRig::hint(experts::HintKind kind, const Routing& routing) {
  live_.at(0, 0) = static_cast<int32_t>(routing.rows);
  for (int64_t r = 0; r < routing.rows; r++) {
    ids_.set_row(r, {routing.ids.begin() + r * routing.k, routing.ids.begin() + (r + 1) * routing.k});
  }
  dispatch_->hint(*stream_, 0, kind, ids_, live_);
  EXPECT_TRUE(stream_->synchronize().ok());
}

std::vector<float> DispatchRig::result(int64_t rows) const {
  std::vector<float> out;
  for (int64_t r = 0; r < rows; r++) out.insert(out.end(), y_.row(r), y_.row(r) + model_.spec.dim);
  return out;
}

namespace {

// The parts of one expert as numbers.
struct Expert {
  Expert(const ExpertSpec& s, const FillPart& f, int32_t number) : spec(s), fill(f), expert(number) {}

  std::vector<float> part(PartKind kind) const {
    std::vector<uint8_t> bytes(part_bytes(spec, kind));
    fill({0, expert}, kind, bytes);
    return decoded(part_type(spec, kind), bytes.data(), part_elements(spec, kind));
  }

  // W in * scale + bias, and the sizes of the terms, given those of the inputs.
  Reference product(PartKind weight, PartKind scale_kind, PartKind bias_kind, const Reference& in) const {
    const std::vector<float> w = part(weight);
    const double scale = spec.scales ? part(scale_kind)[0] : 1;
    const std::vector<float> bias = spec.biases ? part(bias_kind) : std::vector<float>();
    const size_t cols = in.values.size(), rows = w.size() / cols;
    Reference out;
    for (size_t r = 0; r < rows; r++) {
      double sum = 0, size = 0;
      for (size_t c = 0; c < cols; c++) {
        sum += double{w[r * cols + c]} * in.values[c];
        size += std::abs(double{w[r * cols + c]}) * in.sizes[c];
      }
      out.values.push_back(sum * scale + (spec.biases ? double{bias[r]} : 0));
      out.sizes.push_back(size * std::abs(scale) + (spec.biases ? std::abs(double{bias[r]}) : 0));
    }
    return out;
  }

  const ExpertSpec& spec;
  const FillPart& fill;
  int32_t expert;
};

// g and u are near the numbers of float code by a rounding of their sizes; the slopes of both formulas in g and u are
// at most 1.1 + |alpha g| and the size of the other factor.
Reference activated(const ExpertFormula& formula, const Reference& gate, const Reference& up) {
  Reference out;
  for (size_t i = 0; i < gate.values.size(); i++) {
    double g = gate.values[i], u = up.values[i], value = 0, factor = 0;
    if (formula.activation == ExpertFormula::Activation::kSiluMul) {
      factor = kernels::ref::silu(g);
      value = factor * u;
    } else {
      g = std::min<double>(g, formula.limit);
      u = std::clamp<double>(u, -formula.limit, formula.limit) + 1;
      factor = g * kernels::ref::sigmoid(formula.alpha * g);
      value = factor * u;
    }
    out.values.push_back(value);
    out.sizes.push_back(std::abs(factor) * (up.sizes[i] + 1) + 1.5 * std::abs(u) * gate.sizes[i] + std::abs(value));
  }
  return out;
}

}  // namespace

Reference reference_step(const ExpertSpec& spec, const FillPart& fill, const ExpertFormula& formula,
                         const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
  Reference step;
  const auto n = static_cast<size_t>(spec.dim);
  for (size_t r = 0; r < static_cast<size_t>(routing.rows); r++) {
    Reference in{{x.data() + r * n, x.data() + (r + 1) * n}, {}};
    for (const double v : in.values) in.sizes.push_back(std::abs(v));
    std::vector<double> sum(y.data() + r * n, y.data() + (r + 1) * n), size(n);
    for (size_t i = 0; i < n; i++) size[i] = std::abs(sum[i]);
    for (size_t j = 0; j < static_cast<size_t>(routing.k); j++) {
      const size_t pair = r * static_cast<size_t>(routing.k) + j;
      const Expert expert(spec, fill, routing.ids[pair]);
      const Reference gate = expert.product(PartKind::kGate, PartKind::kGateScale, PartKind::kGateBias, in);
      const Reference up = expert.product(PartKind::kUp, PartKind::kUpScale, PartKind::kUpBias, in);
      const Reference out = expert.product(PartKind::kDown, PartKind::kDownScale, PartKind::kDownBias,
                                           activated(formula, gate, up));
      for (size_t i = 0; i < n; i++) {
        sum[i] += double{routing.weights[pair]} * out.values[i];
        size[i] += std::abs(double{routing.weights[pair]}) * out.sizes[i];
      }
    }
    step.values.insert(step.values.end(), sum.begin(), sum.end());
    step.sizes.insert(step.sizes.end(), size.begin(), size.end());
  }
  return step;
}

}  // namespace strata::test
