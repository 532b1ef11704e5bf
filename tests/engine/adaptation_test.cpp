// Experts that change places while answers are computed change no bit of them, whatever is cached, borrowed or fails;
// counters prove that they did change places. Profiles decide where they begin.
#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/log.h"
#include "engine/golden_check.h"
#include "engine/sim_support.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using experts::ExpertKey;
using experts::ExpertProfile;

// Every step decides.
EngineConfig adapting(EngineConfig config, int64_t slots) {
  config.expert_cache = slots;
  config.cache_min_slots = 1;
  config.adapt_every = 1;
  return config;
}
EngineConfig adapting_sim(int64_t slots, int seed) {
  EngineConfig config = adapting(test_config(), slots);
  config.device = format("sim:256MiB/seed={}", seed);
  return config;
}

class AdaptingGolden : public testing::TestWithParam<const char*> {
 protected:
  // How many experts changed places; the bits are those of cpu without a cache.
  int64_t swaps_of(const EngineConfig& config, Cut cut) {
    EngineConfig plain = test_config();
    plain.round_activations = config.round_activations;
    std::vector<float> expected, found;
    Stats stats;
    EXPECT_GE(worst_difference(golden_, plain, cut, &expected), 0);
    const double worst = worst_difference(golden_, config, cut, &found, &stats);
    EXPECT_GE(worst, 0);
    EXPECT_LE(worst, golden_.limit);
    EXPECT_EQ(found.size(), expected.size());
    EXPECT_TRUE(found.size() == expected.size() &&
                std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0)
        << cut_name(cut) << ", " << *config.expert_cache << " slots, " << config.device;
    EXPECT_EQ(stats.get(Counter::kCacheSwapsUndone), 0);
    return stats.get(Counter::kCacheSwaps);
  }

  GoldenModel golden_ = load_arch_golden(GetParam());
  const int64_t experts_ = n_experts(golden_);
};

TEST_P(AdaptingGolden, GivesTheBitsOfCpu) {
  struct Way {
    Cut cut;
    int64_t slots;
    bool graphs;
  };
  int seed = 1;
  for (const Way& way : {Way{Cut::kChunksOf1, experts_ / 4, true}, Way{Cut::kBatchOfThree, experts_ / 2, false},
                         Way{Cut::kChunksOf7, experts_ / 4, true}}) {
    EngineConfig config = adapting_sim(way.slots, seed++);
    config.use_graphs = way.graphs;
    EXPECT_GT(swaps_of(config, way.cut), 2) << cut_name(way.cut);
  }
}

// Chunks of 7 rows stream, and borrow what they stream through: moves wait for the loan's end.
TEST_P(AdaptingGolden, LoansAndMovesTakeTurns) {
  EngineConfig roomy = adapting_sim(experts_ / 2, 5);
  roomy.stream_rows = 7;
  const EngineConfig borrows = lending(roomy, golden_);
  EXPECT_EQ(swaps_of(borrows, Cut::kChunksOf7), 0) << "the loan lasts as long as the prompts";
  EXPECT_GT(swaps_of(borrows, Cut::kBatchOfThree), 0) << "single rows come between the chunks";
  roomy.prefill_borrow = false;
  EXPECT_GT(swaps_of(roomy, Cut::kChunksOf7), 5);
}

TEST_P(AdaptingGolden, ACacheOnCpuAdaptsToo) {
  EXPECT_GT(swaps_of(adapting(test_config(), experts_ / 4), Cut::kChunksOf1), 5);
}

TEST_P(AdaptingGolden, FullAndAbsentCachesHaveNothingToMove) {
  EXPECT_EQ(swaps_of(adapting_sim(experts_, 3), Cut::kChunksOf7), 0);
  EXPECT_EQ(swaps_of(adapting_sim(0, 3), Cut::kChunksOf7), 0);
}

INSTANTIATE_TEST_SUITE_P(All, AdaptingGolden, testing::Values("qwen3moe", "gpt-oss", "qwen3next", "qwen4exp"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Tokens one at a time; the log-probabilities after the last one are returned.
Result<std::vector<float>> answer(Engine& engine, std::span<const int32_t> ids) {
  ASSIGN_OR_RETURN(auto sequence, engine.make_sequence());
  for (const int32_t id : ids) {
    const model::BatchRows batch[] = {{&sequence, {&id, 1}}};
    RETURN_IF_ERROR(engine.step(batch));
  }
  std::vector<float> last;
  const int32_t row = 0;
  RETURN_IF_ERROR(engine.logits(std::span(&row, 1), [&](int64_t, std::span<const float> logits) -> Status {
    last.assign(logits.begin(), logits.end());
    return {};
  }));
  return last;
}

class AdaptingEngine : public testing::Test {
 protected:
  EngineConfig small_config() const {
    EngineConfig config = adapting_sim(experts_ / 4, 1);
    config.context = 64;
    config.chunk = 8;
    config.max_sequences = 1;
    config.max_checkpoints = 0;
    return config;
  }
  std::span<const int32_t> ids(size_t n) const { return std::span(golden_.sequences[1].ids).first(n); }
  std::unique_ptr<Engine> open(const EngineConfig& config) {
    auto engine = Engine::open(*model_, config, stats_);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    return std::move(engine).value();
  }

  GoldenModel golden_ = load_arch_golden("qwen3moe");
  std::unique_ptr<gguf::Model> model_ = open_golden(golden_);
  const int64_t experts_ = n_experts(golden_);
  Stats stats_;
};

// The n-th thing that can fail does, for some n that an answer can meet: what belongs to steps ends the answer with an
// error, what belongs to moves is made good unnoticed. The next answer is right in any case. (Each point of a move has
// its turn in the tests of swaps.)
TEST_F(AdaptingEngine, WhatFailsIsMadeGood) {
  set_log_level(LogLevel::kError);
  const EngineConfig config = small_config();
  const std::vector<float> expected = answer(*open(config), ids(12)).value();
  int failed_answers = 0;
  for (uint64_t n = 200;; n += 13) {
    SCOPED_TRACE(n);
    ASSERT_LT(n, 3000u);
    EngineConfig failing = config;
    failing.device += format("/fail={}", n);
    auto opened = Engine::open(*model_, failing, stats_);
    if (!opened.ok()) continue;
    const auto first = answer(**opened, ids(12));
    const auto second = answer(**opened, ids(12));
    if (first.ok() && !second.ok()) break;  // past everything that the first answer can meet
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_EQ(*second, expected);
    EXPECT_TRUE(!first.ok() || *first == expected);
    failed_answers += !first.ok();
  }
  set_log_level(LogLevel::kWarning);
  EXPECT_GT(failed_answers, 5);
}

TEST_F(AdaptingEngine, AProfileSaysWhatIsCachedAtTheStart) {
  const TempDir dir;
  EngineConfig config = small_config();
  config.adapt_every = 0;
  const auto measure = [&] {
    const auto engine = open(config);
    stats_.reset();
    EXPECT_TRUE(answer(*engine, ids(40)).ok());
    return stats_.get(Counter::kCacheHits);
  };
  const int64_t without = measure();
  config.expert_profile_save = dir.file("learned.profile");
  {
    const auto engine = open(config);
    ASSERT_TRUE(answer(*engine, ids(40)).ok());
    ASSERT_TRUE(engine->save_profile().ok());
  }
  config.expert_profile = config.expert_profile_save;
  const int64_t with = measure();
  EXPECT_GT(with, without * 5 / 4);

  const ExpertProfile learned = ExpertProfile::load(real_file_system(), config.expert_profile).value();
  const auto engine = open(config);
  EXPECT_EQ(learned.model(), engine->routed_model());
  const int64_t pairs = 40 * engine->hparams().n_layers * engine->hparams().route.n_used;
  EXPECT_EQ(learned.total(), pairs);
  ASSERT_TRUE(answer(*engine, ids(40)).ok());
  ASSERT_TRUE(engine->save_profile().ok());
  EXPECT_EQ(ExpertProfile::load(real_file_system(), config.expert_profile)->total(), 2 * pairs) << "uses add up";
}

TEST_F(AdaptingEngine, ProfilesThatDoNotFitAreRefused) {
  const TempDir dir;
  EngineConfig config = small_config();
  const auto refusal = [&] {
    const auto engine = Engine::open(*model_, config, stats_);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? std::string() : engine.error().message;
  };
  config.expert_profile = dir.file("none.profile");
  EXPECT_THAT(refusal(), testing::HasSubstr("none.profile"));
  config.expert_profile = dir.file("other.profile");
  ASSERT_TRUE(ExpertProfile({"Other", 2, 4}).save(config.expert_profile).ok());
  EXPECT_THAT(refusal(), testing::AllOf(testing::HasSubstr("other.profile"), testing::HasSubstr("another model")));
  config.expert_profile = golden_.path;
  EXPECT_THAT(refusal(), testing::HasSubstr("line 1"));
}

}  // namespace
}  // namespace strata::test
