// An answer on its way to stdout.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "engine/scheduler.h"
#include "text/reasoning.h"

namespace strata::cli {

// Writes an answer as it comes and keeps it. On a terminal, reasoning is shown dimmed and control characters are
// replaced; elsewhere reasoning is left out. One request each; the thread that runs the scheduler.
class AnswerWriter final : public engine::RequestListener {
 public:
  // `splitter`: tells reasoning from the answer; null for text that has none.
  explicit AnswerWriter(std::unique_ptr<text::ReasoningSplitter> splitter);

  // Submits the prompt and runs the scheduler, which has nothing else to do, until its answer is complete. SIGINT
  // cancels it. Fails as submit() does, with the error of a request that failed, and when stdout can't be written.
  Result<engine::RequestResult> run(engine::Scheduler& scheduler, engine::Conversation* conversation,
                                    std::vector<int32_t> prompt, const engine::RequestParams& params);

  const std::string& answer() const { return answer_; }
  const std::string& reasoning() const { return reasoning_; }

  void on_text(std::string_view text) override;
  void on_finish(const engine::RequestResult& result) override;

 private:
  void show(const std::vector<text::TextEvent>& events);
  void write(std::string_view text, bool dimmed);

  const bool terminal_;
  const bool styled_;
  std::unique_ptr<text::ReasoningSplitter> splitter_;
  std::vector<text::TextEvent> events_;
  std::string answer_, reasoning_;
  std::shared_ptr<engine::RequestHandle> handle_;
  Status written_;
  engine::RequestResult result_;
  bool finished_ = false;
};

}  // namespace strata::cli
