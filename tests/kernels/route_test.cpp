// Expert routing: published vectors, ties, bad numbers, and a naive sorted form over random inputs.
#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "support.h"

namespace strata::kernels {
namespace {

using namespace test;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed run(const RouteParams& params, const std::vector<float>& logits, const std::vector<float>& bias = {}) {
  const auto k = static_cast<size_t>(params.n_used);
  const Floats in(logits), biases(bias);
  Guarded<int32_t> ids(k);
  Floats weights(k), scratch(2 * static_cast<size_t>(params.n_experts));
  route(params, in.data(), bias.empty() ? nullptr : biases.data(), ids.data(), weights.data(), scratch.data());
  EXPECT_TRUE(ids.intact() && weights.intact() && scratch.intact());
  const std::vector<int32_t> chosen = ids.values();
  EXPECT_EQ(std::set<int32_t>(chosen.begin(), chosen.end()).size(), k);
  for (const int32_t id : chosen) EXPECT_TRUE(id >= 0 && id < params.n_experts);
  return {chosen, weights.values()};
}

void expect_routed(const Routed& got, const std::vector<int32_t>& ids, const std::vector<double>& weights) {
  EXPECT_EQ(got.ids, ids);
  ASSERT_EQ(got.weights.size(), weights.size());
  for (size_t j = 0; j < weights.size(); j++) EXPECT_NEAR(got.weights[j], weights[j], 1e-6);
}

const std::vector<float> kGroupLogits = {3, -3, -3, -3, 1.5f, 1.4f, -4, -4, 1, 0.8f, 0.9f, 0.7f};

RouteParams grouped(int n_groups_used, int n_used) {
  return {12, n_used, Gating::kSigmoid, true, 2.5f, 3, n_groups_used};
}

TEST(Route, GroupVectors) {
  const std::vector<float> lowered(12, -2.0f);
  for (const std::vector<float>& bias : {std::vector<float>{}, lowered}) {
    expect_routed(run(grouped(1, 2), kGroupLogits, bias), {4, 5}, {1.2618772, 1.2381228});
    expect_routed(run(grouped(2, 3), kGroupLogits, bias), {4, 5, 8}, {0.8694578, 0.8530906, 0.7774516});
  }
  expect_routed(run(grouped(3, 3), kGroupLogits), {0, 4, 5}, {0.9257883, 0.7945848, 0.7796269});
  RouteParams no_groups = grouped(0, 3);
  no_groups.n_groups = 0;
  expect_routed(run(no_groups, kGroupLogits), {0, 4, 5}, {0.9257883, 0.7945848, 0.7796269});
  std::vector<float> raised(12, 0.0f);
  raised[8] = 0.1f;
  raised[11] = 0.3f;
  expect_routed(run(grouped(2, 3), kGroupLogits, raised), {11, 8, 4}, {0.7535428, 0.8244448, 0.9220124});
}

TEST(Route, SoftmaxVectors) {
  const std::vector<float> logits = {0.5f, -1, 2, 0.25f, 1.5f, -0.75f, 0, 1, -2, 0.75f, 0.6f, 0.7f};
  const std::vector<int32_t> ids = {2, 4, 7};
  const std::vector<double> normalised = {0.5064804, 0.3071959, 0.1863237};
  expect_routed(run({12, 3, Gating::kSoftmax, false, 1, 0, 0}, logits), ids, {0.2903336, 0.1760962, 0.1068078});
  expect_routed(run({12, 3, Gating::kSoftmax, true, 0, 0, 0}, logits), ids, normalised);
  expect_routed(run({12, 3, Gating::kSoftmaxSelected, false, 1, 1, 1}, logits), ids, normalised);
  const Routed changed = run({12, 3, Gating::kSoftmax, true, 1.00001f, 0, 0}, logits);
  EXPECT_GT(std::abs(changed.weights[0] - normalised[0]), 1e-6) << "the comparison misses a change of 1e-5";
}

TEST(Route, TiesGoToTheLowerIndex) {
  expect_routed(run({6, 3, Gating::kSigmoid, false, 1, 0, 0}, std::vector<float>(6, 0.0f)), {0, 1, 2}, {.5, .5, .5});
  EXPECT_EQ(run({6, 3, Gating::kSoftmax, false, 1, 0, 0}, {1, 2, 2, 1, 2, 1}).ids, (std::vector<int32_t>{1, 2, 4}));
  EXPECT_EQ(run({6, 4, Gating::kSoftmax, false, 1, 0, 0}, {1, 2, 2, 1, 2, 1}).ids, (std::vector<int32_t>{1, 2, 4, 0}));
  // Equal groups: the first ones stay.
  EXPECT_EQ(run({8, 2, Gating::kSigmoid, false, 1, 4, 2}, std::vector<float>(8, 1.0f)).ids,
            (std::vector<int32_t>{0, 1}));
}

TEST(Route, BadNumbersStayInRange) {
  for (const Gating gating : {Gating::kSoftmax, Gating::kSigmoid, Gating::kSoftmaxSelected}) {
    for (const int n_groups : {0, 4}) {
      const RouteParams params = {8, 3, gating, true, 1, n_groups, 2};
      EXPECT_EQ(run(params, std::vector<float>(8, kNaN)).ids, (std::vector<int32_t>{0, 1, 2}));
      run(params, std::vector<float>(8, kInf));
      run(params, std::vector<float>(8, -kInf));
      run(params, {kNaN, 1, kInf, -kInf, kNaN, 2, 3, kNaN}, {kNaN, 0, 0, 0, kInf, 0, -kInf, 0});
    }
  }
  EXPECT_EQ(run({4, 2, Gating::kSigmoid, false, 1, 0, 0}, {kNaN, -5, kNaN, -6}).ids, (std::vector<int32_t>{1, 3}));
}

TEST(Route, TinySumsAreFloored) {
  const Routed routed = run({4, 2, Gating::kSigmoid, true, 1, 0, 0}, {-20, -20, -20, -20});
  EXPECT_NEAR(routed.weights[0], 1 / (1 + std::exp(20.0)) / 6.103515625e-05, 1e-9);
}

// The definition in order, on whole sorted lists. Selection scores are float32: two that round to the same are a tie.
Routed naive(const RouteParams& p, const std::vector<float>& logits, const std::vector<float>& bias) {
  const auto n = static_cast<size_t>(p.n_experts);
  std::vector<double> score(logits.begin(), logits.end());
  if (p.gating == Gating::kSigmoid) {
    for (double& x : score) x = 1 / (1 + std::exp(-x));
  } else if (p.gating == Gating::kSoftmax) {
    double total = 0;
    for (double& x : score) total += x = std::exp(x);
    for (double& x : score) x /= total;
  }
  std::vector<double> selection = score;
  for (size_t e = 0; e < n; e++) selection[e] = static_cast<float>(score[e]) + bias[e];
  if (p.n_groups > 1) {
    const size_t size = n / static_cast<size_t>(p.n_groups);
    std::vector<std::pair<double, size_t>> groups;
    for (size_t g = 0; g < static_cast<size_t>(p.n_groups); g++) {
      std::vector<double> members(selection.begin() + static_cast<ptrdiff_t>(g * size),
                                  selection.begin() + static_cast<ptrdiff_t>((g + 1) * size));
      std::sort(members.rbegin(), members.rend());
      groups.emplace_back(-(members[0] + (size > 1 ? members[1] : 0)), g);
    }
    std::sort(groups.begin(), groups.end());
    for (size_t i = static_cast<size_t>(p.n_groups_used); i < groups.size(); i++) {
      for (size_t e = 0; e < size; e++) selection[groups[i].second * size + e] = -HUGE_VAL;
    }
  }
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return selection[static_cast<size_t>(a)] > selection[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(p.n_used));
  std::vector<double> weights;
  for (const int32_t id : order) {
    const double value = score[static_cast<size_t>(id)];
    weights.push_back(p.gating == Gating::kSoftmaxSelected ? std::exp(value) : value);
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  Routed out = {order, {}};
  for (const double w : weights) {
    const bool divide = p.normalize || p.gating == Gating::kSoftmaxSelected;
    out.weights.push_back(static_cast<float>((divide ? w / total : w) * (p.scale != 0 ? p.scale : 1)));
  }
  return out;
}

TEST(Route, MatchesTheNaiveFormOverRandomInputs) {
  Random random(61);
  for (int i = 0; i < 2000; i++) {
    RouteParams p = {};
    const int n_groups = static_cast<int>(random.below(4)) + 1;
    const int size = static_cast<int>(random.below(20)) + 1;
    p.n_experts = n_groups * size;
    p.n_groups = n_groups;
    p.n_groups_used = static_cast<int>(random.below(static_cast<uint64_t>(n_groups))) + 1;
    p.n_used = static_cast<int>(random.below(static_cast<uint64_t>(p.n_groups_used * size))) + 1;
    p.gating = static_cast<Gating>(random.below(3) + 1);
    p.normalize = random.below(2) == 0;
    p.scale = static_cast<float>(random.below(3));
    const auto n = static_cast<size_t>(p.n_experts);
    const std::vector<float> logits = normals(random, n), bias = normals(random, n, 0.2);
    const Routed want = naive(p, logits, bias);
    SCOPED_TRACE(i);
    expect_routed(run(p, logits, bias), want.ids, {want.weights.begin(), want.weights.end()});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace strata::kernels
