// When prompts stream and borrow: which steps do, how long a loan lasts, and that it ends however its prompt ends.
#include <atomic>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "engine/sim_support.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using engine::Finish;
using testing::HasSubstr;

class Streaming : public testing::Test {
 protected:
  // A quarter of the experts is cached; steps of 10 rows stream.
  EngineConfig config() const { return lending(roomy(), golden_); }
  // On a device that has room for more.
  EngineConfig roomy() const {
    EngineConfig config = small_sim_config(experts_ / 4, 96, 16);
    config.stream_rows = 10;
    return config;
  }
  void open(const EngineConfig& config) {
    sequence_.reset();
    engine_.reset();
    auto opened = Engine::open(*model_, config, stats_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    engine_ = std::move(opened).value();
    sequence_.emplace(engine_->make_sequence().value());
    stats_.reset();
  }
  Status step(size_t rows, bool in_prompt = false) {
    const auto at = static_cast<size_t>(sequence_->n_tokens());
    const model::BatchRows batch[] = {{&*sequence_, std::span(ids_).subspan(at, rows)}};
    return engine_->step(batch, in_prompt);
  }
  int64_t counted(Counter counter) const { return stats_.get(counter); }
  bool lent() const { return counted(Counter::kCacheLentSlots) > 0; }
  // Whether a step streams; the CPU computes what is missing in those that don't.
  bool streams(size_t rows, bool in_prompt = false) {
    const int64_t streamed = counted(Counter::kStreamedExperts), computed = counted(Counter::kExpertRows);
    EXPECT_TRUE(step(rows, in_prompt).ok());
    const bool streams = counted(Counter::kStreamedExperts) > streamed;
    EXPECT_NE(streams, counted(Counter::kExpertRows) > computed);
    return streams;
  }

  const GoldenModel golden_ = load_arch_golden("qwen3moe");
  const std::vector<int32_t>& ids_ = golden_.sequences[2].ids;
  const std::unique_ptr<gguf::Model> model_ = open_golden(golden_);
  const int64_t experts_ = n_experts(golden_);
  Stats stats_;
  std::unique_ptr<Engine> engine_;
  std::optional<model::SequenceState> sequence_;
};

TEST_F(Streaming, ALoanLastsWhilePromptsDo) {
  open(config());
  EXPECT_THAT(engine_->describe(), HasSubstr("prompts from 10 rows stream the others through"));
  EXPECT_FALSE(streams(9));
  EXPECT_FALSE(lent());
  EXPECT_TRUE(streams(10));
  EXPECT_TRUE(lent());
  EXPECT_TRUE(streams(16));
  EXPECT_FALSE(streams(2)) << "the end of a prompt";
  EXPECT_TRUE(lent());
  EXPECT_FALSE(streams(1, true)) << "the end of a prompt";
  EXPECT_TRUE(lent());
  const int64_t uploads = counted(Counter::kCacheUploads);
  EXPECT_FALSE(streams(1)) << "an answer";
  EXPECT_FALSE(lent());
  EXPECT_GT(counted(Counter::kCacheUploads), uploads);
  EXPECT_FALSE(streams(1));
  EXPECT_EQ(counted(Counter::kCacheLoans), 1);
  EXPECT_TRUE(streams(12)) << "the next prompt";
  EXPECT_EQ(counted(Counter::kCacheLoans), 2);
}

TEST_F(Streaming, AutoIsTwelveRowsAnExpert) {
  EngineConfig automatic = roomy();
  automatic.stream_rows.reset();
  automatic.chunk = 48;
  open(lending(automatic, golden_));
  EXPECT_FALSE(streams(47));
  EXPECT_TRUE(streams(48)) << "of 8 experts 2 are used";
}

TEST_F(Streaming, AnAnswerNeverStreams) {
  EngineConfig always = config();
  always.stream_rows = 1;
  open(always);
  EXPECT_FALSE(streams(1));
  EXPECT_TRUE(streams(1, true));
  EXPECT_FALSE(streams(1));
  EXPECT_FALSE(lent());
}

TEST_F(Streaming, NothingStreamsWhereNothingIsMissingOrALoanIsTooSmall) {
  EngineConfig all = roomy();
  all.expert_cache = experts_;
  open(all);
  EXPECT_TRUE(step(16).ok());
  EXPECT_EQ(counted(Counter::kStreamedExperts), 0);
  EXPECT_EQ(counted(Counter::kCacheMisses), 0);
  EngineConfig kept = config();
  kept.cache_min_slots = 128;
  open(kept);
  EXPECT_FALSE(streams(16));
  kept.cache_min_slots = experts_ / 4 - 1;
  open(kept);
  EXPECT_FALSE(streams(16)) << "a ring has two banks";
  kept.cache_min_slots = experts_ / 4 - 2;
  open(kept);
  EXPECT_TRUE(streams(16));
  EXPECT_EQ(counted(Counter::kCacheLentSlots), 2);
}

TEST_F(Streaming, OnCpuNothingStreams) {
  EngineConfig cpu = config();
  cpu.device = "cpu";
  open(cpu);
  EXPECT_FALSE(streams(16));
}

TEST_F(Streaming, MemoryOfTheDevicesOwnIsTakenWhereThereIsRoom) {
  EngineConfig own = roomy();
  EXPECT_TRUE(own.prefill_borrow);
  open(own);
  EXPECT_TRUE(streams(16));
  EXPECT_EQ(counted(Counter::kCacheLoans), 0) << "what it can pay for it does not borrow";
  own.prefill_borrow = false;
  open(own);
  EXPECT_TRUE(streams(16));
  EXPECT_EQ(counted(Counter::kCacheLoans), 0);
  // The smallest device that holds the slots has no room for a ring beside them, a larger one has.
  int too_small = 64, enough = 64 * 1024;  // KiB
  while (enough - too_small > 1) {
    const int kib = (too_small + enough) / 2;
    own.device = format("sim:{}KiB", kib);
    (Engine::open(*model_, own, stats_).ok() ? enough : too_small) = kib;
  }
  own.device = format("sim:{}KiB", enough);
  open(own);
  EXPECT_FALSE(streams(16));
  own.device = format("sim:{}KiB", enough + 64);
  open(own);
  EXPECT_TRUE(streams(16));
  // What the cache can be without being asked: the ring comes first.
  own.expert_cache.reset();
  open(own);
  EXPECT_TRUE(streams(16));
  EXPECT_GT(counted(Counter::kCacheHits), 0);
}

TEST_F(Streaming, ACancelledStepEndsItsLoan) {
  open(config());
  std::atomic<int> layers{0};
  engine_->set_interrupt([&] { return ++layers > 2; });
  const Status status = step(16);
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(sequence_->n_tokens(), 0);
  EXPECT_EQ(counted(Counter::kCacheLoans), 1);
  EXPECT_FALSE(lent());
  EXPECT_LT(counted(Counter::kStreamedExperts), experts_) << "what nobody wants is not copied";
  engine_->set_interrupt(nullptr);
  EXPECT_TRUE(streams(16));
}

TEST_F(Streaming, ALoanThatCannotBeEndedIsEndedBeforeTheNextStep) {
  EngineConfig failing = config();
  const std::string device = failing.device;
  // The first point of the device that a prompt does not pass: it is in what comes next, the end of its loan.
  const auto prompt_passes = [&](int point) {
    failing.device = format("{}/fail={}", device, point);
    sequence_.reset();
    auto opened = Engine::open(*model_, failing, stats_);
    if (!opened.ok()) return false;
    engine_ = std::move(opened).value();
    sequence_.emplace(engine_->make_sequence().value());
    return step(16).ok();
  };
  int before = 1, after = 4096;
  while (after - before > 1) {
    const int point = (before + after) / 2;
    (prompt_passes(point) ? after : before) = point;
  }
  failing.device = format("{}/fail={}", device, after);
  open(failing);
  ASSERT_TRUE(step(16).ok());
  const Status status = step(1);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("fault injector"));
  EXPECT_TRUE(lent());
  EXPECT_EQ(sequence_->n_tokens(), 16) << "nothing was computed";
  EXPECT_TRUE(step(16).ok());
  EXPECT_EQ(counted(Counter::kCacheLoans), 2) << "it ended, and the step borrowed anew";
  EXPECT_TRUE(step(1).ok());
  EXPECT_FALSE(lent());
}

// Requests through the scheduler.
class Listener final : public engine::RequestListener {
 public:
  void on_text(std::string_view) override {}
  void on_prompt(int64_t, int64_t) override {
    if (hook) hook();
  }
  void on_finish(const engine::RequestResult& r) override { result = r; }
  std::function<void()> hook;
  engine::RequestResult result;
};

class StreamingScheduler : public Streaming {
 protected:
  void open(const EngineConfig& config) {
    Streaming::open(config);
    sequence_.reset();
    tokenizer_ = text::Tokenizer::load(*model_).value();
    scheduler_.emplace(*engine_, *tokenizer_, engine::SchedulerOptions{}, real_clock());
  }
  std::shared_ptr<engine::RequestHandle> submit(Listener& listener, int64_t answer) {
    engine::RequestParams params;
    params.sampling.temp = 0;
    params.max_tokens = answer;
    params.ignore_eos = true;
    params.repeat_stop_tokens = 0;
    return scheduler_->submit(nullptr, {ids_.begin(), ids_.begin() + 40}, params, listener).value();
  }
  void run() {
    for (int i = 0; i < 1000; i++) {
      if (!scheduler_->step()) return;
    }
    FAIL() << "the scheduler never has nothing to do";
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<engine::Scheduler> scheduler_;
};

TEST_F(StreamingScheduler, PromptsThatFollowEachOtherShareALoan) {
  EngineConfig two = roomy();
  two.max_sequences = 2;
  open(lending(two, golden_));
  Listener listeners[2];
  for (Listener& listener : listeners) {
    listener.hook = [this] { EXPECT_TRUE(lent()); };
    submit(listener, 6);
  }
  run();
  for (const Listener& listener : listeners) EXPECT_EQ(listener.result.finish, Finish::kMaxTokens);
  EXPECT_EQ(counted(Counter::kCacheLoans), 1);
  EXPECT_FALSE(lent());
  EXPECT_GT(counted(Counter::kCacheHits), 0);
}

TEST_F(StreamingScheduler, ALoanGoesBackWhenNothingRunsAnyMore) {
  open(config());
  Listener waiting, last;
  submit(waiting, 1);
  submit(last, 1);
  bool lent_to_the_next = false;
  last.hook = [&] { lent_to_the_next = counted(Counter::kCacheLoans) == 1; };
  run();
  EXPECT_TRUE(lent_to_the_next) << "a prompt was waiting: the loan went on";
  EXPECT_EQ(counted(Counter::kCacheLoans), 1);
  EXPECT_FALSE(lent());
}

TEST_F(StreamingScheduler, ACancelledPromptGivesItsLoanBack) {
  open(config());
  Listener listener;
  std::shared_ptr<engine::RequestHandle> handle;
  listener.hook = [&] {
    EXPECT_TRUE(lent());
    handle->cancel();
  };
  handle = submit(listener, 4);
  run();
  EXPECT_EQ(listener.result.finish, Finish::kCancelled);
  EXPECT_EQ(counted(Counter::kCacheLoans), 1);
  EXPECT_FALSE(lent());
}

}  // namespace
}  // namespace strata::test
