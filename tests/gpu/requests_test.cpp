// Many requests of all lengths on a GPU, of which some are cancelled, some fail and one is killed: the device's memory
// stays what it was at the start, the device is idle soon after whatever ended, and the next request is right.
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include "base/random.h"
#include "engine/scheduler.h"
#include "engine/sim_support.h"
#include "gpu/lending.h"
#include "gpu/support.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using engine::Finish;
using engine::RequestHandle;
using engine::Scheduler;
using Ids = std::vector<int32_t>;

constexpr int kRequests = 200;
constexpr int64_t kPromptMax = 8000;
constexpr uint64_t kBudgetGib = 4;

class Answer final : public engine::RequestListener {
 public:
  void on_token(int32_t id, const text::Logprobs*) override { ids.push_back(id); }
  void on_text(std::string_view) override {}
  void on_prompt(int64_t, int64_t) override {
    if (on_chunk) on_chunk();
  }
  void on_finish(const engine::RequestResult& r) override { result = r; }

  Ids ids;
  engine::RequestResult result;
  std::function<void()> on_chunk;
};

engine::RequestParams greedy(int64_t n) {
  engine::RequestParams params;
  params.sampling.temp = 0;
  params.max_tokens = n;
  params.ignore_eos = true;
  params.repeat_stop_tokens = 0;
  return params;
}

Ids some_ids(int64_t n, int64_t seed) {
  Ids ids;
  for (int64_t i = 0; i < n; i++) ids.push_back(static_cast<int32_t>((i * 37 + seed * 11) % 256));
  return ids;
}

// As many short ones as long ones, on a scale of powers.
int64_t some_length(Random& random) {
  return static_cast<int64_t>(std::pow(static_cast<double>(kPromptMax), random.uniform()));
}

EngineConfig config_of(const GoldenModel& golden, int percent) {
  EngineConfig config;
  config.device = "cuda:0";
  config.vram_budget = std::to_string(kBudgetGib);
  config.expert_cache = n_experts(golden) * percent / 100;
  config.cache_min_slots = 1;
  config.context = 16384;
  config.chunk = 512;
  config.max_sequences = 3;
  config.kv_type = kernels::KvType::kF16;
  config.round_activations = true;
  return percent < 100 ? lending_gpu(config, golden, kBudgetGib) : config;
}

// An engine on a copy of the demo model that a test may spoil.
class Server {
 public:
  explicit Server(const EngineConfig& config, const std::string& path) {
    model_ = gguf::Model::open(path, real_file_system()).value();
    tokenizer_ = text::Tokenizer::load(*model_).value();
    auto opened = Engine::open(*model_, config, stats);
    if (!opened.ok()) ADD_FAILURE() << opened.error().message;
    engine = std::move(opened).value();
    stats.reset();
    scheduler.emplace(*engine, *tokenizer_, engine::SchedulerOptions{}, real_clock());
  }
  std::shared_ptr<RequestHandle> submit(Answer& answer, const Ids& prompt, int64_t n) {
    return scheduler->submit(nullptr, prompt, greedy(n), answer).value();
  }
  void run() {
    while (scheduler->step()) continue;
  }
  Answer alone(const Ids& prompt, int64_t n) {
    Answer answer;
    submit(answer, prompt, n);
    run();
    return answer;
  }

  Stats stats;

 private:
  std::unique_ptr<gguf::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;

 public:
  std::unique_ptr<Engine> engine;
  std::optional<Scheduler> scheduler;
};

// Whether everything that was queued on the device comes to its end within a second. A wait that nobody answers would
// stay for ever.
bool idle_within_a_second() {
  std::promise<cudaError_t> done;
  std::future<cudaError_t> result = done.get_future();
  std::thread([done = std::move(done)]() mutable { done.set_value(cudaDeviceSynchronize()); }).detach();
  return result.wait_for(std::chrono::seconds(1)) == std::future_status::ready && result.get() == cudaSuccess;
}

uint64_t free_bytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

// How many are answered; scripts/gpu-soak watches the device's memory from outside meanwhile.
TEST(GpuRequests, TwoHundredOfAllLengthsTakeNoMemory) {
  const GoldenModel golden = load_demo_golden();
  for (const int percent : {25, 100}) {
    const uint64_t before = free_bytes();
    EngineConfig config = config_of(golden, percent);
    config.adapt_every = 4;
    Server server(config, golden.path);
    const uint64_t started = free_bytes();
    EXPECT_LE(before - started, kBudgetGib * kGiB);
    Random random(17);
    std::vector<Answer> answers(kRequests);
    std::vector<std::shared_ptr<RequestHandle>> handles;
    int64_t prompt_tokens = 0;
    for (size_t i = 0; i < answers.size(); i++) {
      const int64_t length = i == 0 ? kPromptMax : i == 1 ? 1 : some_length(random);
      prompt_tokens += length;
      const auto n_answer = 1 + static_cast<int64_t>(random.below(16));
      handles.push_back(server.submit(answers[i], some_ids(length, static_cast<int64_t>(i)), n_answer));
    }
    for (size_t i = 0; server.scheduler->step(); i++) {
      if (i % 50 != 0) continue;
      EXPECT_EQ(free_bytes(), started) << "after " << i << " steps";
    }
    for (const Answer& answer : answers) EXPECT_EQ(answer.result.finish, Finish::kMaxTokens);
    EXPECT_EQ(free_bytes(), started);
    EXPECT_EQ(server.stats.get(Counter::kDeviceAllocations), 0);
    EXPECT_EQ(server.stats.get(Counter::kKvBlocksUsed), 0);
    EXPECT_EQ(server.stats.get(Counter::kCacheLoans) > 0, percent < 100);
    std::printf("%d requests, %ld tokens of prompts, %d %% of the experts cached: %.0f MiB of %lu GiB in use\n",
                kRequests, static_cast<long>(prompt_tokens), percent,
                static_cast<double>(before - started) / static_cast<double>(kMiB),
                static_cast<unsigned long>(kBudgetGib));
  }
}

TEST(GpuRequests, CancelledOnesLeaveTheDeviceIdleAndTheNextRight) {
  const GoldenModel golden = load_demo_golden();
  for (const int percent : {25, 100}) {
    Server server(config_of(golden, percent), golden.path);
    const Ids prompt = some_ids(3000, 1);
    const Answer expected = server.alone(prompt, 8);
    ASSERT_EQ(expected.result.finish, Finish::kMaxTokens);
    for (const int at : {0, 1, 3, 5}) {  // chunks that are done
      Answer answer;
      const auto handle = server.submit(answer, prompt, 8);
      int chunks = 0;
      answer.on_chunk = [&] { if (++chunks == at) handle->cancel(); };
      if (at == 0) handle->cancel();
      server.run();
      EXPECT_EQ(answer.result.finish, Finish::kCancelled);
      EXPECT_TRUE(idle_within_a_second());
      EXPECT_EQ(server.stats.get(Counter::kKvBlocksUsed), 0);
      EXPECT_EQ(server.stats.get(Counter::kCacheLentSlots), 0);
      EXPECT_EQ(server.alone(prompt, 8).ids, expected.ids) << "after one that was cancelled at " << at;
    }
    EXPECT_EQ(server.stats.get(Counter::kDeviceAllocations), 0);
  }
}

// The files of experts are cut in mid-request, and whole again for the next one.
TEST(GpuRequests, FailingOnesLeaveTheDeviceIdleAndTheNextRight) {
  const GoldenModel golden = load_demo_golden();
  const TempDir folder;
  const std::string path = folder.file("model.gguf");
  std::filesystem::copy_file(golden.path, path);
  const auto bytes = read_bytes(path);
  EngineConfig config = config_of(golden, 25);
  config.experts = engine::ExpertPlace::kDirect;
  Server server(config, path);
  const Ids prompt = some_ids(3000, 1);
  const Answer expected = server.alone(prompt, 8);
  ASSERT_EQ(expected.result.finish, Finish::kMaxTokens);
  for (const int at : {1, 3, 5}) {
    Answer answer;
    int chunks = 0;
    answer.on_chunk = [&] { if (++chunks == at) std::filesystem::resize_file(path, bytes.size() / 3); };
    server.submit(answer, prompt, 8);
    server.run();
    EXPECT_EQ(answer.result.finish, Finish::kFailed);
    EXPECT_THAT(answer.result.error.error().message, testing::HasSubstr("model.gguf"));
    EXPECT_TRUE(idle_within_a_second());
    EXPECT_EQ(server.stats.get(Counter::kKvBlocksUsed), 0);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    EXPECT_EQ(server.alone(prompt, 8).ids, expected.ids) << "after one that failed at chunk " << at;
    EXPECT_EQ(server.stats.get(Counter::kCacheLentSlots), 0);
  }
  EXPECT_EQ(server.stats.get(Counter::kDeviceAllocations), 0);
}

[[noreturn]] void be_killed_in_a_prompt() {
  const GoldenModel golden = load_demo_golden();
  Server server(config_of(golden, 25), golden.path);
  Answer answer;
  int chunks = 0;
  answer.on_chunk = [&] { if (++chunks == 2) std::raise(SIGKILL); };
  server.submit(answer, some_ids(3000, 1), 8);
  server.run();
  std::_Exit(0);
}

TEST(GpuRequestsDeathTest, AKilledProcessGivesTheDeviceBackWithinASecond) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const uint64_t before = free_bytes();
  EXPECT_EXIT(be_killed_in_a_prompt(), testing::KilledBySignal(SIGKILL), "");
  const auto ended = std::chrono::steady_clock::now();
  while (free_bytes() < before && std::chrono::steady_clock::now() - ended < std::chrono::seconds(1)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(free_bytes(), before);
  EXPECT_TRUE(idle_within_a_second());
}

}  // namespace
}  // namespace strata::test
