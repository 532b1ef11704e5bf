// The whole sampler: distributions against exact probabilities; order, determinism, ties, NaN, memory.
#include "text/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "text/counting_new.h"
#include "text/sampler_reference.h"

namespace strata::text {
namespace {

using test::random_logits;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Sampler make(const SamplerParams& params, size_t n_vocab) {
  auto sampler = Sampler::create(params, static_cast<int32_t>(n_vocab));
  EXPECT_TRUE(sampler.ok()) << sampler.error().message;
  return std::move(sampler).value();
}

int32_t sample(Sampler& sampler, const std::vector<float>& logits) {
  const auto id = sampler.sample(logits);
  EXPECT_TRUE(id.ok());
  return id.ok() ? *id : -1;
}

std::vector<int32_t> draw_many(Sampler& sampler, const std::vector<float>& logits, int n) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back(sample(sampler, logits));
  return ids;
}

std::vector<StageKind> order_of(std::string_view text) {
  auto order = parse_stage_order(text);
  EXPECT_TRUE(order.ok());
  return *order;
}

// Nothing but a draw.
SamplerParams plain(uint32_t seed) {
  SamplerParams params;
  params.temp = 1, params.top_k = 0, params.top_p = 1, params.min_p = 0, params.seed = seed;
  return params;
}

void expect_exact(const std::vector<float>& logits, const SamplerParams& params) {
  SCOPED_TRACE(params.seed);
  Sampler sampler = make(params, logits.size());
  std::map<int32_t, int> counts;
  for (const int32_t id : draw_many(sampler, logits, 20'000)) ++counts[id];
  test::expect_distribution(test::reference_probabilities(logits, params), counts);
}

TEST(Sampler, DrawsFromTheExactDistribution) {
  const std::vector<float> logits = random_logits(50, 5);
  uint32_t seed = 1;
  const auto expect = [&](auto set) {
    SamplerParams params = plain(seed++);
    set(params);
    expect_exact(logits, params);
  };
  expect([](auto&) {});
  expect([](auto& p) { p.temp = 0.7f; });
  expect([](auto& p) { p.top_k = 7; });
  expect([](auto& p) { p.temp = 1.5f, p.top_p = 0.8f; });
  expect([](auto& p) { p.temp = 2, p.min_p = 0.1f; });
  expect([](auto& p) { p.typical_p = 0.6f; });
  expect([](auto& p) { p.top_n_sigma = 1.2f; });
  expect([](auto& p) { p.xtc_probability = 0.5f, p.xtc_threshold = 0.05f; });
  expect([](auto& p) { p.xtc_probability = 1, p.xtc_threshold = 0.1f; });
  expect([](auto& p) { p.xtc_probability = 0.3f, p.xtc_threshold = 0; });
  expect([](auto& p) { p.dynatemp_range = 0.9f, p.dynatemp_exponent = 1.3f; });
  expect([](auto& p) { p.top_p = 0.2f, p.min_keep = 10; });
  expect([](auto& p) { p = SamplerParams(), p.seed = 12; });
  expect([](auto& p) {
    p.temp = 1.3f, p.top_k = 30, p.top_p = 0.9f, p.min_p = 0.02f, p.typical_p = 0.95f, p.top_n_sigma = 2.5f;
    p.xtc_probability = 0.3f, p.xtc_threshold = 0.08f, p.dynatemp_range = 0.4f;
  });
}

// Temperature in front makes top_p keep more than behind, and a stage that is left out does nothing.
TEST(Sampler, OrderOfStagesIsTheOneAskedFor) {
  const std::vector<float> logits = random_logits(40, 8);
  for (const char* order : {"tp", "pt", "t;", "p", "", "kypmxt", "txmpyk"}) {
    SCOPED_TRACE(order);
    SamplerParams params = plain(77);
    params.temp = 3, params.top_p = 0.7f, params.top_k = 25, params.typical_p = 0.9f;
    params.xtc_probability = 0.5f, params.xtc_threshold = 0.05f;
    params.order = order_of(std::string_view(order) == "t;" ? "temperature" : order);
    expect_exact(logits, params);
  }
  SamplerParams hot = plain(1), cold = plain(1);
  hot.temp = cold.temp = 3, hot.top_p = cold.top_p = 0.7f;
  hot.order = order_of("tp"), cold.order = order_of("pt");
  EXPECT_GT(test::reference_probabilities(logits, hot).size(), test::reference_probabilities(logits, cold).size());
}

TEST(Sampler, DefaultsAreTheUsualOnes) {
  const SamplerParams p;
  EXPECT_EQ(std::tuple(p.temp, p.top_k, p.top_p, p.min_p), std::tuple(0.8f, 40, 0.95f, 0.05f));
  EXPECT_EQ(std::tuple(p.typical_p, p.top_n_sigma, p.xtc_probability, p.xtc_threshold, p.min_keep),
            std::tuple(1.0f, -1.0f, 0.0f, 0.1f, 0));
  EXPECT_EQ(std::tuple(p.dynatemp_range, p.dynatemp_exponent), std::tuple(0.0f, 1.0f));
  EXPECT_EQ(std::tuple(p.repeat_last_n, p.repeat_penalty, p.frequency_penalty, p.presence_penalty),
            std::tuple(64, 1.0f, 0.0f, 0.0f));
  EXPECT_EQ(std::tuple(p.dry_multiplier, p.dry_base, p.dry_allowed_length, p.dry_penalty_last_n),
            std::tuple(0.0f, 1.75f, 2, 64));
  EXPECT_EQ(std::tuple(p.mirostat, p.mirostat_tau, p.mirostat_eta), std::tuple(0, 5.0f, 0.1f));
  EXPECT_EQ(std::tuple(p.adaptive_target, p.adaptive_decay), std::tuple(-1.0f, 0.9f));
  EXPECT_EQ(p.order, order_of("edskypmxt"));
}

// N05: no limit of its own.
TEST(Sampler, TopKReachesAnyNumberOfTokens) {
  const std::vector<float> flat(2000, 1);
  for (const int32_t top_k : {0, 64, 65, 1000}) {
    SamplerParams params = plain(4);
    params.top_k = top_k;
    Sampler sampler = make(params, flat.size());
    int32_t highest = 0;
    for (const int32_t id : draw_many(sampler, flat, 30'000)) highest = std::max(highest, id);
    // Equal logits: the k lowest ids stay, and 30,000 draws miss the last one in e^-15 of all cases.
    EXPECT_EQ(highest, top_k == 0 ? 1999 : top_k - 1);
  }
}

TEST(Sampler, TemperatureZeroTakesTheBestAndTheLowestIdAmongEquals) {
  for (const float temp : {0.0f, -1.0f}) {
    SamplerParams params;
    params.temp = temp;
    params.dynatemp_range = 0.5f;  // says nothing then
    Sampler sampler = make(params, 5);
    EXPECT_EQ(sample(sampler, {1, 3, 2, 3, 0}), 1);
    EXPECT_EQ(sample(sampler, {0, 0, 0, 0, 0}), 0);
    EXPECT_EQ(sample(sampler, {-kInfinity, kNan, -5, kNan, -5}), 2);
    EXPECT_EQ(sample(sampler, {1, kInfinity, 2, kInfinity, 0}), 1);
  }
}

// The best after the stages, when they change which one that is.
TEST(Sampler, TemperatureZeroComesAfterTheOtherStages) {
  SamplerParams penalised = plain(1);
  penalised.temp = 0, penalised.repeat_penalty = 10;
  Sampler sampler = make(penalised, 3);
  EXPECT_EQ(sample(sampler, {1, 3, 2}), 1);
  sampler.accept(1);
  EXPECT_EQ(sample(sampler, {1, 3, 2}), 2);
  SamplerParams excluding = plain(1);
  excluding.temp = 0, excluding.xtc_probability = 1;
  Sampler other = make(excluding, 3);
  EXPECT_EQ(sample(other, {1, 3, 2.9f}), 2);
}

TEST(Sampler, BiasAndSuppressedTokens) {
  SamplerParams params = plain(1);
  params.temp = 0;
  params.logit_bias = {{1, -kInfinity}, {2, 1.5f}, {2, 1.5f}, {4, -kInfinity}};
  params.suppress = {3, -1, 1'000'000};
  Sampler sampler = make(params, 5);
  EXPECT_EQ(sample(sampler, {1, 100, -1, 50, kInfinity}), 2);  // 2 in all
  EXPECT_EQ(sample(sampler, {3, 100, -1, 50, 100}), 0);
  const auto nothing = sampler.sample(std::vector<float>{-kInfinity, 1, -kInfinity, 1, 1});
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().code, ErrorCode::kInternal);
}

TEST(Sampler, SameSeedSameTokensAlsoAfterReset) {
  const std::vector<float> logits = random_logits(1000, 21, 0.5);
  const auto answer = [&](Sampler& sampler) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 100; ++i) {
      ids.push_back(sample(sampler, logits));
      sampler.accept(ids.back());
    }
    return ids;
  };
  for (int kind = 0; kind < 4; ++kind) {
    SamplerParams params = plain(1);
    params.repeat_penalty = 1.5f, params.dry_multiplier = 1;
    params.xtc_probability = 0.5f, params.xtc_threshold = 0.001f;
    params.mirostat = kind < 3 ? kind : 0;
    params.adaptive_target = kind == 3 ? 0.01f : -1;
    Sampler sampler = make(params, 1000);
    const std::vector<int32_t> first = answer(sampler);
    EXPECT_NE(first, answer(sampler)) << "state is carried on until reset";
    sampler.reset();
    EXPECT_EQ(first, answer(sampler)) << kind;
    Sampler twin = make(params, 1000);
    EXPECT_EQ(first, answer(twin));
    params.seed = 2;
    Sampler other = make(params, 1000);
    EXPECT_NE(first, answer(other));
  }
}

// What a seed means: MT19937, one double of two words a token, the first running sum that reaches its share, by id.
TEST(Sampler, SeedsMeanWhatTheyMeanElsewhere) {
  const std::vector<float> logits = random_logits(300, 2);
  for (const uint32_t seed : {0u, 42u, 0xFFFFFFFFu}) {
    std::mt19937 engine(seed);
    Sampler sampler = make(plain(seed), logits.size());
    const std::vector<double> p = test::softmax(test::entries_of(logits));
    for (int i = 0; i < 200; ++i) {
      const double low = engine(), high = engine();
      const double u = (high * 4294967296.0 + low) / 18446744073709551616.0;
      double sum = 0;
      int32_t wanted = 0;
      while ((sum += p[static_cast<size_t>(wanted)]) < u) ++wanted;
      EXPECT_EQ(sample(sampler, logits), wanted);
    }
  }
  Uniform uniform(5489);  // the algorithm's own default seed: its first words are 3499211612 and 581869302
  EXPECT_EQ(uniform.next(), (581869302.0 * 4294967296.0 + 3499211612.0) / 18446744073709551616.0);
}

TEST(Sampler, NanIsNeverDrawnAndNothingLeftIsAnError) {
  for (const float temp : {0.0f, 1.0f}) {
    SamplerParams params = plain(0);
    params.temp = temp;
    Sampler sampler = make(params, 3);
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
      for (const int32_t mirostat : {0, 1, 2}) {
        SamplerParams params = plain(0);
        params.temp = temp, params.top_k = top_k, params.top_p = 0.9f, params.min_p = 0.01f, params.typical_p = 0.9f;
        params.mirostat = mirostat;
        Sampler sampler = make(params, 4);
        for (int i = 0; i < 50; ++i) {
          EXPECT_EQ(sample(sampler, {3e38f, -3e38f, 1, 1e38f}), 0);
          EXPECT_EQ(sample(sampler, {100, kInfinity, 1, 2}), 1);
          EXPECT_EQ(sample(sampler, {1, 50, 1, 2}), 1);
          sampler.accept(1);
        }
      }
    }
  }
  SamplerParams strict = plain(0);
  strict.top_k = -1, strict.min_p = 5;
  Sampler sampler = make(strict, 3);
  EXPECT_EQ(sample(sampler, {1, 3, 2}), 1);
  for (const int32_t mirostat : {0, 1, 2}) {
    SamplerParams params;
    params.mirostat = mirostat;
    Sampler one = make(params, 1);
    EXPECT_EQ(sample(one, {-7}), 0);
    one.accept(0);
    EXPECT_EQ(sample(one, {-7}), 0);
  }
}

// Random parameters and logits, infinities among them: always a token that was possible.
TEST(Sampler, AnyParametersGiveAPossibleToken) {
  Random random(99);
  const auto number = [&](double low, double high) {
    return static_cast<float>(low + (high - low) * random.uniform());
  };
  for (int round = 0; round < 400; ++round) {
    SamplerParams p;
    p.seed = static_cast<uint32_t>(round);
    p.temp = number(-0.2, 2), p.dynatemp_range = number(-1, 2), p.dynatemp_exponent = number(-2, 4);
    p.top_k = static_cast<int32_t>(random.below(60)) - 5, p.top_p = number(-0.1, 1.2), p.min_p = number(-0.5, 1.2);
    p.typical_p = number(-0.1, 1.2), p.top_n_sigma = number(-1, 3), p.min_keep = static_cast<int32_t>(random.below(9));
    p.xtc_probability = number(-0.5, 1), p.xtc_threshold = number(-0.1, 0.7);
    p.repeat_penalty = number(0.1, 2), p.frequency_penalty = number(-2, 2), p.presence_penalty = number(-2, 2);
    p.dry_multiplier = number(-1, 2), p.dry_allowed_length = static_cast<int32_t>(random.below(4));
    p.mirostat = static_cast<int32_t>(random.below(6)) % 3, p.mirostat_tau = number(-1, 8);
    p.adaptive_target = number(-1, 1);
    for (size_t i = p.order.size(); i > 1; --i) std::swap(p.order[i - 1], p.order[random.below(i)]);
    p.order.resize(random.below(p.order.size() + 1));
    const size_t n_vocab = 1 + random.below(50);
    Sampler sampler = make(p, n_vocab);
    for (int step = 0; step < 30; ++step) {
      std::vector<float> logits = random_logits(n_vocab, random.next());
      logits[random.below(n_vocab)] = kNan;
      logits[random.below(n_vocab)] = step % 7 == 0 ? kInfinity : -kInfinity;
      logits[random.below(n_vocab)] = 1;
      const int32_t id = sample(sampler, logits);
      ASSERT_GE(id, 0);
      ASSERT_LT(id, static_cast<int32_t>(n_vocab));
      ASSERT_GT(logits[static_cast<size_t>(id)], -kInfinity);  // false for NaN
      sampler.accept(id);
    }
  }
}

TEST(Sampler, ImpossibleParametersAreRefused) {
  const auto refused = [](auto set) {
    SamplerParams params;
    set(params);
    const auto sampler = Sampler::create(params, 10);
    if (sampler.ok()) return std::string("accepted");
    EXPECT_EQ(sampler.error().code, ErrorCode::kBadInput);
    return sampler.error().message;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refused([](auto& p) { p.temp = kNan; }), HasSubstr("temp is nan"));
  EXPECT_THAT(refused([](auto& p) { p.top_p = kNan; }), HasSubstr("top_p"));
  EXPECT_THAT(refused([](auto& p) { p.min_p = kInfinity; }), HasSubstr("min_p"));
  EXPECT_THAT(refused([](auto& p) { p.mirostat_tau = kInfinity; }), HasSubstr("mirostat_tau"));
  EXPECT_THAT(refused([](auto& p) { p.repeat_penalty = 0; }), HasSubstr("repeat_penalty is 0; it must be above 0"));
  EXPECT_THAT(refused([](auto& p) { p.repeat_last_n = -2; }), HasSubstr("repeat_last_n"));
  EXPECT_THAT(refused([](auto& p) { p.dry_penalty_last_n = -2; }), HasSubstr("dry_penalty_last_n"));
  EXPECT_THAT(refused([](auto& p) { p.dry_allowed_length = -1; }), HasSubstr("dry_allowed_length"));
  EXPECT_THAT(refused([](auto& p) { p.min_keep = -1; }), HasSubstr("min_keep"));
  EXPECT_THAT(refused([](auto& p) { p.mirostat = 3; }), HasSubstr("mirostat is 3"));
  EXPECT_THAT(refused([](auto& p) { p.adaptive_target = 1.5f; }), HasSubstr("adaptive_target"));
  EXPECT_THAT(refused([](auto& p) { p.adaptive_decay = 1; }), HasSubstr("adaptive_decay"));
  EXPECT_THAT(refused([](auto& p) { p.logit_bias = {{10, 1}}; }), HasSubstr("token 10"));
  EXPECT_THAT(refused([](auto& p) { p.logit_bias = {{-1, 1}}; }), HasSubstr("token -1"));
  EXPECT_THAT(refused([](auto& p) { p.logit_bias = {{1, kInfinity}}; }), HasSubstr("inf"));
  EXPECT_THAT(refused([](auto& p) { p.logit_bias = {{1, kNan}}; }), HasSubstr("nan"));
  EXPECT_THAT(refused([](auto& p) { p.order = {StageKind::kXtc, StageKind::kXtc}; }), HasSubstr("twice"));
}

// Windows that a request asks for cost nothing until tokens fill them.
TEST(Sampler, NoAllocationPerToken) {
  const std::vector<float> logits = random_logits(20'000, 33);
  std::vector<SamplerParams> cases(7);
  cases[1].top_k = 0;
  cases[2].temp = 0;
  cases[3] = plain(0);
  cases[4].repeat_penalty = 1.1f, cases[4].repeat_last_n = INT32_MAX, cases[4].dry_multiplier = 1;
  cases[4].dry_penalty_last_n = INT32_MAX, cases[4].logit_bias = {{1, 2}}, cases[4].typical_p = 0.9f;
  cases[4].top_k = 0, cases[4].xtc_probability = 1, cases[4].dynatemp_range = 0.5f, cases[4].top_n_sigma = 2;
  cases[5].mirostat = 1;
  cases[6].adaptive_target = 0.3f;
  for (const SamplerParams& params : cases) {
    const int64_t before_making = test::n_allocations();
    Sampler sampler = make(params, logits.size());
    EXPECT_GT(test::n_allocations(), before_making);  // the counter counts
    for (int i = 0; i < 50; ++i) sampler.accept(sample(sampler, logits));
    sampler.reset();
    const int64_t before = test::n_allocations();
    for (int i = 0; i < 50; ++i) {
      const auto id = sampler.sample(logits);
      sampler.accept(*id);
    }
    EXPECT_EQ(test::n_allocations(), before);
  }
}

}  // namespace
}  // namespace strata::text
