// Models on a simulated device, with none, a quarter and all of their experts in its cache, the others on the CPU or
// streamed: the bits of cpu, however the prompt is cut and batched, with and without graphs.
#include <algorithm>
#include <cstring>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sim_support.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using testing::HasSubstr;

class SimGolden : public testing::TestWithParam<const char*> {
 protected:
  // The log-probabilities of a way of running the model, which have to be those of the reference.
  void run(const GoldenModel& golden, const EngineConfig& config, Cut cut, std::vector<float>& bits) {
    const double worst = worst_difference(golden, config, cut, &bits, &stats_);
    ASSERT_GE(worst, 0);
    EXPECT_LE(worst, golden.limit);
  }
  int64_t counted(Counter counter) const { return stats_.get(counter); }
  Stats stats_;
};

struct Way {
  Cut cut;
  int64_t quarters;  // of the experts are cached
  bool graphs = true;
  bool borrows = true;
  int64_t stream_rows = 1000;  // with 5, all chunks of 7 but a last one stream, and nearly all batches of three
};
constexpr Way kWays[] = {
    {Cut::kWhole, 4, false},
    {Cut::kChunksOf7, 0},
    {Cut::kChunksOf7, 1},
    {Cut::kBatchOfThree, 1, false},
    {Cut::kBatchOfThree, 4},
    {.cut = Cut::kWhole, .quarters = 1, .stream_rows = 16},
    {.cut = Cut::kWhole, .quarters = 0, .graphs = false, .stream_rows = 16},
    {.cut = Cut::kChunksOf7, .quarters = 0, .stream_rows = 5},
    {.cut = Cut::kChunksOf7, .quarters = 1, .graphs = false, .stream_rows = 5},
    {.cut = Cut::kChunksOf7, .quarters = 1, .borrows = false, .stream_rows = 7},
    {.cut = Cut::kBatchOfThree, .quarters = 1, .stream_rows = 5},
    {.cut = Cut::kBatchOfThree, .quarters = 0, .graphs = false, .stream_rows = 5},
    {.cut = Cut::kBatchOfThree, .quarters = 4, .graphs = false, .stream_rows = 5},
    {Cut::kChunksOf1, 1},
    {.cut = Cut::kChunksOf64, .quarters = 1, .stream_rows = 16},
    {Cut::kCheckpoint, 1},
    {.cut = Cut::kCheckpoint, .quarters = 1, .stream_rows = 13},
};

TEST_P(SimGolden, GivesTheBitsOfCpuWhateverIsCachedAndStreamed) {
  const GoldenModel golden = load_arch_golden(GetParam());
  const int64_t all = n_experts(golden);
  std::map<Cut, std::vector<float>> expected;
  int seed = 1;
  for (const Way& way : kWays) {
    EngineConfig config = sim_config(all * way.quarters / 4, seed++);
    config.use_graphs = way.graphs;
    config.stream_rows = way.stream_rows;
    config.prefill_borrow = way.borrows;
    if (way.borrows && way.quarters > 0) config = lending(config, golden);
    SCOPED_TRACE(format("{}, {} slots, {}", cut_name(way.cut), *config.expert_cache, config.device));
    std::vector<float>& right = expected[way.cut];
    if (right.empty()) run(golden, test_config(), way.cut, right);
    std::vector<float> found;
    stats_.reset();
    run(golden, config, way.cut, found);
    ASSERT_EQ(found.size(), right.size());
    EXPECT_EQ(std::memcmp(found.data(), right.data(), found.size() * sizeof(float)), 0);

    const bool streams = way.stream_rows < 1000 && way.quarters < 4;
    EXPECT_EQ(counted(Counter::kCacheMisses) > 0, way.quarters < 4);
    EXPECT_EQ(counted(Counter::kStreamedExperts) > 0, streams);
    EXPECT_EQ(counted(Counter::kStreamedRows) > 0, streams);
    EXPECT_EQ(counted(Counter::kCacheLoans) > 0, streams && way.borrows && way.quarters > 0);
    EXPECT_EQ(counted(Counter::kCacheHits) > 0, way.quarters > 0);
  }
}

// The cache of cpu serves no speed, but goes the same way.
void expect_same_bits_with_a_cache(const GoldenModel& golden, EngineConfig config, Cut cut) {
  std::vector<float> expected, found;
  ASSERT_GE(worst_difference(golden, config, cut, &expected), 0);
  config.expert_cache = n_experts(golden) / 2;
  ASSERT_GE(worst_difference(golden, config, cut, &found), 0);
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << cut_name(cut);
}

TEST_P(SimGolden, ACacheOnCpuGivesTheSameBits) {
  expect_same_bits_with_a_cache(load_arch_golden(GetParam()), test_config(), Cut::kChunksOf7);
}

// Integer products of rounded rows are the same in groups of any size, too.
TEST(CachedFastPath, ACacheOnCpuGivesTheSameBits) {
  EngineConfig config = test_config();
  config.round_activations = true;
  for (const char* type : {"Q8_0", "Q4_K_M"}) {
    for (const Cut cut : {Cut::kWhole, Cut::kChunksOf1}) {
      expect_same_bits_with_a_cache(load_model_golden(type), config, cut);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SimGolden, testing::ValuesIn(kGoldenArchs), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class SimEngine : public testing::Test {
 protected:
  // Runs a prompt; the counters are those of its one step.
  void run(const EngineConfig& config) {
    auto opened = Engine::open(*model_, config, stats_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    Engine& engine = **opened;
    described_ = engine.describe();
    uploads_ = stats_.get(Counter::kCacheUploads);
    stats_.reset();
    auto sequence = engine.make_sequence().value();
    const Status status = engine.prefill(sequence, golden_.sequences[1].ids, {});
    EXPECT_TRUE(status.ok());
    layers_ = engine.hparams().n_layers;
    pairs_ = static_cast<int64_t>(golden_.sequences[1].ids.size()) * layers_ * engine.hparams().route.n_used;
  }
  int64_t counted(Counter counter) const { return stats_.get(counter); }

  GoldenModel golden_ = load_arch_golden("qwen3moe");
  std::unique_ptr<gguf::Model> model_ = open_golden(golden_);
  const int64_t experts_ = n_experts(golden_);
  Stats stats_;
  std::string described_;
  int64_t uploads_ = 0, layers_ = 0, pairs_ = 0;
};

TEST_F(SimEngine, CountersSayWhereExpertsWereComputed) {
  EngineConfig config = sim_config(experts_ / 4, 1);
  config.stream_rows = 1000;
  run(config);
  EXPECT_EQ(uploads_, experts_ / 4);
  EXPECT_GT(counted(Counter::kCacheHits), 0);
  EXPECT_GT(counted(Counter::kCacheMisses), 0);
  EXPECT_EQ(counted(Counter::kCacheHits) + counted(Counter::kCacheMisses), pairs_);
  EXPECT_EQ(counted(Counter::kExpertRows) + counted(Counter::kLinkedRows), counted(Counter::kCacheMisses));
  EXPECT_EQ(counted(Counter::kCacheLoans), 0);
  EXPECT_THAT(described_, HasSubstr(format("{} of them cached", experts_ / 4)));

  config.expert_cache = experts_;
  run(config);
  EXPECT_EQ(counted(Counter::kCacheHits), pairs_);
  EXPECT_EQ(counted(Counter::kExpertRows), 0);

  config.expert_cache = 0;
  run(config);
  EXPECT_EQ(uploads_, 0);
  EXPECT_EQ(counted(Counter::kCacheHits), 0);
  EXPECT_EQ(counted(Counter::kExpertRows) + counted(Counter::kLinkedRows), pairs_);

  config.pcie_frac = 0;
  run(config);
  EXPECT_EQ(counted(Counter::kExpertRows), pairs_) << "the link is left alone";
}

TEST_F(SimEngine, AutoFillsWhatTheDeviceHasLeft) {
  EngineConfig config = sim_config(0, 1);
  config.expert_cache.reset();
  run(config);
  EXPECT_EQ(uploads_, experts_);

  config = small_sim_config(0, 96, 16);
  config.expert_cache.reset();
  config.device = "sim:5MiB";
  run(config);
  EXPECT_GT(counted(Counter::kCacheHits) + counted(Counter::kCacheMisses), 0);
}

TEST_F(SimEngine, WhatDoesNotFitIsSaidBeforeAnythingIsLoaded) {
  const auto refusal = [&](const EngineConfig& config) {
    auto engine = Engine::open(*model_, config, stats_);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? std::string() : engine.error().message;
  };
  EngineConfig config = sim_config(0, 1);
  config.device = "sim:64KiB";
  EXPECT_THAT(refusal(config), testing::AllOf(HasSubstr("64 KiB of sim:0"), HasSubstr("--ctx")));
  config = small_sim_config(0, 96, 16);
  config.device = "sim:5MiB";
  config.experts = engine::ExpertPlace::kMapped;
  config.ram_bytes = 64 * kKiB;
  EXPECT_THAT(refusal(config), HasSubstr("of RAM that it needs beside its experts do not fit into the 64 KiB"));
  config = sim_config(0, 1);
  config.device = "sim:2x64KiB";
  EXPECT_THAT(refusal(config), testing::AllOf(HasSubstr("64 KiB of sim:"), HasSubstr("--ctx")));
  config.device = "sim:64";
  EXPECT_THAT(refusal(config), HasSubstr("--device"));
  EXPECT_EQ(stats_.get(Counter::kFileReads), 0);
}

// What is planned is what is allocated: at the smallest budget that is not refused, the model loads and runs.
TEST_F(SimEngine, TheSmallestDeviceThatIsNotRefusedServes) {
  EngineConfig config = small_sim_config(experts_, 96, 16);
  int too_small = 64, enough = 64 * 1024;  // KiB
  std::string refusal;
  while (enough - too_small > 1) {
    const int kib = (too_small + enough) / 2;
    config.device = format("sim:{}KiB", kib);
    auto engine = Engine::open(*model_, config, stats_);
    (engine.ok() ? enough : too_small) = kib;
    if (!engine.ok()) refusal = engine.error().message;
    EXPECT_TRUE(engine.ok() || engine.error().code == ErrorCode::kNoMemory) << refusal;
  }
  EXPECT_THAT(refusal, HasSubstr(format("--expert-cache {}: sim:0 has room for {} slots", experts_, experts_ - 1)));
  config.device = format("sim:{}KiB", enough);
  run(config);
  EXPECT_EQ(counted(Counter::kCacheHits), pairs_);
}

}  // namespace
}  // namespace strata::test
