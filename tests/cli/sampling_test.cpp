// Goal: sampling flags reach the sampler's parameters, over what a model recommends, and bad ones are named.
#include "cli/sampling.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/models.h"
#include "text/sampling/dry_breakers.h"

namespace strata::cli {
namespace {

using Texts = std::vector<std::string>;

class SamplingFlags : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = gguf::Model::open(test::demo_model(), real_file_system());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    model_ = std::move(opened).value();
    auto loaded = text::Tokenizer::load(*model_);
    ASSERT_TRUE(loaded.ok());
    tokenizer_ = std::move(loaded).value();
  }

  Result<text::SamplerParams> params(const std::vector<std::pair<const char*, const char*>>& flags) {
    Settings settings;
    for (const auto& [name, value] : flags) {
      const Setting* row = find_setting(name);
      EXPECT_NE(row, nullptr) << name;
      if (row == nullptr) continue;
      EXPECT_TRUE(settings.set(row->key, value, name).ok()) << name;
    }
    return sampler_params(settings, *model_, *tokenizer_, 7);
  }

  std::unique_ptr<gguf::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
};

// The table tells people the defaults that the sampler has.
TEST_F(SamplingFlags, DefaultsOfTheTableAreTheSamplers) {
  const Settings s;
  const text::SamplerParams p;
  const auto expect = [&](Key key, float value) {
    EXPECT_EQ(static_cast<float>(s.number(key)), value) << setting(key).name;
  };
  expect(Key::kTemp, p.temp);
  expect(Key::kTopP, p.top_p);
  expect(Key::kMinP, p.min_p);
  expect(Key::kTypical, p.typical_p);
  expect(Key::kTopNSigma, p.top_n_sigma);
  expect(Key::kXtcProbability, p.xtc_probability);
  expect(Key::kXtcThreshold, p.xtc_threshold);
  expect(Key::kDynatempRange, p.dynatemp_range);
  expect(Key::kDynatempExp, p.dynatemp_exponent);
  expect(Key::kRepeatPenalty, p.repeat_penalty);
  expect(Key::kPresencePenalty, p.presence_penalty);
  expect(Key::kFrequencyPenalty, p.frequency_penalty);
  expect(Key::kDryMultiplier, p.dry_multiplier);
  expect(Key::kDryBase, p.dry_base);
  expect(Key::kMirostatLr, p.mirostat_eta);
  expect(Key::kMirostatEnt, p.mirostat_tau);
  expect(Key::kAdaptiveTarget, p.adaptive_target);
  expect(Key::kAdaptiveDecay, p.adaptive_decay);
  EXPECT_EQ(s.integer(Key::kTopK), p.top_k);
  EXPECT_EQ(s.integer(Key::kMinKeep), p.min_keep);
  EXPECT_EQ(s.integer(Key::kRepeatLastN), p.repeat_last_n);
  EXPECT_EQ(s.integer(Key::kDryAllowedLength), p.dry_allowed_length);
  EXPECT_EQ(s.integer(Key::kDryPenaltyLastN), p.dry_penalty_last_n);
  EXPECT_EQ(s.integer(Key::kMirostat), p.mirostat);
  const auto order = text::parse_stage_order(s.text(Key::kSamplers));
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(*order, p.order);
  const auto breakers = parse_sequence_breakers(s.text(Key::kDrySequenceBreaker));
  ASSERT_TRUE(breakers.ok());
  EXPECT_EQ(*breakers, text::default_dry_breakers());
}

TEST_F(SamplingFlags, ReachTheParameters) {
  const auto p = params({{"temp", "0.5"}, {"typical", "0.25"}, {"top-nsigma", "2"}, {"xtc-probability", "0.125"},
                         {"xtc-threshold", "0.375"}, {"repeat-last-n", "-1"}, {"repeat-penalty", "1.5"},
                         {"presence-penalty", "-0.5"}, {"frequency-penalty", "0.75"}, {"dry-multiplier", "2"},
                         {"dry-base", "3"}, {"dry-allowed-length", "4"}, {"dry-penalty-last-n", "5"},
                         {"dry-sequence-breaker", "b"}, {"mirostat", "2"}, {"mirostat-lr", "0.0625"},
                         {"mirostat-ent", "6"}, {"dynatemp-range", "0.5"}, {"dynatemp-exp", "2"}, {"samplers", "kt"},
                         {"min-keep", "9"}, {"logit-bias", "3+1"}, {"ignore-eos", "on"}, {"adaptive-target", "0.5"},
                         {"adaptive-decay", "0.75"}});
  ASSERT_TRUE(p.ok()) << p.error().message;
  EXPECT_EQ(std::tuple(p->temp, p->typical_p, p->top_n_sigma, p->xtc_probability, p->xtc_threshold),
            std::tuple(0.5f, 0.25f, 2.0f, 0.125f, 0.375f));
  EXPECT_EQ(std::tuple(p->repeat_last_n, p->repeat_penalty, p->presence_penalty, p->frequency_penalty),
            std::tuple(-1, 1.5f, -0.5f, 0.75f));
  EXPECT_EQ(std::tuple(p->dry_multiplier, p->dry_base, p->dry_allowed_length, p->dry_penalty_last_n),
            std::tuple(2.0f, 3.0f, 4, 5));
  EXPECT_EQ(std::tuple(p->mirostat, p->mirostat_eta, p->mirostat_tau), std::tuple(2, 0.0625f, 6.0f));
  EXPECT_EQ(std::tuple(p->dynatemp_range, p->dynatemp_exponent, p->min_keep), std::tuple(0.5f, 2.0f, 9));
  EXPECT_EQ(std::tuple(p->adaptive_target, p->adaptive_decay, p->seed), std::tuple(0.5f, 0.75f, 7u));
  EXPECT_EQ(p->order, (std::vector{text::StageKind::kTopK, text::StageKind::kTemperature}));
  ASSERT_EQ(p->logit_bias.size(), 1u);
  EXPECT_FALSE(p->suppress.empty());
  for (const int32_t id : p->suppress) EXPECT_TRUE(tokenizer_->is_end_of_generation(id));
  ASSERT_NE(p->dry_breakers, nullptr);
}

TEST_F(SamplingFlags, BadTextsNameTheFlag) {
  for (const auto& [flag, value] : std::vector<std::pair<const char*, const char*>>{
           {"samplers", "top_q"}, {"logit-bias", "3"}, {"dry-sequence-breaker", "\\x"}}) {
    const auto p = params({{flag, value}});
    ASSERT_FALSE(p.ok()) << flag;
    EXPECT_EQ(p.error().code, ErrorCode::kBadInput);
    EXPECT_TRUE(p.error().message.starts_with(std::string("--") + flag + ": ")) << p.error().message;
  }
  const auto p = params({{"dry-multiplier", "1"}, {"dry-sequence-breaker", "a,,b"}});
  ASSERT_FALSE(p.ok());
  EXPECT_TRUE(p.error().message.starts_with("--dry-sequence-breaker: ")) << p.error().message;
}

TEST(LogitBiasFlag, IdsWithNumbers) {
  const auto biases = parse_logit_bias("15043+1.5,29871-inf,0-2e-1");
  ASSERT_TRUE(biases.ok());
  ASSERT_EQ(biases->size(), 3u);
  EXPECT_EQ((*biases)[0].id, 15043);
  EXPECT_EQ((*biases)[0].bias, 1.5f);
  EXPECT_EQ((*biases)[1].bias, -INFINITY);
  EXPECT_EQ((*biases)[2].id, 0);
  EXPECT_EQ((*biases)[2].bias, -0.2f);
  EXPECT_TRUE(parse_logit_bias("")->empty());
  for (const char* bad : {"1", "+1", "1+", "1+-2", "1--2", "1+2,", ",1+2", "1+x", "1 +2", "-1+2", "1+2 ", "1=2",
                          "99999999999+1", "1+1e99"}) {
    EXPECT_FALSE(parse_logit_bias(bad).ok()) << bad;
  }
}

TEST(SequenceBreakerFlag, ListsOfTexts) {
  EXPECT_EQ(*parse_sequence_breakers("\\n,:,\",*"), (Texts{"\n", ":", "\"", "*"}));
  EXPECT_EQ(*parse_sequence_breakers("a\\,b,\\\\,\\t\\r"), (Texts{"a,b", "\\", "\t\r"}));
  EXPECT_EQ(*parse_sequence_breakers("none"), Texts{});
  EXPECT_EQ(*parse_sequence_breakers(""), Texts{});
  EXPECT_FALSE(parse_sequence_breakers("a\\").ok());
  EXPECT_FALSE(parse_sequence_breakers("\\q").ok());
}

}  // namespace
}  // namespace strata::cli
