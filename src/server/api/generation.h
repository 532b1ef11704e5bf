// The part of an exchange that all protocols have in common: from what the engine says to parts of answers.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "server/api/answer_parser.h"
#include "server/api/answer_parts.h"
#include "server/api/endpoint.h"
#include "server/api/logprob_queue.h"

namespace strata::server {

struct Usage {
  int64_t prompt = 0;
  int64_t cached = 0;     // of the prompt, not computed again
  int64_t answer = 0;     // of all answers
  int64_t reasoning = 0;  // of the answers
};

// What an endpoint has read out of a body.
struct Generation {
  std::vector<GenerationJob> jobs = {};
  size_t jobs_per_prompt = 1;    // jobs that follow one another have the same prompt
  AnswerStyle style = {};        // its tools are set by the exchange
  ToolSet tools = {};
  std::string call_prefix = "call_";
  uint64_t nonce = 0;
};

// How an answer ended, for all protocols to name.
enum class AnswerEnd { kEnd, kStopString, kCalls, kLength };

class GenerationExchange : public Exchange {
 public:
  std::span<const GenerationJob> jobs() const final { return generation_.jobs; }
  void on_token(size_t job, int32_t id, const text::Logprobs* logprobs) final;
  void on_text(size_t job, std::string_view text) final;
  void on_ending(const ApiError& why) final { ending_ = why; }
  void on_finish(size_t job, const engine::RequestResult& result) final;
  void break_off(const ApiError& error) final { on_failure(error); }

 protected:
  struct Answer {
    AnswerParser parser;
    AnswerParts parts;
    LogprobQueue logprobs;
    int64_t reasoning_tokens = 0;
    int64_t unplaced_tokens = 0;  // since the last text
    bool finished = false;
    engine::RequestResult result = {};
  };

  GenerationExchange(Generation generation, const ServedModel& model, ReplySink& sink);

  // More of an answer; `pieces` may be empty when only log-probabilities have come.
  virtual void on_pieces(size_t job, const std::vector<AnswerPiece>& pieces,
                         const std::vector<text::Logprobs>& logprobs) = 0;
  // The answer is complete.
  virtual void on_answer_end(size_t job) = 0;
  // All answers are.
  virtual void on_end() = 0;
  // Instead of on_end(): one of them failed. May come at any time after begin().
  virtual void on_failure(const ApiError& error) = 0;

  const Answer& answer(size_t job) const { return answers_[job]; }
  Answer& answer(size_t job) { return answers_[job]; }
  AnswerEnd end_of(size_t job) const;
  Usage usage() const;
  const ServedModel& model() const { return model_; }
  ReplySink& sink() const { return sink_; }
  uint64_t nonce() const { return generation_.nonce; }

 private:
  void give(size_t job, AnswerEvents events, const std::vector<text::Logprobs>& logprobs);

  Generation generation_;
  const ServedModel& model_;
  ReplySink& sink_;
  std::deque<Answer> answers_;
  std::optional<ApiError> ending_;  // of the answers that are left, by the server
};

}  // namespace strata::server
