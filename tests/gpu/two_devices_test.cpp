// Models split over two CUDA devices, whose hidden rows take the way between peers, or through pinned memory. Where
// there is one device, it is both: then nothing is learnt about peers, and all the rest is.
#include <cstring>
#include <filesystem>
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

EngineConfig split_config(int64_t slots, std::vector<int> split, bool peer_copies) {
  EngineConfig config = test_config();
  config.device = split.size() > 1 ? format("cuda:0,{}", second_gpu()) : "cuda:0";
  config.vram_budget = "4";
  config.layer_split = std::move(split);
  config.expert_cache = slots;
  config.cache_min_slots = 1;
  config.peer_copies = peer_copies;
  return config;
}

class GpuHandOff : public testing::TestWithParam<bool> {};

TEST_P(GpuHandOff, RowsArriveInOrderWithoutAWaitBetween) {
  const bool peers = GetParam();
  const auto a = device::cuda::open_gpu(0, {.peer_copies = peers}).value();
  const auto b = device::cuda::open_gpu(second_gpu(), {.peer_copies = peers}).value();
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

// A split of the demo whose prompts take ten chunks.
class GpuSplitRequest : public testing::Test {
 protected:
  GpuSplitRequest() {
    for (size_t i = 0; i < ids_.size(); i++) ids_[i] = static_cast<int32_t>((7 * i + 3) % 500);
    config_.chunk = 32;
    config_.stream_rows = 8;
  }
  Status run(Engine& engine, std::vector<float>& logits) const {
    ASSIGN_OR_RETURN(model::SequenceState state, engine.make_sequence());
    RETURN_IF_ERROR(engine.prefill(state, ids_, {}));
    const int32_t last[] = {static_cast<int32_t>((ids_.size() - 1) % 32)};
    return engine.logits(last, [&](int64_t, std::span<const float> row) -> Status {
      logits.assign(row.begin(), row.end());
      return {};
    });
  }
  void expect_nothing_left() const {
    EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), 0);
    EXPECT_EQ(stats_.get(Counter::kCacheLentSlots), 0);
  }

  const GoldenModel golden_ = load_demo_golden();
  EngineConfig config_ = split_config(n_experts(golden_) / 4, {3, 5}, true);
  std::vector<int32_t> ids_ = std::vector<int32_t>(300);
  Stats stats_;
};

// A prompt that is cancelled on either device ends the steps on both, and the next one is right.
TEST_F(GpuSplitRequest, ACancelledPartEndsItAndTheNextOneIsRight) {
  const auto model = open_golden(golden_);
  const auto engine = Engine::open(*model, config_, stats_).value();
  std::vector<float> before, after;
  ASSERT_TRUE(run(*engine, before).ok());
  for (const int layer : {1, 4, 20, 41}) {
    std::atomic<int> asked = 0;
    engine->set_interrupt([&] { return ++asked > layer; });
    const Status cancelled = run(*engine, after);
    ASSERT_FALSE(cancelled.ok());
    EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
    engine->set_interrupt({});
    expect_nothing_left();
    const Status next = run(*engine, after);
    ASSERT_TRUE(next.ok()) << next.error().message;
    EXPECT_EQ(before, after) << "after the interrupt before layer " << layer;
  }
}

// Experts that one part asks for in mid-prompt can't be read: its stream fails, and the other part is freed. The file
// ends in the middle from the second chunk on, so that the parts fail in turn, wherever they come to what is missing.
TEST_F(GpuSplitRequest, AFailingPartEndsItAndTheNextOneIsRight) {
  const TempDir folder;
  const std::string path = folder.file("model.gguf");
  std::filesystem::copy_file(golden_.path, path);
  const auto bytes = std::filesystem::file_size(path);
  const auto model = gguf::Model::open(path, real_file_system()).value();
  config_.experts = ExpertPlace::kDirect;
  for (const int64_t stream_rows : {int64_t{8}, int64_t{1000}}) {  // or the CPU computes what the caches lack
    config_.stream_rows = stream_rows;
    const auto engine = Engine::open(*model, config_, stats_).value();
    std::vector<float> before, after;
    ASSERT_TRUE(run(*engine, before).ok());
    for (const uint64_t part : {uint64_t{3}, uint64_t{6}}) {  // eighths of the file that are left
      std::atomic<int> asked = 0;
      engine->set_interrupt([&] {
        if (++asked == 20) std::filesystem::resize_file(path, bytes * part / 8);
        return false;
      });
      const Status failed = run(*engine, after);
      engine->set_interrupt({});
      ASSERT_FALSE(failed.ok());
      EXPECT_EQ(failed.error().code, ErrorCode::kIo) << failed.error().message;
      expect_nothing_left();
      std::filesystem::copy_file(golden_.path, path, std::filesystem::copy_options::overwrite_existing);
      const Status next = run(*engine, after);
      ASSERT_TRUE(next.ok()) << next.error().message;
      EXPECT_EQ(before, after) << part << " eighths were left";
    }
  }
}

}  // namespace
}  // namespace strata::test
