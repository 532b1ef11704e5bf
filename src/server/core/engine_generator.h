// The engine and its scheduler on a thread of their own, which loads the model first.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/stats.h"
#include "base/sync.h"
#include "engine/scheduler.h"
#include "server/core/generator.h"

namespace strata::server {

// A model and all that serves it, in the order of making.
struct LoadedModel {
  std::unique_ptr<gguf::Model> file;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;
  std::unique_ptr<engine::Engine> engine;
  ServedModel served;
};

struct EngineGeneratorOptions {
  int slots = 1;  // sequences of the engine
  int64_t max_gap_ms = 500;
  // Runs on the engine's thread. `bytes` is told how many of the model there are to read, as soon as that is known.
  std::function<Result<LoadedModel>(std::atomic<int64_t>& bytes)> load;
  // Runs on the engine's thread when loading has ended, either way.
  std::function<void()> loaded;
  // Runs there before the engine goes.
  std::function<void(engine::Engine&)> stopping;
};

class EngineGenerator final : public Generator {
 public:
  // Begins to load. `stats` are the engine's, and outlive this.
  EngineGenerator(EngineGeneratorOptions options, const Stats& stats);
  // Takes no more, and ends when all that was submitted has; whoever wants that soon has cancelled it.
  ~EngineGenerator() override;

  GeneratorPhase phase() const override { return phase_.load(); }
  LoadProgress progress() const override;
  const ServedModel* model() const override;
  int slots() const override { return options_.slots; }
  Result<std::shared_ptr<engine::RequestHandle>> submit(const GenerationJob& job,
                                                        engine::RequestListener& listener) override;
  std::string describe() const override;

  // Why loading failed; of kFailed.
  const Error& failure() const;

 private:
  void run();
  Result<LoadedModel> load();
  void serve();

  const EngineGeneratorOptions options_;
  const Stats& stats_;
  const int64_t started_ns_;
  std::atomic<int64_t> bytes_{0};  // of the model, while it loads; 0: not known
  std::atomic<GeneratorPhase> phase_{GeneratorPhase::kLoading};
  Error failure_;                     // written before phase_
  std::optional<LoadedModel> model_;  // the same
  std::string description_;           // the same
  Mutex mutex_;                       // guards the rest
  std::condition_variable_any wake_;
  std::unique_ptr<engine::Scheduler> scheduler_;
  bool work_ = false;
  bool stop_ = false;
  std::optional<Thread> thread_;
};

}  // namespace strata::server
