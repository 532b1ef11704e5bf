// Answers without a model: each job gets as many tokens as its max_tokens says, one a step, in step with the others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/sync.h"
#include "server/core/generator.h"

namespace strata::server {

struct StubOptions {
  int slots = 2;
  bool loading = false;      // until finish_loading()
  bool stepping = false;     // computes only what step() allows
  std::string piece = "x";   // the text of each token
  std::string first_piece = {};  // of an answer's first; empty: as the others
  int64_t prompt_steps = 1;  // that a prompt takes
  int fail_after = -1;       // tokens, after which jobs fail; -1 never
};

class StubGenerator final : public Generator {
 public:
  explicit StubGenerator(const StubOptions& options = {});
  ~StubGenerator() override;

  GeneratorPhase phase() const override { return phase_.load(); }
  LoadProgress progress() const override { return {.fraction = 0.25, .seconds = 3}; }
  const ServedModel* model() const override { return phase() == GeneratorPhase::kReady ? &model_ : nullptr; }
  int slots() const override { return options_.slots; }
  Result<std::shared_ptr<engine::RequestHandle>> submit(const GenerationJob& job,
                                                        engine::RequestListener& listener) override;
  std::string describe() const override { return "stub"; }

  ServedModel& served() { return model_; }
  void finish_loading() { phase_.store(GeneratorPhase::kReady); }
  void step(int64_t n = 1);
  // Jobs whose prompt was begun, and those that ended.
  int64_t started() const { return started_.load(); }
  int64_t finished() const { return finished_.load(); }
  int64_t submitted() const { return submitted_.load(); }
  int64_t steps() const { return steps_.load(); }

 private:
  struct Job {
    std::shared_ptr<engine::RequestHandle> handle;
    engine::RequestListener* listener;
    int64_t max_tokens, prompt_tokens;
    int64_t prompt_left;
    engine::RequestResult result = {};
  };

  void run();
  bool advance(Job& job);
  void finish(Job& job, engine::Finish reason);

  const StubOptions options_;
  ServedModel model_;
  std::atomic<GeneratorPhase> phase_;
  std::atomic<int64_t> started_{0}, finished_{0}, submitted_{0}, steps_{0};
  std::vector<std::unique_ptr<Job>> running_;
  Mutex mutex_;  // guards the rest
  std::condition_variable_any wake_;
  std::deque<std::unique_ptr<Job>> queued_;
  int64_t allowed_ = 0;
  bool stop_ = false;
  std::optional<Thread> thread_;
};

}  // namespace strata::server
