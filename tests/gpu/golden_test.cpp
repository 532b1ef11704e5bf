// Whole models on a CUDA device against independent references: the CPU's tolerances on the float path, however many
// experts lie in the device's cache, wherever the others come from and however a prompt is cut.
#include <cmath>

#include <gtest/gtest.h>

#include "engine/sim_support.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using engine::ExpertPlace;

constexpr Cut kCuts[] = {Cut::kWhole,      Cut::kChunksOf1,    Cut::kChunksOf7,
                         Cut::kChunksOf64, Cut::kBatchOfThree, Cut::kCheckpoint};
constexpr int kPercents[] = {0, 25, 100};  // of the experts, that lie in the cache

EngineConfig gpu_config(int64_t slots) {
  EngineConfig config = test_config();
  config.device = "cuda:0";
  config.expert_cache = slots;
  config.cache_min_slots = 1;
  return config;
}
int64_t slots_of(const GoldenModel& golden, int percent) { return n_experts(golden) * percent / 100; }

std::string safe(std::string name) {
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

class GpuArchGolden : public testing::TestWithParam<std::tuple<const char*, Cut>> {};

TEST_P(GpuArchGolden, FloatPathAgreesForEveryCacheWithAndWithoutGraphs) {
  const GoldenModel golden = load_arch_golden(std::get<0>(GetParam()));
  for (const int percent : kPercents) {
    for (const bool graphs : {true, false}) {
      EngineConfig config = gpu_config(slots_of(golden, percent));
      config.use_graphs = graphs;
      const double worst = worst_difference(golden, config, std::get<1>(GetParam()));
      EXPECT_GE(worst, 0);
      EXPECT_LE(worst, golden.limit) << percent << " % cached" << (graphs ? ", graphs" : ", no graphs");
      RecordProperty(format("cached_{}{}", percent, graphs ? "_graphs" : ""), std::to_string(worst));
    }
  }
}

// Prompts stream what the cache lacks, through slots that it lends or through memory of their own.
TEST_P(GpuArchGolden, FloatPathAgreesWhenPromptsStreamExperts) {
  const GoldenModel golden = load_arch_golden(std::get<0>(GetParam()));
  for (const bool borrow : {true, false}) {
    EngineConfig config = gpu_config(slots_of(golden, 50));
    config.stream_rows = 2;
    config.prefill_borrow = borrow;
    Stats stats;
    const double worst = worst_difference(golden, config, std::get<1>(GetParam()), nullptr, &stats);
    EXPECT_GE(worst, 0);
    EXPECT_LE(worst, golden.limit) << (borrow ? "borrowed" : "own memory");
    const bool decode = std::get<1>(GetParam()) == Cut::kChunksOf1;
    EXPECT_EQ(stats.get(Counter::kStreamedExperts) > 0, !decode);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuArchGolden,
                         testing::Combine(testing::Values("qwen3moe", "gpt-oss", "qwen3next"),
                                          testing::ValuesIn(kCuts)),
                         [](const auto& row) {
                           return safe(std::get<0>(row.param)) + cut_name(std::get<1>(row.param));
                         });

class GpuQuantGolden : public testing::TestWithParam<const char*> {};

TEST_P(GpuQuantGolden, FloatPathAgreesWithTheExactRun) {
  const GoldenModel golden = load_model_golden(GetParam());
  for (const int percent : kPercents) {
    for (const Cut cut : {Cut::kWhole, Cut::kChunksOf7, Cut::kChunksOf64}) {
      const double worst = worst_difference(golden, gpu_config(slots_of(golden, percent)), cut);
      EXPECT_GE(worst, 0);
      EXPECT_LE(worst, golden.limit) << percent << " % cached, " << cut_name(cut);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuQuantGolden, testing::Values("Q8_0", "Q4_K_M", "IQ4_XS", "IQ3_S"),
                         [](const auto& row) { return std::string(row.param); });

TEST(GpuDemoGolden, FloatPathAgreesWhereverExpertsAre) {
  const GoldenModel golden = load_demo_golden();
  for (const ExpertPlace place :
       {ExpertPlace::kArena, ExpertPlace::kResident, ExpertPlace::kMapped, ExpertPlace::kDirect}) {
    for (const int percent : kPercents) {
      for (const Cut cut : {Cut::kWhole, Cut::kChunksOf1}) {
        EngineConfig config = gpu_config(slots_of(golden, percent));
        config.experts = place;
        config.adapt_every = 2;
        const double worst = worst_difference(golden, config, cut);
        EXPECT_GE(worst, 0);
        EXPECT_LE(worst, golden.limit) << static_cast<int>(place) << ", " << percent << " % cached, " << cut_name(cut);
      }
    }
  }
}

// A step that is cancelled between two layers leaves the device ready for the next, which is right.
TEST(GpuEngine, ACancelledStepIsFollowedByARightOne) {
  const GoldenModel golden = load_arch_golden("qwen3moe");
  const auto model = open_golden(golden);
  for (const int percent : kPercents) {
    Stats stats;
    auto opened = engine::Engine::open(*model, gpu_config(slots_of(golden, percent)), stats);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    engine::Engine& engine = **opened;
    const std::vector<int32_t>& ids = golden.sequences[0].ids;
    const auto run = [&](std::vector<float>& logits) -> Status {
      ASSIGN_OR_RETURN(model::SequenceState state, engine.make_sequence());
      RETURN_IF_ERROR(engine.prefill(state, std::span(ids).first(20), {}));
      const int32_t last[] = {19};
      return engine.logits(last, [&](int64_t, std::span<const float> row) -> Status {
        logits.assign(row.begin(), row.end());
        return {};
      });
    };
    std::vector<float> before, after;
    ASSERT_TRUE(run(before).ok());
    int asked = 0;
    engine.set_interrupt([&] { return ++asked >= 2; });
    const Status cancelled = run(after);
    ASSERT_FALSE(cancelled.ok());
    EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
    engine.set_interrupt({});
    ASSERT_TRUE(run(after).ok());
    EXPECT_EQ(before, after) << percent << " % cached";
  }
}

}  // namespace
}  // namespace strata::test
