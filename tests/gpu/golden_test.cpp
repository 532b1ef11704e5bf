// Whole models on a CUDA device against independent references: the CPU's tolerances on the float path, however many
// experts lie in the device's cache, wherever the others come from and however a prompt is cut.
#include <cstring>

#include <gtest/gtest.h>

#include "device/cuda/cuda.h"
#include "engine/fast_path_check.h"
#include "engine/sim_support.h"
#include "gpu/lending.h"
#include "model/dense_copy.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using engine::ExpertPlace;

constexpr Cut kCuts[] = {Cut::kWhole,      Cut::kChunksOf1,    Cut::kChunksOf7,
                         Cut::kChunksOf64, Cut::kBatchOfThree, Cut::kCheckpoint};
constexpr int kPercents[] = {0, 25, 100};  // of the experts, that lie in the cache
constexpr uint64_t kBudgetGib = 4;

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
  const auto run = [&](int percent, bool graphs) {
    EngineConfig config = gpu_config(slots_of(golden, percent));
    config.use_graphs = graphs;
    const double worst = worst_difference(golden, config, std::get<1>(GetParam()));
    EXPECT_GE(worst, 0);
    EXPECT_LE(worst, golden.limit) << percent << " % cached" << (graphs ? ", graphs" : ", no graphs");
    RecordProperty(format("cached_{}{}", percent, graphs ? "_graphs" : ""), std::to_string(worst));
  };
  for (const int percent : kPercents) run(percent, true);
  run(25, false);
}

// Prompts stream what the cache lacks, through slots that it lends or through memory of their own.
TEST_P(GpuArchGolden, FloatPathAgreesWhenPromptsStreamExperts) {
  const GoldenModel golden = load_arch_golden(std::get<0>(GetParam()));
  const bool decode = std::get<1>(GetParam()) == Cut::kChunksOf1;
  for (const bool borrow : {true, false}) {
    EngineConfig config = gpu_config(slots_of(golden, 25));
    config.stream_rows = 2;
    config.prefill_borrow = borrow;
    if (borrow) config = lending_gpu(config, golden, kBudgetGib);
    Stats stats;
    const double worst = worst_difference(golden, config, std::get<1>(GetParam()), nullptr, &stats);
    EXPECT_GE(worst, 0);
    EXPECT_LE(worst, golden.limit) << (borrow ? "borrowed" : "own memory");
    EXPECT_EQ(stats.get(Counter::kStreamedExperts) > 0, !decode);
    EXPECT_EQ(stats.get(Counter::kCacheLoans) > 0, !decode && borrow);
    EXPECT_GT(stats.get(Counter::kCacheHits), 0);
    EXPECT_GT(stats.get(Counter::kCacheMisses), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuArchGolden,
                         testing::Combine(testing::ValuesIn(kGoldenArchs), testing::ValuesIn(kCuts)),
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

// Models without experts, which the golden files lack: what cpu computes of a twin of a golden model.
TEST(GpuDenseGolden, FloatPathAgreesWithCpu) {
  const TempDir dir;
  for (const auto& [twin_of, arch] : {std::pair("llama", "llama"), std::pair("qwen3moe", "qwen3")}) {
    GoldenModel golden = load_arch_golden(twin_of);
    golden.path = dir.file("m.gguf");
    dense_twin(twin_of, 0, arch).write(golden.path);
    for (GoldenSequence& s : golden.sequences) s.counts.assign(s.ids.size(), true);
    std::vector<float> expected;
    ASSERT_GE(worst_difference(golden, test_config(), Cut::kWhole, &expected), 0);
    for (GoldenSequence& s : golden.sequences) {
      s.logprobs.assign(expected.begin(), expected.begin() + std::ssize(s.logprobs));
      expected.erase(expected.begin(), expected.begin() + std::ssize(s.logprobs));
    }
    for (const Cut cut : kCuts) {
      const double worst = worst_difference(golden, gpu_config(0), cut);
      EXPECT_GE(worst, 0);
      EXPECT_LE(worst, golden.limit) << arch << " " << cut_name(cut);
    }
  }
}

class GpuFastPath : public testing::TestWithParam<const char*> {};

TEST_P(GpuFastPath, StaysAsCloseAsThePeer) {
  for (const int percent : kPercents) {
    EngineConfig config = gpu_config(slots_of(load_model_golden(GetParam()), percent));
    config.kv_type = kernels::KvType::kF16;
    config.round_activations = true;
    expect_as_close_as_the_peer(GetParam(), config, format("cached_{}", percent));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuFastPath, testing::Values("Q8_0", "Q4_K_M", "IQ4_XS", "IQ3_S"),
                         [](const auto& row) { return std::string(row.param); });

// With all experts on the device, --deterministic gives the same bits for any cut, with graphs and without.
TEST(GpuDeterminism, BitsDoNotDependOnCutOrGraphs) {
  for (const char* arch : kFewArchs) {
    const GoldenModel golden = load_arch_golden(arch);
    EngineConfig config = gpu_config(slots_of(golden, 100));
    config.deterministic = true;
    std::vector<float> whole;
    ASSERT_GE(worst_difference(golden, config, Cut::kWhole, &whole), 0);
    for (const bool graphs : {true, false}) {
      config.use_graphs = graphs;
      for (const Cut cut : {Cut::kWhole, Cut::kChunksOf1, Cut::kChunksOf7, Cut::kChunksOf64, Cut::kCheckpoint}) {
        std::vector<float> bits;
        ASSERT_GE(worst_difference(golden, config, cut, &bits), 0);
        ASSERT_EQ(bits.size(), whole.size());
        EXPECT_EQ(std::memcmp(bits.data(), whole.data(), whole.size() * sizeof(float)), 0)
            << arch << " " << cut_name(cut) << (graphs ? ", graphs" : "");
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
    const std::vector<int32_t>& ids = golden.sequences[1].ids;
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
    const Status first = run(before);
    ASSERT_TRUE(first.ok()) << first.error().message;
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

// What the driver counts as free on the device.
uint64_t free_bytes() { return device::cuda::open_gpu(0, {.reserve_bytes = 0}).value()->budget_bytes(); }

TEST(GpuEngine, NothingIsAllocatedAfterTheStart) {
  const GoldenModel golden = load_demo_golden();
  const auto model = open_golden(golden);
  const uint64_t before = free_bytes();
  EngineConfig config = gpu_config(slots_of(golden, 50));
  config.chunk = 64;
  config.stream_rows = 32;
  config.vram_budget = std::to_string(kBudgetGib);
  Stats stats;
  auto opened = engine::Engine::open(*model, config, stats);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const uint64_t after_start = free_bytes();
  EXPECT_LE(before - after_start, kBudgetGib * kGiB);
  std::vector<int32_t> ids(512);
  for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<int32_t>(i * 37 % 500);
  for (const size_t n : {1, 2, 7, 31, 32, 63, 64, 65, 200, 512, 3}) {
    auto state = (*opened)->make_sequence();
    ASSERT_TRUE(state.ok());
    const Status status = (*opened)->prefill(*state, std::span(ids).first(n), {});
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(free_bytes(), after_start) << n << " tokens";
  }
  EXPECT_GT(stats.get(Counter::kStreamedExperts), 0);
}

}  // namespace
}  // namespace strata::test
