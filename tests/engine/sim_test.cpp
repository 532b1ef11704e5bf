// Models on a simulated device, with none, a quarter and all of their experts in its cache: the bits of cpu, however
// the prompt is cut and batched, with and without graphs.
#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "engine/golden_check.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using testing::HasSubstr;

const char* const kArchs[] = {"qwen3moe", "gpt-oss", "qwen3next"};

EngineConfig sim_config(int64_t slots, int seed) {
  EngineConfig config = test_config();
  config.device = format("sim:256MiB/seed={}", seed);
  config.expert_cache = slots;
  config.cache_min_slots = 1;
  return config;
}

std::unique_ptr<gguf::Model> open_golden(const GoldenModel& golden) {
  return gguf::Model::open(golden.path, real_file_system()).value();
}

int64_t n_experts(const GoldenModel& golden) {
  const auto model = open_golden(golden);
  const model::ArchInfo* info = model::find_architecture(*model).value();
  const model::HParams hp = info->read(model::Keys(*model, info->name)).value();
  return int64_t{hp.n_layers} * hp.route.n_experts;
}

class SimGolden : public testing::TestWithParam<const char*> {};

TEST_P(SimGolden, GivesTheBitsOfCpuWhateverIsCached) {
  const GoldenModel golden = load_arch_golden(GetParam());
  const int64_t all = n_experts(golden);
  struct Way {
    Cut cut;
    int64_t slots;
    bool graphs;
  };
  std::vector<Way> ways = {{Cut::kWhole, all, false},
                           {Cut::kChunksOf7, 0, true},
                           {Cut::kChunksOf7, all / 4, true},
                           {Cut::kBatchOfThree, all / 4, false},
                           {Cut::kBatchOfThree, all, true}};
  // Recurrent state is copied to a checkpoint and back.
  if (GetParam() == std::string("qwen3next")) ways.push_back({Cut::kCheckpoint, all / 4, true});
  int seed = 1;
  for (const Way& way : ways) {
    std::vector<float> expected, found;
    ASSERT_GE(worst_difference(golden, test_config(), way.cut, &expected), 0);
    EngineConfig config = sim_config(way.slots, seed++);
    config.use_graphs = way.graphs;
    const double worst = worst_difference(golden, config, way.cut, &found);
    ASSERT_GE(worst, 0) << config.device;
    EXPECT_LE(worst, golden.limit);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
        << cut_name(way.cut) << ", " << way.slots << " slots, " << config.device;
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

INSTANTIATE_TEST_SUITE_P(All, SimGolden, testing::ValuesIn(kArchs), [](const auto& row) {
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
  run(sim_config(experts_ / 4, 1));
  EXPECT_EQ(uploads_, experts_ / 4);
  EXPECT_GT(counted(Counter::kCacheHits), 0);
  EXPECT_GT(counted(Counter::kCacheMisses), 0);
  EXPECT_EQ(counted(Counter::kCacheHits) + counted(Counter::kCacheMisses), pairs_);
  EXPECT_EQ(counted(Counter::kExpertRows), counted(Counter::kCacheMisses));
  EXPECT_THAT(described_, HasSubstr(format("{} of them cached", experts_ / 4)));

  run(sim_config(experts_, 1));
  EXPECT_EQ(counted(Counter::kCacheHits), pairs_);
  EXPECT_EQ(counted(Counter::kExpertRows), 0);

  run(sim_config(0, 1));
  EXPECT_EQ(uploads_, 0);
  EXPECT_EQ(counted(Counter::kCacheHits), 0);
  EXPECT_EQ(counted(Counter::kExpertRows), pairs_);
}

TEST_F(SimEngine, AutoFillsWhatTheDeviceHasLeft) {
  EngineConfig config = sim_config(0, 1);
  config.expert_cache.reset();
  run(config);
  EXPECT_EQ(uploads_, experts_);

  config.device = "sim:5MiB";
  config.context = 96;
  config.chunk = 16;
  config.max_sequences = 1;
  config.max_checkpoints = 0;
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
  config.device = "sim:5MiB";
  config.context = 96;
  config.chunk = 16;
  config.max_sequences = 1;
  config.max_checkpoints = 0;
  config.experts = engine::ExpertPlace::kMapped;
  config.ram_bytes = 64 * kKiB;
  EXPECT_THAT(refusal(config), HasSubstr("of RAM that may be used"));
  config = sim_config(0, 1);
  config.device = "sim:64MiB,64MiB";
  EXPECT_THAT(refusal(config), HasSubstr("one device"));
  config.device = "sim:64";
  EXPECT_THAT(refusal(config), HasSubstr("--device"));
  EXPECT_EQ(stats_.get(Counter::kFileReads), 0);
}

// What is planned is what is allocated: at the smallest budget that is not refused, the model loads and runs.
TEST_F(SimEngine, TheSmallestDeviceThatIsNotRefusedServes) {
  EngineConfig config = sim_config(experts_, 1);
  config.context = 96;
  config.chunk = 16;
  config.max_sequences = 1;
  config.max_checkpoints = 0;
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

// What a request gives: the logits of its last row, or an error.
Result<std::vector<float>> request(Engine& engine, std::span<const int32_t> ids) {
  ASSIGN_OR_RETURN(auto sequence, engine.make_sequence());
  RETURN_IF_ERROR(engine.prefill(sequence, ids, {}));
  std::vector<float> last;
  const auto row = static_cast<int32_t>((ids.size() - 1) % static_cast<size_t>(engine.max_rows()));
  RETURN_IF_ERROR(engine.logits(std::span(&row, 1), [&](int64_t, std::span<const float> logits) -> Status {
    last.assign(logits.begin(), logits.end());
    return {};
  }));
  return last;
}

// The n-th thing that can fail does, for every n until nothing is left to fail: opening ends with an error, or one
// request does; the next one gives the right bits, and afterwards all sequences and all of the context can be had.
TEST_F(SimEngine, WhateverFailsEndsOneRequest) {
  EngineConfig config = sim_config(experts_ / 4, 1);
  config.context = 16;
  config.chunk = 8;
  config.max_sequences = 1;
  config.max_checkpoints = 0;
  const std::vector<int32_t> ids(golden_.sequences[1].ids.begin(), golden_.sequences[1].ids.begin() + 11);
  const std::vector<float> expected = request(*Engine::open(*model_, config, stats_).value(), ids).value();
  const std::string device = config.device;
  int opens = 0, requests = 0;
  for (int n = 1;; n++) {
    SCOPED_TRACE(n);
    ASSERT_LT(n, 5000);
    config.device = format("{}/fail={}", device, n);
    auto opened = Engine::open(*model_, config, stats_);
    if (!opened.ok()) {
      EXPECT_FALSE(opened.error().message.empty());
      opens++;
      continue;
    }
    Engine& engine = **opened;
    const auto first = request(engine, ids);
    if (!first.ok()) {
      EXPECT_FALSE(first.error().message.empty());
      requests++;
    }
    const auto next = request(engine, ids);
    if (first.ok() && !next.ok()) break;  // past everything that the first request can meet
    ASSERT_TRUE(next.ok()) << next.error().message;
    EXPECT_EQ(next.value(), expected);
    if (first.ok()) break;
    EXPECT_TRUE(request(engine, std::vector<int32_t>(16, ids[0])).ok());
  }
  EXPECT_GT(opens, 10);
  EXPECT_GT(requests, 50);
}

}  // namespace
}  // namespace strata::test
