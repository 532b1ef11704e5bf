// The sampler against probabilities computed from the formulas, and its promises: determinism, ties, NaN, memory.
#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/counting_new.h"
#include "text/sampler_stages.h"

namespace strata::text {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Sampler make(const SamplerParams& params, size_t n_vocab) {
  auto sampler = Sampler::create(params, static_cast<int32_t>(n_vocab));
  EXPECT_TRUE(sampler.ok());
  return std::move(sampler).value();
}

int32_t sample(Sampler& sampler, const std::vector<float>& logits) {
  const auto id = sampler.sample(logits);
  EXPECT_TRUE(id.ok());
  return id.ok() ? *id : -1;
}

std::vector<float> random_logits(size_t n, uint64_t seed, double scale = 2) {
  Random random(seed);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = static_cast<float>(scale * random.normal());
  return logits;
}

// Probabilities by id, from the definitions: sort everything, cut, temper, normalise.
std::map<int32_t, double> exact_probabilities(const std::vector<float>& logits, const SamplerParams& params) {
  std::vector<std::pair<double, int32_t>> sorted;
  for (const float logit : logits) {
    sorted.emplace_back(-static_cast<double>(logit), static_cast<int32_t>(sorted.size()));
  }
  std::sort(sorted.begin(), sorted.end());
  if (params.top_k > 0) sorted.resize(std::min(sorted.size(), static_cast<size_t>(params.top_k)));
  const double best = -sorted[0].first;
  const auto probability = [&](size_t i) { return std::exp(-sorted[i].first - best); };
  double total = 0, sum = 0;
  for (size_t i = 0; i < sorted.size(); ++i) total += probability(i);
  if (params.top_p < 1) {
    size_t n = 0;
    while (n < sorted.size() && sum < static_cast<double>(params.top_p) * total) sum += probability(n++);
    sorted.resize(std::max<size_t>(n, 1));
  }
  if (params.min_p > 0) {
    while (probability(sorted.size() - 1) < static_cast<double>(params.min_p)) sorted.pop_back();
  }
  std::map<int32_t, double> result;
  double tempered_total = 0;
  for (const auto& [negated, id] : sorted) {
    result[id] = std::exp((-negated - best) / static_cast<double>(params.temp));
    tempered_total += result[id];
  }
  for (auto& [id, p] : result) p /= tempered_total;
  return result;
}

// Chi-square over the candidates; 5 standard deviations above its mean would be an accident of about 1 in a million.
void expect_distribution(const std::vector<float>& logits, const SamplerParams& params) {
  const auto exact = exact_probabilities(logits, params);
  Sampler sampler = make(params, logits.size());
  std::map<int32_t, int> counts;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) ++counts[sample(sampler, logits)];
  double chi_square = 0, pooled_expected = 0, pooled_count = 0;
  int n_cells = 0;
  const auto add_cell = [&](double expected, double count) {
    chi_square += (count - expected) * (count - expected) / expected;
    ++n_cells;
  };
  for (const auto& [id, p] : exact) {
    const double expected = p * kDraws, count = counts.contains(id) ? counts[id] : 0;
    if (expected >= 5) {
      add_cell(expected, count);
    } else {
      pooled_expected += expected;
      pooled_count += count;
    }
  }
  if (pooled_expected >= 5) add_cell(pooled_expected, pooled_count);
  for (const auto& [id, count] : counts) EXPECT_TRUE(exact.contains(id)) << id << ": cut, but drawn " << count;
  const double freedom = n_cells - 1;
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom) + 1e-9);
}

TEST(Sampler, DrawsFromTheExactDistribution) {
  const std::vector<float> logits = random_logits(50, 5);
  expect_distribution(logits, {.temp = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 1});
  expect_distribution(logits, {.temp = 0.7f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 2});
  expect_distribution(logits, {.temp = 1, .top_k = 7, .top_p = 1, .min_p = 0, .seed = 3});
  expect_distribution(logits, {.temp = 1.5f, .top_k = 0, .top_p = 0.8f, .min_p = 0, .seed = 4});
  expect_distribution(logits, {.temp = 2, .top_k = 0, .top_p = 1, .min_p = 0.1f, .seed = 5});
  expect_distribution(logits, {.temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .seed = 6});
  expect_distribution(logits, {.temp = 1.3f, .top_k = 20, .top_p = 0.9f, .min_p = 0.02f, .seed = 7});
}

// Flat logits make top_p keep thousands, so sorting goes on in several steps.
TEST(Sampler, TopPKeepsExactlyTheShortestPrefix) {
  const std::vector<float> logits = random_logits(5000, 9, 0.5);
  for (const float top_p : {0.0f, 0.01f, 0.3f, 0.5f, 0.9f, 0.999f}) {
    Candidates candidates(5000);
    candidates.reset(logits);
    const SamplerParams params = {.temp = 1, .top_k = 0, .top_p = top_p, .min_p = 0};
    for (const SamplerStage& stage : sampler_chain()) {
      if (stage.name == "top_p") stage.apply(params, candidates);
    }
    std::vector<int32_t> kept, wanted;
    for (const Candidate& candidate : candidates.items()) kept.push_back(candidate.id);
    for (const auto& [id, p] : exact_probabilities(logits, params)) wanted.push_back(id);
    std::sort(kept.begin(), kept.end());
    EXPECT_EQ(kept, wanted) << top_p;
  }
}

TEST(Sampler, ChainHasTheStandardOrder) {
  std::vector<std::string_view> names;
  for (const SamplerStage& stage : sampler_chain()) names.push_back(stage.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"top_k", "top_p", "min_p", "temperature"}));
}

TEST(Sampler, DefaultsAreTheUsualOnes) {
  const SamplerParams params;
  EXPECT_FLOAT_EQ(params.temp, 0.8f);
  EXPECT_EQ(params.top_k, 40);
  EXPECT_FLOAT_EQ(params.top_p, 0.95f);
  EXPECT_FLOAT_EQ(params.min_p, 0.05f);
}

TEST(Sampler, TemperatureZeroTakesTheBestAndTheLowestIdAmongEquals) {
  Sampler sampler = make({.temp = 0}, 5);
  EXPECT_EQ(sample(sampler, {1, 3, 2, 3, 0}), 1);
  EXPECT_EQ(sample(sampler, {0, 0, 0, 0, 0}), 0);
  EXPECT_EQ(sample(sampler, {-kInfinity, kNan, -5, kNan, -5}), 2);
  EXPECT_EQ(sample(sampler, {1, kInfinity, 2, kInfinity, 0}), 1);
  Sampler negative = make({.temp = -1}, 2);
  EXPECT_EQ(sample(negative, {1, 2}), 1);
}

TEST(Sampler, TiesAreCutByLowestId) {
  Sampler sampler = make({.temp = 1, .top_k = 2, .top_p = 1, .min_p = 0}, 6);
  for (int i = 0; i < 200; ++i) {
    const int32_t id = sample(sampler, {0, 1, 1, 1, 1, 1});
    EXPECT_TRUE(id == 1 || id == 2) << id;
  }
}

TEST(Sampler, SameSeedSameTokens) {
  const std::vector<float> logits = random_logits(1000, 21, 0.5);
  const auto draw = [&](uint64_t seed) {
    Sampler sampler = make({.temp = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed}, 1000);
    std::vector<int32_t> ids;
    for (int i = 0; i < 100; ++i) ids.push_back(sample(sampler, logits));
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Sampler, NanIsNeverDrawnAndNothingLeftIsAnError) {
  for (const float temp : {0.0f, 1.0f}) {
    Sampler sampler = make({.temp = temp, .top_k = 0, .top_p = 1, .min_p = 0}, 3);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(sample(sampler, {kNan, -3, -kInfinity}), 1);
    for (const std::vector<float>& logits : {std::vector<float>{kNan, kNan, kNan}, {-kInfinity, kNan, -kInfinity}}) {
      const auto id = sampler.sample(logits);
      ASSERT_FALSE(id.ok());
      EXPECT_EQ(id.error().code, ErrorCode::kInternal);
      EXPECT_THAT(id.error().message, ::testing::HasSubstr("3 logits"));
    }
    EXPECT_EQ(sample(sampler, {kNan, -3, -kInfinity}), 1);  // and it goes on afterwards
  }
}

// Whatever the parameters, only the largest logits are drawn when they leave no room for others.
TEST(Sampler, ExtremeLogitsAndParameters) {
  for (const float temp : {1e-30f, 1e-3f, 1.0f}) {
    for (const int32_t top_k : {0, 2, 100}) {
      Sampler sampler = make({.temp = temp, .top_k = top_k, .top_p = 0.9f, .min_p = 0.01f}, 4);
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(sample(sampler, {3e38f, -3e38f, 1, 1e38f}), 0);
        EXPECT_EQ(sample(sampler, {100, kInfinity, 1, 2}), 1);
        EXPECT_EQ(sample(sampler, {1, 50, 1, 2}), 1);
      }
    }
  }
  Sampler strict = make({.temp = 1, .top_k = -1, .top_p = 1, .min_p = 5}, 3);
  EXPECT_EQ(sample(strict, {1, 3, 2}), 1);
  Sampler one = make({.temp = 1}, 1);
  EXPECT_EQ(sample(one, {-7}), 0);
}

TEST(Sampler, ParametersMustBeNumbers) {
  for (const SamplerParams& params : {SamplerParams{.temp = kNan}, SamplerParams{.top_p = kNan},
                                      SamplerParams{.min_p = kInfinity}}) {
    const auto sampler = Sampler::create(params, 10);
    ASSERT_FALSE(sampler.ok());
    EXPECT_EQ(sampler.error().code, ErrorCode::kBadInput);
  }
}

TEST(Sampler, NoAllocationPerToken) {
  const std::vector<float> logits = random_logits(20'000, 33);
  for (const SamplerParams& params : {SamplerParams{}, SamplerParams{.top_k = 0}, SamplerParams{.temp = 0},
                                      SamplerParams{.top_k = 0, .top_p = 1, .min_p = 0}}) {
    const int64_t before_making = test::n_allocations();
    Sampler sampler = make(params, logits.size());
    EXPECT_GT(test::n_allocations(), before_making);  // the counter counts
    sample(sampler, logits);
    const int64_t before = test::n_allocations();
    for (int i = 0; i < 20; ++i) (void)sampler.sample(logits);
    EXPECT_EQ(test::n_allocations(), before);
  }
}

}  // namespace
}  // namespace strata::text
