// Models split over several simulated devices: the bits of one device, whatever the split, the machine and the way to
// hand rows over, with counters that prove that each part streams, borrows and computes.
#include <atomic>
#include <cstring>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "engine/sim_support.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using testing::HasSubstr;

// STRATA_SPLIT_SEEDS: as many seeds are tried; the slow form of this test tries many.
constexpr int kSeeds = STRATA_SPLIT_SEEDS;

// Uneven devices, one of them behind a slow link.
struct Machine {
  const char* devices;
  std::vector<int> split;
};
const Machine kDemoMachines[] = {
    {"sim:256MiB,192MiB/link=2GiBps,64MiBps", {5, 3}},
    {"sim:96MiB,256MiB,128MiB/link=64MiBps,2GiBps,2GiBps", {1, 4, 3}},
    {"sim:4x128MiB/link=2GiBps,2GiBps,64MiBps,1GiBps", {2, 3, 1, 2}},
};

class Split : public testing::Test {
 protected:
  std::vector<float> bits_of(const GoldenModel& golden, const EngineConfig& config, Cut cut) {
    std::vector<float> bits;
    stats_.reset();
    EXPECT_GE(worst_difference(golden, config, cut, &bits, &stats_), 0);
    return bits;
  }
  int64_t counted(Counter counter) const { return stats_.get(counter); }
  static void expect_same(const std::vector<float>& found, const std::vector<float>& expected) {
    ASSERT_FALSE(expected.empty());
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
  }
  Stats stats_;
};

// A quarter of each part's experts is cached; chunks of 7 stream, a last smaller one does not.
TEST_F(Split, TheDemoModelGivesTheBitsOfOneDevice) {
  const GoldenModel golden = load_demo_golden();
  std::map<Cut, std::vector<float>> expected;
  for (const Cut cut : {Cut::kChunksOf7, Cut::kChunksOf1, Cut::kWhole}) {
    expected[cut] = bits_of(golden, test_config(), cut);
  }
  const int64_t experts = n_experts(golden);
  for (int seed = 1; seed <= kSeeds; seed++) {
    for (const Machine& machine : kDemoMachines) {
      EngineConfig config = sim_config(experts / 8 / 4, seed);
      config.device = format("{}/peer={}/seed={}", machine.devices, seed % 2 == 0 ? "off" : "1GiBps", seed);
      config.layer_split = machine.split;
      config.stream_rows = 5;
      config.use_graphs = seed % 3 != 0;
      const Cut cut = seed % 5 == 0 ? Cut::kChunksOf1 : seed % 7 == 0 ? Cut::kWhole : Cut::kChunksOf7;
      config = lending(config, golden);
      SCOPED_TRACE(format("{}, {}", config.device, cut_name(cut)));
      expect_same(bits_of(golden, config, cut), expected[cut]);
      EXPECT_GT(counted(Counter::kCacheHits), 0);
      EXPECT_GT(counted(Counter::kCacheMisses), 0);
      if (cut == Cut::kChunksOf1) continue;
      EXPECT_GT(counted(Counter::kStreamedExperts), 0);
      EXPECT_EQ(counted(Counter::kCacheLoans), std::ssize(machine.split)) << "each part lends once";
    }
  }
}

class SplitArch : public Split, public testing::WithParamInterface<const char*> {};

TEST_P(SplitArch, GivesTheBitsOfOneDevice) {
  const GoldenModel golden = load_arch_golden(GetParam());
  const int64_t experts = n_experts(golden);
  std::vector<Cut> cuts = {Cut::kWhole, Cut::kChunksOf1, Cut::kChunksOf7, Cut::kBatchOfThree, Cut::kCheckpoint};
  const int layers = n_layers(golden);
  int seed = 1;
  for (const Cut cut : cuts) {
    const std::vector<float> expected = bits_of(golden, test_config(), cut);
    for (const int64_t quarters : {0, 1, 4}) {
      for (const bool streams : {false, true}) {
        EngineConfig config = sim_config(experts * quarters / 4, seed);
        config.device = format("sim:64MiB,96MiB/peer={}/seed={}", seed % 2 == 0 ? "off" : "1GiBps", seed);
        config.layer_split = {1 + seed % (layers - 1), layers - 1 - seed % (layers - 1)};
        config.stream_rows = streams ? 5 : 1000;
        config.adapt_every = 1;
        config.use_graphs = seed % 4 != 0;
        seed++;
        if (quarters > 0) config = lending(config, golden);
        SCOPED_TRACE(format("{}, {} quarters, {}", cut_name(cut), quarters, config.device));
        expect_same(bits_of(golden, config, cut), expected);
        EXPECT_EQ(counted(Counter::kCacheHits) > 0, quarters > 0);
        EXPECT_EQ(counted(Counter::kExpertRows) + counted(Counter::kStreamedRows) > 0, quarters < 4);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SplitArch, testing::ValuesIn(kGoldenArchs), [](const auto& row) {
  std::string name = row.param;
  std::erase(name, '-');
  return name;
});

// What a run of a whole prompt gives: the logits of all rows, and what is told of the routing, in order.
struct PromptRun {
  std::vector<float> logits;
  std::vector<int32_t> routing;
  Status status;
};

class Recorder final : public experts::RoutingObserver {
 public:
  explicit Recorder(std::vector<int32_t>& all) : all_(all) {}
  void routed(int32_t layer, const device::In<int32_t>& ids) override {
    all_.push_back(layer);
    for (int64_t r = 0; r < ids.rows; r++) all_.insert(all_.end(), ids.row(r), ids.row(r) + ids.cols);
  }

 private:
  std::vector<int32_t>& all_;
};

// Chunks follow one another through the parts.
PromptRun run_prompt(Engine& engine, std::span<const int32_t> ids) {
  PromptRun run;
  Recorder recorder(run.routing);
  engine.routing().add(recorder);
  auto sequence = engine.make_sequence().value();
  run.status = engine.prefill(sequence, ids, [&](int64_t, int64_t n) -> Status {
    std::vector<int32_t> rows(static_cast<size_t>(n));
    std::iota(rows.begin(), rows.end(), 0);
    return engine.logits(rows, [&](int64_t, std::span<const float> logits) -> Status {
      run.logits.insert(run.logits.end(), logits.begin(), logits.end());
      return {};
    });
  });
  EXPECT_EQ(sequence.n_tokens() == std::ssize(ids), run.status.ok());
  engine.routing().remove(recorder);
  return run;
}

class SplitPrompt : public SplitArch {
 protected:
  EngineConfig config(const std::string& device) const {
    EngineConfig config = small_sim_config(experts_ / 8, 96, 7);
    config.device = device;
    config.stream_rows = 5;
    return config;
  }
  std::unique_ptr<Engine> open(const EngineConfig& config) {
    return open_engine(*model_, config, stats_);
  }
  std::vector<int> split(int first) const { return {first, layers_ - first}; }

  const GoldenModel golden_ = load_arch_golden(GetParam());
  const std::unique_ptr<gguf::Model> model_ = open_golden(golden_);
  const int64_t experts_ = n_experts(golden_);
  const int layers_ = n_layers(golden_);
  const std::vector<int32_t> ids_{golden_.sequences[2].ids.begin(), golden_.sequences[2].ids.begin() + 45};
};

TEST_P(SplitPrompt, ChunksThatFollowOneAnotherGiveTheSameBits) {
  EngineConfig cpu = config("cpu");
  cpu.expert_cache.reset();
  const auto alone = open(cpu);
  const PromptRun expected = run_prompt(*alone, ids_);
  ASSERT_TRUE(expected.status.ok());
  for (int seed = 1; seed <= 2 + kSeeds; seed++) {
    EngineConfig parts = config(format("sim:2x64MiB/peer={}/seed={}", seed % 2 == 0 ? "off" : "1GiBps", seed));
    parts.layer_split = split(1 + seed % (layers_ - 1));
    parts.use_graphs = seed % 3 != 0;
    if (seed % 4 == 3) parts.stream_rows = 1000;  // the CPU computes for both parts
    parts = lending(parts, golden_);
    SCOPED_TRACE(parts.device);
    const auto engine = open(parts);
    const PromptRun found = run_prompt(*engine, ids_);
    ASSERT_TRUE(found.status.ok()) << found.status.error().message;
    expect_same(found.logits, expected.logits);
    EXPECT_EQ(found.routing, expected.routing);
    EXPECT_EQ(counted(Counter::kSteps), 7);
    EXPECT_EQ(counted(Counter::kCacheLoans), seed % 4 == 3 ? 0 : 2);
    EXPECT_TRUE(engine->end_loan().ok());
    EXPECT_EQ(counted(Counter::kCacheLentSlots), 0);
  }
}

// Wherever a prompt is cancelled, all parts stop, and the next one is right.
TEST_P(SplitPrompt, ACancelledPromptEndsInAllParts) {
  EngineConfig cpu = config("cpu");
  cpu.expert_cache.reset();
  const auto alone = open(cpu);
  const PromptRun expected = run_prompt(*alone, ids_);
  EngineConfig parts = config("sim:2x64MiB/seed=3");
  parts.layer_split = split(2);
  for (const bool streams : {false, true}) {
    parts.stream_rows = streams ? 5 : 1000;
    const auto engine = open(lending(parts, golden_));
    int cancelled = 0;
    for (int after = 0;; after += 5) {
      std::atomic<int> asked{0};
      engine->set_interrupt([&] { return asked++ == after; });
      const PromptRun run = run_prompt(*engine, ids_);
      engine->set_interrupt(nullptr);
      if (run.status.ok()) break;
      cancelled++;
      EXPECT_EQ(run.status.error().code, ErrorCode::kCancelled) << run.status.error().message;
      EXPECT_EQ(counted(Counter::kCacheLentSlots), 0);
      EXPECT_EQ(counted(Counter::kKvBlocksUsed), 0);
      EXPECT_EQ(run_prompt(*engine, ids_).logits, expected.logits) << "after " << after;
    }
    EXPECT_GT(cancelled, 4);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SplitPrompt, testing::ValuesIn(kFewArchs), [](const auto& row) {
  std::string name = row.param;
  std::erase(name, '-');
  return name;
});

// Requests whose prompts share steps with answers.
class Answer final : public engine::RequestListener {
 public:
  void on_token(int32_t id, const text::Logprobs*) override { ids.push_back(id); }
  void on_text(std::string_view) override {}
  void on_prompt(int64_t done, int64_t) override { chunks.push_back(done); }
  void on_finish(const engine::RequestResult& r) override { result = r; }
  std::vector<int32_t> ids;
  std::vector<int64_t> chunks;
  engine::RequestResult result;
};

std::vector<Answer> answers_of(Engine& engine, const gguf::Model& model, std::span<const int32_t> ids) {
  const auto tokenizer = text::Tokenizer::load(model).value();
  engine::Scheduler scheduler(engine, *tokenizer, engine::SchedulerOptions{}, real_clock());
  std::vector<Answer> answers(3);
  for (size_t i = 0; i < answers.size(); i++) {
    engine::RequestParams params;
    params.sampling.temp = 0;
    params.max_tokens = 4 + static_cast<int64_t>(i);
    params.ignore_eos = true;
    params.repeat_stop_tokens = 0;
    const auto prompt = ids.subspan(i, 12 + 9 * i);
    EXPECT_TRUE(scheduler.submit(nullptr, {prompt.begin(), prompt.end()}, params, answers[i]).ok());
  }
  for (int i = 0; i < 1000; i++) {
    if (!scheduler.step()) return answers;
  }
  ADD_FAILURE() << "the scheduler never has nothing to do";
  return answers;
}

TEST_P(SplitPrompt, RequestsAreAnsweredAlike) {
  EngineConfig cpu = config("cpu");
  cpu.expert_cache.reset();
  cpu.max_sequences = 2;
  const auto alone = open(cpu);
  const std::vector<Answer> expected = answers_of(*alone, *model_, ids_);
  EngineConfig parts = config("sim:2x64MiB/seed=5");
  parts.layer_split = split(1);
  parts.max_sequences = 2;
  parts.adapt_every = 1;
  const auto engine = open(lending(parts, golden_));
  const std::vector<Answer> found = answers_of(*engine, *model_, ids_);
  for (size_t i = 0; i < found.size(); i++) {
    EXPECT_EQ(found[i].ids, expected[i].ids);
    EXPECT_EQ(found[i].chunks, expected[i].chunks);
    EXPECT_EQ(found[i].result.finish, engine::Finish::kMaxTokens);
  }
  EXPECT_EQ(counted(Counter::kCacheLentSlots), 0);
}

class SplitEngine : public Split {
 protected:
  Result<std::unique_ptr<Engine>> open(const std::string& device, std::vector<int> split) {
    EngineConfig config = small_sim_config(n_experts(golden_) / 4, 96, 8);
    config.device = device;
    config.layer_split = std::move(split);
    config.stream_rows = 5;
    return Engine::open(*model_, config, stats_);
  }
  std::string refusal(const std::string& device, std::vector<int> split) {
    const auto engine = open(device, std::move(split));
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? "" : engine.error().message;
  }
  const GoldenModel golden_ = load_demo_golden();
  const std::unique_ptr<gguf::Model> model_ = open_golden(golden_);
};

TEST_F(SplitEngine, ASplitThatCannotBeIsRefused) {
  EXPECT_THAT(refusal("sim:2x128MiB", {8}), HasSubstr("--layer-split 8 is for 1 device, but --device names 2"));
  EXPECT_THAT(refusal("sim:2x128MiB", {5, 4}), HasSubstr("gives out 9 layers, but the model has 8"));
  EXPECT_THAT(refusal("sim:2x128MiB", {8, 0}), HasSubstr("leaves a device without layers"));
  EXPECT_THAT(refusal("sim:9x128MiB", {1, 1, 1, 1, 1, 1, 1, 1, 1}), HasSubstr("gives out 9 layers"));
  EXPECT_THAT(refusal("sim:128MiB,64KiB", {7, 1}), HasSubstr("64 KiB of sim:1"));
  EXPECT_EQ(stats_.get(Counter::kFileReads), 0);
}

TEST_F(SplitEngine, AutoLeavesDevicesOutWhereLayersAreFewer) {
  auto opened = open("sim:10x128MiB", {});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_LE((*opened)->n_parts(), 8);
}

TEST_F(SplitEngine, DescribesItsParts) {
  auto opened = open("sim:2x128MiB", {3, 5});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->n_parts(), 2);
  EXPECT_THAT((*opened)->describe(), HasSubstr("on sim:0 (layers 0 to 2), sim:1 (layers 3 to 7) with"));
}

}  // namespace
}  // namespace strata::test
