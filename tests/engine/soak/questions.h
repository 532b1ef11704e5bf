// What the clients of a soak ask, and the answer that each question gets when it is alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/scheduler.h"

namespace strata::test {

struct SoakAnswer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;  // [ids] of the ids: each has all logits of its row in it
  engine::Finish finish = engine::Finish::kFailed;

  // What is not equal bit for bit, as a line; empty where all is. A part of an answer may end early, for whatever
  // reason.
  std::string difference(const SoakAnswer& found, bool part) const;
};

struct SoakQuestion {
  std::vector<int32_t> prompt;
  engine::RequestParams params;
  SoakAnswer answer;
};

struct SoakQuestions {
  std::vector<SoakQuestion> prompts;             // of all lengths
  std::vector<std::vector<SoakQuestion>> chats;  // [chats][turns]: each goes on after the answer before it
};

struct SoakShape {
  int64_t longest = 0;    // tokens of the longest prompt
  int64_t n_prompts = 0;  // of 1 to so many tokens, as many short ones as long ones on a scale of powers; at least 2
  int64_t n_chats = 0, n_turns = 0;
  int64_t answer_tokens = 0;  // at most; more than kRoom, so that the longest prompt's answer fills the context

  static constexpr int64_t kRoom = 6;
  int64_t context() const { return longest + kRoom; }
};

// Hears of one request.
class SoakListener final : public engine::RequestListener {
 public:
  void on_token(int32_t id, const text::Logprobs* logprobs) override;
  void on_text(std::string_view) override {}
  void on_finish(const engine::RequestResult& result) override;

  SoakAnswer answer;
  engine::RequestResult result;
  bool finished = false;
};

// Asked of a scheduler that has nothing else to do.
SoakAnswer answer_alone(engine::Scheduler& scheduler, const SoakQuestion& question);

// The same questions for the same seed; half of them are sampled, with seeds of their own. An engine of its own answers
// them one after the other, and dies. The current test fails where it cannot.
SoakQuestions ask_alone(const gguf::Model& model, const text::Tokenizer& tokenizer, const engine::EngineConfig& config,
                        const SoakShape& shape, uint64_t seed);

}  // namespace strata::test
