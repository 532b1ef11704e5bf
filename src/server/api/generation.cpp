#include "server/api/generation.h"

#include <algorithm>

#include "base/log.h"

namespace strata::server {
namespace {

using engine::Finish;

bool was_cut(Finish finish) {
  return finish == Finish::kMaxTokens || finish == Finish::kContextFull || finish == Finish::kRepetition;
}

// Messages of the engine name files and devices, which are not a client's business.
ApiError failure_of(const engine::RequestResult& result) {
  const std::string& message = result.error.error().message;
  log_error("an answer failed: {}", message);
  return from_engine({ErrorCode::kInternal, message});
}

}  // namespace

GenerationExchange::GenerationExchange(Generation generation, const ServedModel& model, ReplySink& sink)
    : generation_(std::move(generation)), model_(model), sink_(sink) {
  generation_.style.tools = &generation_.tools;
  for (size_t i = 0; i < generation_.jobs.size(); ++i) {
    answers_.push_back({.parser = AnswerParser(generation_.style),
                        .parts = AnswerParts(generation_.call_prefix, generation_.nonce + i + 1),
                        .logprobs = LogprobQueue(*model.tokenizer, generation_.jobs[i].params.shown_tokens)});
  }
}

void GenerationExchange::on_token(size_t job, int32_t id, const text::Logprobs* logprobs) {
  Answer& answer = answers_[job];
  answer.unplaced_tokens++;
  if (logprobs != nullptr) answer.logprobs.on_token(id, *logprobs);
}

void GenerationExchange::on_text(size_t job, std::string_view text) {
  Answer& answer = answers_[job];
  AnswerEvents events;
  const bool reasoned = answer.parser.in_reasoning();
  answer.parser.push(text, events);
  // Tokens whose text is held back count for what they turn out to be; the tags count as reasoning.
  if (reasoned || answer.parser.in_reasoning()) answer.reasoning_tokens += answer.unplaced_tokens;
  answer.unplaced_tokens = 0;
  answer.logprobs.on_text(text);
  give(job, std::move(events), answer.logprobs.take());
}

void GenerationExchange::give(size_t job, AnswerEvents events, const std::vector<text::Logprobs>& logprobs) {
  std::vector<AnswerPiece> pieces;
  for (AnswerEvent& event : events) pieces.push_back(answers_[job].parts.add(std::move(event)));
  if (!pieces.empty() || !logprobs.empty()) on_pieces(job, pieces, logprobs);
}

void GenerationExchange::on_finish(size_t job, const engine::RequestResult& result) {
  Answer& answer = answers_[job];
  answer.result = result;
  answer.finished = true;
  AnswerEvents events;
  answer.parser.flush(result.finish == Finish::kEndOfText, events);
  if (answer.parser.in_reasoning()) answer.reasoning_tokens += answer.unplaced_tokens;
  give(job, std::move(events), answer.logprobs.take_rest(result.finish == Finish::kStopString));
  if (result.finish != Finish::kFailed) on_answer_end(job);

  if (!std::all_of(answers_.begin(), answers_.end(), [](const Answer& a) { return a.finished; })) return;
  const auto failed = std::find_if(answers_.begin(), answers_.end(),
                                   [](const Answer& a) { return a.result.finish == Finish::kFailed; });
  if (failed == answers_.end()) {
    on_end();
  } else {
    on_failure(ending_ ? *ending_ : failure_of(failed->result));
  }
}

AnswerEnd GenerationExchange::end_of(size_t job) const {
  const Answer& answer = answers_[job];
  if (was_cut(answer.result.finish)) return AnswerEnd::kLength;
  if (answer.parser.has_calls()) return AnswerEnd::kCalls;
  return answer.result.finish == Finish::kStopString ? AnswerEnd::kStopString : AnswerEnd::kEnd;
}

Usage GenerationExchange::usage() const {
  Usage usage;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const Answer& answer = answers_[i];
    if (i % generation_.jobs_per_prompt == 0) {
      usage.prompt += answer.result.prompt_tokens;
      usage.cached += answer.result.kept_tokens;
    }
    usage.answer += answer.result.answer_tokens;
    usage.reasoning += answer.reasoning_tokens;
  }
  return usage;
}

}  // namespace strata::server
