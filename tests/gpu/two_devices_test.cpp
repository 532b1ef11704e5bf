// Models split over two CUDA devices, whose hidden rows take the way between peers, or through pinned memory. Skipped
// where there is one device.
#include <cstring>
#include <fstream>

#include <gmock/gmock.h>

#include "engine/hand_off_steps.h"
#include "engine/sim_support.h"
#include "gpu/support.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using engine::ExpertPlace;

bool two_devices() { return device::cuda::open_gpu(1, {}).ok(); }
#define SKIP_UNLESS_TWO_DEVICES() \
  if (!two_devices()) GTEST_SKIP() << "there is one device"

EngineConfig split_config(int64_t slots, std::vector<int> split, bool peer_copies) {
  EngineConfig config = test_config();
  config.device = split.size() > 1 ? "cuda:0,1" : "cuda:0";
  config.layer_split = std::move(split);
  config.expert_cache = slots;
  config.cache_min_slots = 1;
  config.peer_copies = peer_copies;
  return config;
}

class GpuHandOff : public testing::TestWithParam<bool> {};

TEST_P(GpuHandOff, RowsArriveInOrderWithoutAWaitBetween) {
  SKIP_UNLESS_TWO_DEVICES();
  const bool peers = GetParam();
  const auto a = device::cuda::open_gpu(0, {.peer_copies = peers}).value();
  const auto b = device::cuda::open_gpu(1, {.peer_copies = peers}).value();
  if (peers && !(a->reaches(*b) && b->reaches(*a))) GTEST_SKIP() << "the devices don't reach each other";
  EXPECT_EQ(a->reaches(*b), peers);
  EXPECT_TRUE(a->reaches(*a));
  for (int round = 0; round < 20; round++) {
    for (const bool back : {false, true}) {
      const HandOffRun run = back ? hand_over(*b, *a) : hand_over(*a, *b);
      EXPECT_EQ(run.error, "");
      EXPECT_EQ(run.arrived, run.sent);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuHandOff, testing::Bool(),
                         [](const auto& row) { return row.param ? "Peers" : "ThroughPinnedMemory"; });

// 0, 25 and 100 percent of the experts lie in caches.
TEST(GpuSplit, FloatPathAgreesWhereverItIsSplit) {
  SKIP_UNLESS_TWO_DEVICES();
  for (const char* arch : kGoldenArchs) {
    const GoldenModel golden = load_arch_golden(arch);
    const int layers = n_layers(golden);
    for (int first = 1; first < layers; first++) {
      for (const int percent : {0, 25, 100}) {
        const bool peers = (first + percent) % 2 == 0;
        EngineConfig config = split_config(n_experts(golden) * percent / 200, {first, layers - first}, peers);
        config.stream_rows = 8;
        const double worst = worst_difference(golden, config, percent == 25 ? Cut::kChunksOf7 : Cut::kWhole);
        EXPECT_GE(worst, 0);
        EXPECT_LE(worst, golden.limit) << arch << ", " << first << " layers first, " << percent << " % cached";
      }
    }
  }
}

// The logits of the last row of a prompt that goes through the parts in chunks.
std::vector<float> last_logits(const gguf::Model& model, const EngineConfig& config, std::span<const int32_t> ids) {
  Stats stats;
  auto opened = Engine::open(model, config, stats);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  std::vector<float> last;
  if (!opened.ok()) return last;
  auto sequence = (*opened)->make_sequence().value();
  const Status status = (*opened)->prefill(sequence, ids, [&](int64_t first, int64_t n) -> Status {
    if (first + n < std::ssize(ids)) return {};
    const auto row = static_cast<int32_t>(n - 1);
    return (*opened)->logits({&row, 1}, [&](int64_t, std::span<const float> logits) -> Status {
      last.assign(logits.begin(), logits.end());
      return {};
    });
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return last;
}

TEST(GpuSplit, DeterministicBitsAreThoseOfOneDevice) {
  SKIP_UNLESS_TWO_DEVICES();
  for (const char* name : {"qwen3moe", "gpt-oss", "qwen3next", "demo"}) {
    const GoldenModel golden = std::string(name) == "demo" ? load_demo_golden() : load_arch_golden(name);
    const auto model = open_golden(golden);
    std::vector<int32_t> ids(333);
    for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<int32_t>((13 * i + 5) % 500);
    const int layers = n_layers(golden);
    const auto config_of = [&](std::vector<int> split, bool peers) {
      EngineConfig config = split_config(n_experts(golden), std::move(split), peers);
      config.deterministic = true;
      config.chunk = 32;
      return config;
    };
    const std::vector<float> one = last_logits(*model, config_of({}, true), ids);
    ASSERT_FALSE(one.empty());
    for (int first = 1; first < layers; first++) {
      const bool peers = first % 2 == 0;
      EXPECT_EQ(last_logits(*model, config_of({first, layers - first}, peers), ids), one)
          << name << ", " << first << " layers first, " << (peers ? "peers" : "through pinned memory");
    }
  }
}

TEST(GpuSplit, TheDemoAgreesWhereverExpertsAre) {
  SKIP_UNLESS_TWO_DEVICES();
  const GoldenModel golden = load_demo_golden();
  for (const ExpertPlace place : {ExpertPlace::kArena, ExpertPlace::kResident, ExpertPlace::kDirect}) {
    for (int first = 1; first < n_layers(golden); first += 2) {
      EngineConfig config = split_config(n_experts(golden) / 8, {first, n_layers(golden) - first}, true);
      config.experts = place;
      config.adapt_every = 2;
      config.stream_rows = 8;
      const double worst = worst_difference(golden, config, Cut::kChunksOf7);
      EXPECT_GE(worst, 0);
      EXPECT_LE(worst, golden.limit) << static_cast<int>(place) << ", " << first << " layers first";
    }
  }
}

// A prompt that is cancelled on either device ends the steps on both, and the next one is right.
TEST(GpuSplit, AFailingPartEndsTheRequestAndTheNextOneIsRight) {
  SKIP_UNLESS_TWO_DEVICES();
  const GoldenModel golden = load_demo_golden();
  const auto model = open_golden(golden);
  EngineConfig config = split_config(n_experts(golden) / 4, {3, 5}, true);
  config.chunk = 32;
  config.stream_rows = 8;
  Stats stats;
  const auto engine = Engine::open(*model, config, stats).value();
  std::vector<int32_t> ids(300);
  for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<int32_t>((7 * i + 3) % 500);
  const auto run = [&](std::vector<float>& logits) -> Status {
    ASSIGN_OR_RETURN(model::SequenceState state, engine->make_sequence());
    RETURN_IF_ERROR(engine->prefill(state, ids, {}));
    const int32_t last[] = {static_cast<int32_t>((ids.size() - 1) % 32)};
    return engine->logits(last, [&](int64_t, std::span<const float> row) -> Status {
      logits.assign(row.begin(), row.end());
      return {};
    });
  };
  std::vector<float> before, after;
  ASSERT_TRUE(run(before).ok());
  for (const int layer : {1, 4, 20, 41}) {
    std::atomic<int> asked = 0;
    engine->set_interrupt([&] { return ++asked > layer; });
    const Status cancelled = run(after);
    ASSERT_FALSE(cancelled.ok());
    EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
    engine->set_interrupt({});
    EXPECT_EQ(stats.get(Counter::kKvBlocksUsed), 0);
    const Status next = run(after);
    ASSERT_TRUE(next.ok()) << next.error().message;
    EXPECT_EQ(before, after) << "after the interrupt before layer " << layer;
  }
}

}  // namespace
}  // namespace strata::test
