#include "engine/soak/questions.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/random.h"

namespace strata::test {
namespace {

using engine::Finish;

class Asker {
 public:
  Asker(engine::Engine& engine, const text::Tokenizer& tokenizer, const SoakShape& shape, uint64_t seed)
      : n_vocab_(static_cast<uint64_t>(engine.n_vocab())), shape_(shape), random_(seed),
        scheduler_(engine, tokenizer, engine::SchedulerOptions{}, real_clock()) {}

  SoakQuestions ask() {
    SoakQuestions questions;
    for (int64_t i = 0; i < shape_.n_prompts; i++) {
      const double power = static_cast<double>(i) / static_cast<double>(shape_.n_prompts - 1);
      const double length = std::pow(static_cast<double>(shape_.longest), power);
      questions.prompts.push_back(asked(some_ids(std::llround(length)), i + 1 == shape_.n_prompts));
    }
    for (int64_t i = 0; i < shape_.n_chats; i++) {
      std::vector<SoakQuestion>& chat = questions.chats.emplace_back();
      std::vector<int32_t> history;
      for (int64_t turn = 0; turn < shape_.n_turns; turn++) {
        append(history, some_ids(turn_tokens()));
        chat.push_back(asked(history, false));
        append(history, chat.back().answer.ids);
      }
    }
    return questions;
  }

 private:
  static void append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
  }
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(bound))); }

  // As many short turns as long ones; together with their answers those of a chat fit in a context.
  int64_t turn_tokens() {
    const auto most = static_cast<double>(shape_.context() / shape_.n_turns - shape_.answer_tokens);
    return std::llround(std::pow(most, random_.uniform()));
  }

  std::vector<int32_t> some_ids(int64_t n) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; i++) ids.push_back(static_cast<int32_t>(random_.below(n_vocab_)));
    return ids;
  }

  SoakQuestion asked(std::vector<int32_t> prompt, bool longest) {
    SoakQuestion question{.prompt = std::move(prompt), .params = {}, .answer = {}};
    engine::RequestParams& params = question.params;
    params.sampling.temp = below(2) == 0 ? 0 : 0.8F;
    params.sampling.seed = static_cast<uint32_t>(random_.next());
    params.max_tokens = longest ? shape_.answer_tokens : 1 + below(shape_.answer_tokens);
    params.n_logprobs = 0;
    params.ignore_eos = true;
    params.repeat_stop_tokens = 0;
    question.answer = answer_alone(scheduler_, question);
    EXPECT_EQ(question.answer.finish, longest ? Finish::kContextFull : Finish::kMaxTokens);
    return question;
  }

  const uint64_t n_vocab_;
  const SoakShape shape_;
  Random random_;
  engine::Scheduler scheduler_;
};

}  // namespace

std::string SoakAnswer::difference(const SoakAnswer& found, bool part) const {
  const size_t n = std::min(ids.size(), found.ids.size());
  for (size_t i = 0; i < n; i++) {
    if (found.ids[i] == ids[i] && std::bit_cast<uint32_t>(found.logprobs[i]) == std::bit_cast<uint32_t>(logprobs[i])) {
      continue;
    }
    return format("token {} of {} is {} ({}), alone {} ({})", i + 1, ids.size(), found.ids[i], found.logprobs[i],
                  ids[i], logprobs[i]);
  }
  if (found.ids.size() > ids.size() || (!part && found.ids.size() < ids.size())) {
    return format("it has {} tokens, alone {}", found.ids.size(), ids.size());
  }
  if (part || found.finish == finish) return "";
  return format("it ends as {}, alone {}", static_cast<int>(found.finish), static_cast<int>(finish));
}

void SoakListener::on_token(int32_t id, const text::Logprobs* logprobs) {
  answer.ids.push_back(id);
  answer.logprobs.push_back(logprobs->chosen.logprob);
}

void SoakListener::on_finish(const engine::RequestResult& r) {
  result = r;
  answer.finish = r.finish;
  finished = true;
}

SoakAnswer answer_alone(engine::Scheduler& scheduler, const SoakQuestion& question) {
  SoakListener listener;
  const auto handle = scheduler.submit(nullptr, question.prompt, question.params, listener);
  if (!handle.ok()) {
    ADD_FAILURE() << handle.error().message;
    return {};
  }
  while (scheduler.step()) continue;
  EXPECT_TRUE(listener.result.error.ok()) << listener.result.error.error().message;
  return listener.answer;
}

SoakQuestions ask_alone(const gguf::Model& model, const text::Tokenizer& tokenizer, const engine::EngineConfig& config,
                        const SoakShape& shape, uint64_t seed) {
  Stats stats;
  const auto engine = engine::Engine::open(model, config, stats);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return {};
  }
  return Asker(**engine, tokenizer, shape, seed).ask();
}

}  // namespace strata::test
