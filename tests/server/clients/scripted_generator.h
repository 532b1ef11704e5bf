// Answers from a script, a byte a token: for clients that talk to the real server without a model.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/sync.h"
#include "server/core/generator.h"
#include "text/tokenizer_model.h"

namespace strata::server {

struct ScriptedAnswer {
  std::string text;
  bool fails = false;   // after the text
  bool endless = false; // the text again and again, slowly, until it is cancelled
};

class ScriptedGenerator final : public Generator {
 public:
  using Choose = std::function<ScriptedAnswer(const std::string& prompt)>;
  ScriptedGenerator(const std::string& chat_template, Choose choose);
  ~ScriptedGenerator() override;

  GeneratorPhase phase() const override { return GeneratorPhase::kReady; }
  LoadProgress progress() const override { return {}; }
  const ServedModel* model() const override { return &model_; }
  int slots() const override { return 4; }
  Result<std::shared_ptr<engine::RequestHandle>> submit(const GenerationJob& job,
                                                        engine::RequestListener& listener) override;
  std::string describe() const override { return "scripts"; }
  int64_t cancelled() const { return cancelled_.load(); }

 private:
  struct Job;
  void run();
  bool step(Job& job);
  void finish(Job& job, engine::Finish reason);

  text::test::TokenizerModel files_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> template_;
  ServedModel model_;
  const Choose choose_;
  std::atomic<int64_t> cancelled_{0};
  std::deque<std::unique_ptr<Job>> running_;
  Mutex mutex_;  // guards the next ones
  std::condition_variable_any wake_;
  std::deque<std::unique_ptr<Job>> arrived_;
  bool stop_ = false;
  std::optional<Thread> thread_;
};

}  // namespace strata::server
