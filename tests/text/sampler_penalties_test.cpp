// What accepted tokens do: penalties against their formula, DRY against a search of all places, windows, breakers.
#include <cmath>
#include <deque>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "text/sampler_reference.h"
#include "text/sampling/dry_breakers.h"
#include "text/sampling/stage.h"
#include "text/sampling/token_window.h"
#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using Tokens = std::vector<int32_t>;

// Logits by id after the stage.
std::vector<float> run_stage(Stage& stage, const std::vector<float>& logits) {
  Candidates candidates(static_cast<int32_t>(logits.size()));
  candidates.reset(logits);
  stage.apply(candidates);
  std::vector<float> out(logits.size());
  for (const Candidate& candidate : candidates.items()) out[static_cast<size_t>(candidate.id)] = candidate.logit;
  EXPECT_EQ(candidates.max_logit(), *std::max_element(out.begin(), out.end()));
  return out;
}

Tokens last(const Tokens& tokens, size_t n) {
  return {tokens.end() - static_cast<ptrdiff_t>(std::min(n, tokens.size())), tokens.end()};
}

TEST(TokenWindow, KeepsTheLastOnes) {
  for (const int32_t size : {1, 2, 5, 64, -1}) {
    TokenWindow window(size);
    const size_t limit = size < 0 ? SIZE_MAX : static_cast<size_t>(size);
    std::deque<int32_t> wanted;
    for (int32_t id = 0; id < 200; ++id) {
      const auto gone = window.push(id);
      wanted.push_back(id);
      EXPECT_EQ(gone.has_value(), wanted.size() > limit);
      if (gone) {
        EXPECT_EQ(*gone, wanted.front());
        wanted.pop_front();
      }
      ASSERT_EQ(window.size(), wanted.size());
      for (size_t age = 0; age < window.size(); ++age) ASSERT_EQ(window.back(age), wanted[wanted.size() - 1 - age]);
      if (id == 100) {
        window.clear();
        wanted.clear();
      }
    }
  }
}

TEST(Penalties, EqualTheFormula) {
  constexpr int32_t kVocab = 30;
  Random random(3);
  for (const int32_t last_n : {1, 2, 7, 64, -1}) {
    SamplerParams params;
    params.repeat_last_n = last_n;
    params.repeat_penalty = 1.3f, params.frequency_penalty = 0.25f, params.presence_penalty = -0.5f;
    const auto stage = make_penalties(params, kVocab);
    Tokens accepted;
    for (int step = 0; step < 150; ++step) {
      const std::vector<float> logits = test::random_logits(kVocab, static_cast<uint64_t>(step));
      const std::vector<float> got = run_stage(*stage, logits);
      const Tokens window = last(accepted, static_cast<size_t>(last_n));
      for (int32_t id = 0; id < kVocab; ++id) {
        const auto count = static_cast<float>(std::count(window.begin(), window.end(), id));
        float wanted = logits[static_cast<size_t>(id)];
        if (count > 0) {
          wanted = wanted <= 0 ? wanted * params.repeat_penalty : wanted / params.repeat_penalty;
          wanted -= count * params.frequency_penalty + params.presence_penalty;
        }
        EXPECT_FLOAT_EQ(got[static_cast<size_t>(id)], wanted) << id;
      }
      accepted.push_back(static_cast<int32_t>(random.below(kVocab)));
      stage->accept(accepted.back());
      if (step == 90) {
        stage->reset();
        accepted.clear();
      }
    }
  }
}

TEST(Penalties, ForeignIdsAndExtremeValuesStayNumbers) {
  SamplerParams params;
  params.repeat_penalty = 1e-30f, params.frequency_penalty = 3e38f, params.presence_penalty = 3e38f;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float sign : {1.0f, -1.0f}) {
    params.frequency_penalty *= sign, params.presence_penalty *= sign;
    const auto stage = make_penalties(params, 4);
    for (const int32_t id : {-1, 0, 1, 1, 2, 4, 2'000'000'000, INT32_MIN}) stage->accept(id);
    for (const float logit : run_stage(*stage, {-kInfinity, kInfinity, 3e38f, 0})) EXPECT_FALSE(std::isnan(logit));
    stage->reset();
    EXPECT_EQ(run_stage(*stage, {1, 2, 3, 4}), (std::vector<float>{1, 2, 3, 4}));
  }
}

// All places, all lengths.
std::vector<double> slow_dry(const SamplerParams& params, const Tokens& window, size_t limit, const Tokens& singles,
                             std::vector<double> logits) {
  const size_t n = window.size(), allowed = static_cast<size_t>(params.dry_allowed_length);
  if (n <= allowed) return logits;
  std::vector<ptrdiff_t> longest(logits.size(), -1);
  for (size_t i = 0; i + 1 < n; ++i) {
    size_t length = 0;
    while (length <= i && length < limit && window[i - length] == window[n - 1 - length]) ++length;
    auto& known = longest[static_cast<size_t>(window[i + 1])];
    if (length >= allowed) known = std::max(known, static_cast<ptrdiff_t>(length));
  }
  for (size_t id = 0; id < logits.size(); ++id) {
    if (longest[id] < 0 || std::count(singles.begin(), singles.end(), static_cast<int32_t>(id)) > 0) continue;
    const double exponent = static_cast<double>(longest[id]) - static_cast<double>(allowed);
    logits[id] -= static_cast<double>(params.dry_multiplier) * std::pow(static_cast<double>(params.dry_base), exponent);
  }
  return logits;
}

// Tokens after the nearest place where one of the sequences stands, at its head the longest.
size_t slow_limit(const Tokens& window, const std::vector<Tokens>& breakers) {
  for (size_t i = window.size(); i-- > 0;) {
    size_t longest = 0;
    for (const Tokens& breaker : breakers) {
      const bool fits = i + breaker.size() <= window.size();
      if (fits && std::equal(breaker.begin(), breaker.end(), window.begin() + static_cast<ptrdiff_t>(i))) {
        longest = std::max(longest, breaker.size());
      }
    }
    if (longest > 0) return window.size() - i - longest;
  }
  return window.size();
}

TEST(Dry, EqualsTheSearchOfAllPlaces) {
  constexpr int32_t kVocab = 12;
  const std::vector<Tokens> breakers = {{7}, {8, 9}, {8, 9, 3}, {10, 10}};
  Random random(11);
  int n_penalised = 0;
  for (const bool with_breakers : {false, true}) {
    for (const int32_t last_n : {3, 20, 200, -1}) {
      for (const int32_t allowed : {0, 1, 2, 4}) {
        SamplerParams params;
        params.dry_multiplier = 0.8f, params.dry_allowed_length = allowed, params.dry_penalty_last_n = last_n;
        if (with_breakers) params.dry_breakers = DryBreakers::of_tokens(breakers);
        const auto stage = make_dry(params, kVocab);
        Tokens accepted;
        for (int step = 0; step < 120; ++step) {
          const std::vector<float> logits = test::random_logits(kVocab, static_cast<uint64_t>(step));
          const Tokens window = last(accepted, static_cast<size_t>(last_n));
          const std::vector<double> wanted =
              slow_dry(params, window, with_breakers ? slow_limit(window, breakers) : window.size(),
                       with_breakers ? Tokens{7} : Tokens{}, {logits.begin(), logits.end()});
          const std::vector<float> got = run_stage(*stage, logits);
          for (size_t id = 0; id < wanted.size(); ++id) {
            EXPECT_NEAR(static_cast<double>(got[id]), wanted[id], 1e-6 * (1 + std::abs(wanted[id])));
            n_penalised += got[id] != logits[id];
          }
          // Mostly what stood 5 tokens before, so that repetitions arise.
          const bool repeats = accepted.size() >= 5 && random.below(10) > 0;
          accepted.push_back(repeats ? accepted[accepted.size() - 5] : static_cast<int32_t>(random.below(kVocab)));
          stage->accept(accepted.back());
        }
        stage->reset();
        EXPECT_EQ(run_stage(*stage, std::vector<float>(kVocab, 1)), std::vector<float>(kVocab, 1));
      }
    }
  }
  EXPECT_GT(n_penalised, 1000);
}

// 1 2 3 . 1 2 -> 3 would make the repetition of 2 tokens one longer.
TEST(Dry, ByHand) {
  SamplerParams params;
  params.dry_multiplier = 0.5f, params.dry_base = 2;
  const auto penalties = [&](const Tokens& tokens) {
    const auto stage = make_dry(params, 10);
    for (const int32_t id : tokens) stage->accept(id);
    return run_stage(*stage, std::vector<float>(10, 0));
  };
  EXPECT_EQ(penalties({1, 2, 3, 4, 1, 2}), (std::vector<float>{0, 0, 0, -0.5f, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(penalties({9, 1, 2, 3, 9, 1, 2}), (std::vector<float>{0, 0, 0, -1, 0, 0, 0, 0, 0, 0}));  // 3 long
  EXPECT_EQ(penalties({1, 2}), std::vector<float>(10, 0));
  params.dry_breakers = DryBreakers::of_tokens(std::vector<Tokens>{{9}});
  EXPECT_EQ(penalties({9, 1, 2, 3, 9, 1, 2}), (std::vector<float>{0, 0, 0, -0.5f, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(penalties({1, 2, 3, 1, 9, 2}), std::vector<float>(10, 0));
}

TEST(Dry, LongRepetitionsStayFinite) {
  SamplerParams params;
  params.dry_multiplier = 3e38f, params.dry_penalty_last_n = 5000;
  for (const float base : {1.0f, 1.0000001f, 1.75f, 1e30f}) {
    params.dry_base = base;
    const auto stage = make_dry(params, 2);
    for (int i = 0; i < 5000; ++i) stage->accept(0);
    const std::vector<float> got = run_stage(*stage, {std::numeric_limits<float>::infinity(), 0});
    EXPECT_EQ(got[0], std::numeric_limits<float>::infinity());
    const std::vector<float> finite = run_stage(*stage, {0, 0});
    EXPECT_LT(finite[0], -1e38f);
    EXPECT_TRUE(std::isfinite(finite[0]));
    EXPECT_EQ(finite[1], 0);
  }
}

TEST(DryBreakers, FindTheTokensInWhichATextCanStand) {
  test::TokenizerModel model;
  const int32_t inside = model.add("a:\"b");
  const int32_t head = model.add("xy<");
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<std::string> texts = {":", "<|>"};
  const auto breakers = DryBreakers::create(*tokenizer, texts);
  ASSERT_TRUE(breakers.ok()) << breakers.error().message;
  EXPECT_TRUE((*breakers)->is_single(':'));
  EXPECT_TRUE((*breakers)->is_single(inside));
  EXPECT_FALSE((*breakers)->is_single('"'));
  EXPECT_FALSE((*breakers)->is_single('<'));
  for (const int32_t id : {static_cast<int32_t>('<'), head}) {
    EXPECT_THAT((*breakers)->tails(id), ::testing::ElementsAre(Tokens{'|', '>'})) << id;
  }
  EXPECT_TRUE((*breakers)->tails('|').empty());
  EXPECT_TRUE((*breakers)->tails('a').empty());

  for (const auto& bad : {std::vector<std::string>{""}, std::vector<std::string>{std::string(41, 'x')},
                          std::vector<std::string>(65, "x")}) {
    const auto refused = DryBreakers::create(*tokenizer, bad);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kBadInput);
  }
  EXPECT_TRUE(DryBreakers::create(*tokenizer, std::vector<std::string>{std::string(40, 'x')}).ok());
  EXPECT_TRUE(DryBreakers::create(*tokenizer, default_dry_breakers()).ok());
}

// The rest of a breaker follows its head in the middle of a text: no space is put in front of it.
TEST(DryBreakers, TailsOfSentencePiecesHaveNoSpaceInFront) {
  test::SpmModel model;
  model.add_piece("\u2581", -9);
  const int32_t a = model.add_piece("A", -1), b = model.add_piece("B", -1);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  const auto breakers = DryBreakers::create(*tokenizer, std::vector<std::string>{"AB"});
  ASSERT_TRUE(breakers.ok());
  EXPECT_THAT((*breakers)->tails(a), testing::ElementsAre(Tokens{b}));
}

}  // namespace
}  // namespace strata::text
