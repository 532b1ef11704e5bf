// Mirostat and adaptive-p against their formulas: what they cut or reshape, and how they follow accepted tokens.
#include "text/sampling/picker.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "text/sampler_reference.h"

namespace strata::text {
namespace {

using test::Entries;

SamplerParams mirostat(int32_t version, float tau = 3, float eta = 0.2f) {
  SamplerParams params;
  params.mirostat = version, params.mirostat_tau = tau, params.mirostat_eta = eta;
  return params;
}

Entries sorted_entries(const std::vector<float>& logits) {
  Entries entries = test::entries_of(logits);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
  return entries;
}

// How many mirostat keeps at mu, from the formulas.
size_t n_kept(int32_t version, const std::vector<double>& p, double mu) {
  if (version == 2) {
    size_t n = 0;
    while (n < p.size() && -std::log2(p[n]) <= mu) ++n;
    return std::max<size_t>(n, 1);
  }
  double tb = 0, tt = 0;
  for (size_t i = 0; i < 99 && i + 1 < p.size(); ++i) {
    const double t = std::log((static_cast<double>(i) + 2) / (static_cast<double>(i) + 1));
    tb += t * std::log(p[i] / p[i + 1]);
    tt += t * t;
  }
  const double s = tb / tt, e = s - 1;
  const double k = std::pow(e * std::pow(2.0, mu) / (1 - std::pow(static_cast<double>(p.size()), -e)), 1 / s);
  return std::clamp<size_t>(static_cast<size_t>(k), 1, p.size());
}

TEST(Mirostat, FollowsTheFormulas) {
  for (const int32_t version : {1, 2}) {
    const SamplerParams params = mirostat(version);
    const double tau = static_cast<double>(params.mirostat_tau), eta = static_cast<double>(params.mirostat_eta);
    constexpr int32_t kVocab = 400;
    const auto picker = make_picker(params, kVocab);
    Uniform uniform(9), same(9);
    double mu = 2 * tau;
    size_t least = kVocab, most = 0;
    for (int step = 0; step < 300; ++step) {
      const std::vector<float> logits = test::random_logits(kVocab, static_cast<uint64_t>(step), step % 3 + 0.5);
      Entries entries = sorted_entries(logits);
      entries.resize(n_kept(version, test::softmax(entries), mu));
      least = std::min(least, entries.size()), most = std::max(most, entries.size());
      const std::vector<double> p = test::softmax(entries);
      const double u = same.next();
      size_t wanted = 0;
      for (double sum = p[0]; sum < u && wanted + 1 < p.size(); sum += p[wanted]) ++wanted;

      Candidates candidates(kVocab);
      candidates.reset(logits);
      const int32_t id = picker->pick(candidates, uniform);
      ASSERT_EQ(candidates.size(), entries.size()) << step;
      ASSERT_EQ(id, entries[wanted].id) << step;
      // A pick that is not accepted, or another token, teaches nothing; the prompt's tokens are such.
      if (step % 4 == 0) {
        picker->accept(id + 1);
      } else {
        picker->accept(id);
        picker->accept(id);  // once only
        mu -= eta * (-std::log2(p[wanted]) - tau);
      }
    }
    EXPECT_LT(least, 20u);
    EXPECT_GT(most, 40u);
  }
}

TEST(Mirostat, KeepsTheSurpriseNearTau) {
  const std::vector<float> logits = test::random_logits(2000, 7, 1);
  for (const int32_t version : {1, 2}) {
    for (const float tau : {1.0f, 3.0f, 6.0f}) {
      const auto picker = make_picker(mirostat(version, tau, 0.1f), 2000);
      Uniform uniform(3);
      double sum = 0;
      constexpr int kSteps = 2000;
      for (int i = 0; i < kSteps; ++i) {
        Candidates candidates(2000);
        candidates.reset(logits);
        const int32_t id = picker->pick(candidates, uniform);
        const double total = candidates.total_weight();
        for (const Candidate& candidate : candidates.items()) {
          if (candidate.id == id) sum -= std::log2(candidates.weight(candidate) / total);
        }
        picker->accept(id);
      }
      // mu moves by eta times the sum of the errors, so their mean is its whole way over eta * steps.
      EXPECT_NEAR(sum / kSteps, static_cast<double>(tau), 20 / (0.1 * kSteps));
    }
  }
}

TEST(Adaptive, DrawsFromTheReshapedDistribution) {
  const std::vector<float> logits = test::random_logits(30, 4, 1.5);
  SamplerParams params;
  params.adaptive_target = 0.15f;
  const auto picker = make_picker(params, 30);
  const std::vector<double> p = test::softmax(test::entries_of(logits));
  Entries reshaped;
  for (size_t i = 0; i < p.size(); ++i) {
    const double d = std::abs(p[i] - static_cast<double>(params.adaptive_target)) / 0.3;
    reshaped.push_back({static_cast<int32_t>(i), 5 - 10 * d * d / (1 + d)});
  }
  const std::vector<double> shares = test::softmax(reshaped);
  std::map<int32_t, double> exact;
  for (size_t i = 0; i < shares.size(); ++i) exact[static_cast<int32_t>(i)] = shares[i];
  std::map<int32_t, int> counts;
  Uniform uniform(1);
  Candidates candidates(30);
  for (int i = 0; i < 40'000; ++i) {  // nothing is accepted: the target stays
    candidates.reset(logits);
    ++counts[picker->pick(candidates, uniform)];
  }
  test::expect_distribution(exact, counts);
}

// Two candidates of probability 0.9 and 0.1; ever more picks of one move the target towards the other.
TEST(Adaptive, TargetMovesAgainstAcceptedPicks) {
  SamplerParams params;
  params.adaptive_target = 0.5f, params.adaptive_decay = 0.8f;
  const auto picker = make_picker(params, 2);
  Uniform uniform(5);
  const double decay = static_cast<double>(params.adaptive_decay);
  double weight = 1 / (1 - decay), weighted = 0.5 * weight;
  const std::vector<float> logits = {std::log(0.9f), std::log(0.1f)};
  const double p[] = {0.9, 0.1};
  Candidates candidates(2);
  for (int step = 0; step < 200; ++step) {
    candidates.reset(logits);
    const int32_t id = picker->pick(candidates, uniform);
    const double target = std::clamp(2 * 0.5 - weighted / weight, 0.0, 1.0);
    for (const Candidate& candidate : candidates.items()) {
      const double d = std::abs(p[candidate.id] - target) / 0.3;
      ASSERT_NEAR(static_cast<double>(candidate.logit), 5 - 10 * d * d / (1 + d), 1e-4) << step;
    }
    if (step % 3 == 0) continue;  // thrown away
    picker->accept(id);
    weighted = p[id] + decay * weighted;
    weight = 1 + decay * weight;
  }
}

TEST(Adaptive, ImpossibleStaysImpossible) {
  SamplerParams params;
  params.adaptive_target = 0;
  const auto picker = make_picker(params, 3);
  Uniform uniform(5);
  Candidates candidates(3);
  for (int i = 0; i < 200; ++i) {
    candidates.reset(std::vector<float>{1, -INFINITY, 2});
    EXPECT_NE(picker->pick(candidates, uniform), 1);
  }
}

// u of 0 and nearly 1, weights of 0 at both ends.
TEST(Draw, NeverTakesWhatHasNoWeight) {
  Candidates candidates(4);
  candidates.reset(std::vector<float>{-INFINITY, 1, 2, -INFINITY});
  EXPECT_EQ(draw(candidates, 0), 1u);
  EXPECT_EQ(draw(candidates, 1 - 0x1p-53), 2u);
  const double share = 1 / (1 + std::exp(1.0));
  EXPECT_EQ(draw(candidates, share * 0.999), 1u);
  EXPECT_EQ(draw(candidates, share * 1.001), 2u);
}

}  // namespace
}  // namespace strata::text
