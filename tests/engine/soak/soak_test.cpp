// Goal: mixed requests on a device that holds a quarter of the experts, lends its slots to prompts and changes its
// experts: no error, every answer as alone, all that was taken comes back. Method: a simulated device with random
// delays, beside an engine on the CPU that says what lone requests get.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "engine/sim_support.h"
#include "engine/soak/checks.h"
#include "engine/soak/rig.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr SoakShape kShort = {.longest = 96, .n_prompts = 6, .n_chats = 3, .n_turns = 3, .answer_tokens = 8};
constexpr SoakShape kLong = {.longest = 3000, .n_prompts = 24, .n_chats = 8, .n_turns = 5, .answer_tokens = 24};

EngineConfig sim_soak_config(const GoldenModel& golden, const SoakShape& shape, int chunk, uint64_t seed) {
  EngineConfig config = soak_config(golden.path, shape, chunk);
  config.device = format("sim:256MiB/seed={}", seed);
  return config;
}

void expect_sim_soak(const GoldenModel& golden, const SoakShape& shape, int chunk, const SoakOptions& options) {
  const EngineConfig config = lending(sim_soak_config(golden, shape, chunk, options.seed), golden);
  expect_soak(golden.path, lone_config(config, "cpu"), config, shape, options);
}

// The CPU computes half of the missing experts. Without recurrent layers a simulated device gives the bits that
// --deterministic promises anyway, since it computes as the host does.
void expect_sim_soak_with_cpu(const GoldenModel& golden, const SoakShape& shape, int chunk,
                              const SoakOptions& options) {
  EngineConfig config = sim_soak_config(golden, shape, chunk, options.seed);
  config.deterministic = false;
  config.pcie_frac = 0.5;
  config = lending(config, golden);
  expect_soak(golden.path, lone_config(config, "cpu"), config, shape, options);
}

// By hand with other seeds, and for longer: SOAK_SECONDS=3600 SOAK_SEED=7.
SoakOptions some_requests() { return options_from_environment({.least_requests = 60}); }
SoakOptions minute() { return options_from_environment({.least_seconds = 60}); }

TEST(SoakForAMinute, Deterministic) { expect_sim_soak(load_demo_golden(), kLong, 256, minute()); }
TEST(SoakForAMinute, WithTheCpu) { expect_sim_soak_with_cpu(load_demo_golden(), kLong, 256, minute()); }

class SoakOf : public testing::TestWithParam<const char*> {};

TEST_P(SoakOf, SomeRequests) { expect_sim_soak(load_arch_golden(GetParam()), kShort, 32, some_requests()); }

INSTANTIATE_TEST_SUITE_P(Models, SoakOf, testing::ValuesIn(kGoldenArchs),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SoakWithTheCpu, OfSomeRequests) {
  expect_sim_soak_with_cpu(load_arch_golden("qwen3moe"), kShort, 32, some_requests());
}

// What the checks are for: an engine, and what goes wrong with it.
class BrokenSoak : public testing::Test {
 protected:
  void SetUp() override {
    EngineConfig config = sim_soak_config(golden_, kShort, 32, 1);
    config.max_sequences++;  // for one that is forgotten
    config = lending(config, golden_);
    questions_ = ask_alone(*model_, *tokenizer_, lone_config(config, "cpu"), kShort, 1);
    engine_ = open_engine(*model_, config, stats_);
  }
  std::vector<std::string> faults() {
    return soak_faults(run_soak(*engine_, *tokenizer_, questions_, {.least_requests = 60}), stats_, {});
  }

  const GoldenModel golden_ = load_arch_golden("qwen3moe");
  const std::unique_ptr<gguf::Model> model_ = open_golden(golden_);
  const std::unique_ptr<text::Tokenizer> tokenizer_ = text::Tokenizer::load(*model_).value();
  SoakQuestions questions_;
  Stats stats_;
  std::unique_ptr<engine::Engine> engine_;
};

TEST_F(BrokenSoak, HearsOfAnAnswerThatDiffersInOneBit) {
  float& logprob = questions_.chats[1][2].answer.logprobs[0];
  logprob = std::nextafter(logprob, 0.0F);
  EXPECT_THAT(faults(), Contains(HasSubstr(": token 1 of ")));
}

TEST_F(BrokenSoak, HearsOfAnAnswerThatEndsOtherwise) {
  questions_.prompts[0].answer.finish = engine::Finish::kEndOfText;
  EXPECT_THAT(faults(), Contains(HasSubstr("it ends as ")));
}

TEST_F(BrokenSoak, HearsOfASequenceThatIsKept) {
  model::SequenceState kept = engine_->make_sequence().value();
  ASSERT_TRUE(engine_->prefill(kept, questions_.prompts[0].prompt, {}).ok());
  EXPECT_THAT(faults(), ElementsAre("kv_blocks_used is 1 at the end"));
}

// A report without faults, of a run of an hour.
SoakReport sound_report() {
  SoakReport report{.prompts = 1, .turns = 1, .cancelled_prompts = 1, .cancelled_answers = 1, .kept_tokens = 1,
                    .steps_together = 1};
  for (uint64_t i = 0; i <= 60; i++) {
    const uint64_t ram = 50'000'000 + (i < 20 ? i * 100'000 : 2'000'000 + i % 7 * 10'000);
    report.samples.push_back({.seconds = 60.0 * static_cast<double>(i), .ram_bytes = ram, .device_bytes = 1'000'000});
  }
  return report;
}

void count_all(Stats& stats) {
  for (const Counter counter : {Counter::kCacheHits, Counter::kCacheMisses, Counter::kCacheLoans, Counter::kCacheSwaps,
                                Counter::kStreamedExperts, Counter::kGraphReplays}) {
    stats.add(counter);
  }
}

TEST(SoakFaults, AreNoneWhereAllIsWell) {
  Stats stats;
  count_all(stats);
  EXPECT_THAT(soak_faults(sound_report(), stats, {.memory = true}), IsEmpty());
}

TEST(SoakFaults, AreKindsOfRequestsThatNeverCame) {
  Stats stats;
  count_all(stats);
  EXPECT_EQ(soak_faults(SoakReport{.samples = sound_report().samples}, stats, {.memory = true}).size(), 6U);
}

TEST(SoakFaults, AreThingsThatNeverHappened) {
  EXPECT_EQ(soak_faults(sound_report(), Stats{}, {.memory = true}).size(), 6U);
}

TEST(SoakFaults, AreExpertsThatTheCpuNeverComputed) {
  Stats stats;
  count_all(stats);
  EXPECT_THAT(soak_faults(sound_report(), stats, {.cpu = true}), ElementsAre("the CPU computed no experts"));
}

TEST(SoakFaults, AreThingsThatWereNotGivenBack) {
  Stats stats;
  count_all(stats);
  stats.add(Counter::kCacheLentSlots, 3);
  EXPECT_THAT(soak_faults(sound_report(), stats, {.memory = true}), ElementsAre("cache_lent_slots is 3 at the end"));
}

TEST(SoakFaults, AreMemoryThatGrows) {
  Stats stats;
  count_all(stats);
  SoakReport report = sound_report();
  for (size_t i = 20; i < report.samples.size(); i++) report.samples[i].ram_bytes += i * 20'000;
  for (size_t i = 40; i < report.samples.size(); i++) report.samples[i].device_bytes++;
  EXPECT_THAT(soak_faults(report, stats, {.memory = true}),
              ElementsAre(HasSubstr("the process grew by 1.5"), HasSubstr("the device's memory in use is at least")));
  EXPECT_THAT(soak_faults(report, stats, {}), IsEmpty());
}

TEST(SoakFaults, AreNotWhatOthersTakeForAWhile) {
  Stats stats;
  count_all(stats);
  SoakReport report = sound_report();
  for (size_t i = 50; i < 55; i++) report.samples[i].device_bytes *= 2;
  EXPECT_THAT(soak_faults(report, stats, {.memory = true}), IsEmpty());
}

}  // namespace
}  // namespace strata::test
