// What is asked of the scheduler, and what it tells about it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/sampler.h"
#include "text/sampling/logprobs.h"

namespace strata::engine {

// Takes the choice of a token out of the sampler's hands where an answer must go on in a certain way. One per answer,
// on the thread that runs the scheduler. Calls must be short.
class TokenGuide {
 public:
  virtual ~TokenGuide() = default;
  // The token that comes next; text::kNoToken leaves it to the sampler.
  virtual int32_t next() = 0;
  // A token has become part of the answer.
  virtual void accept(int32_t id) = 0;
};

struct RequestParams {
  text::SamplerParams sampling;
  std::vector<std::string> stops;     // texts that end the answer; not given out
  std::optional<int64_t> max_tokens;  // of the answer, at most; absent: what the context leaves
  std::optional<int> n_logprobs;      // present: log-probabilities of each token and of the n most probable ones
  bool ignore_eos = false;            // tokens that end an answer are never sampled
  std::function<std::unique_ptr<TokenGuide>()> make_guide;  // empty: every token is sampled
  std::vector<int32_t> shown_tokens;  // control tokens whose texts are part of the answer, sorted
  int64_t repeat_stop_tokens = 256;   // the same token this often in a row ends the answer; 0 never
};

enum class Finish {
  kEndOfText,    // the model ended its answer; the token that says so is not given out
  kStopString,   // one of the stops was found
  kMaxTokens,    // max_tokens were given out
  kRepetition,   // the same token repeat_stop_tokens times in a row
  kContextFull,  // no room for another token
  kCancelled,
  kFailed,  // see RequestResult::error
};

struct RequestResult {
  Finish finish = Finish::kFailed;
  Status error;  // not ok exactly for kFailed
  std::optional<size_t> stop;  // which of the stops was found, for kStopString
  int64_t prompt_tokens = 0;
  int64_t kept_tokens = 0;    // of the prompt, found in the conversation already
  int64_t answer_tokens = 0;  // given out
  int64_t prompt_ns = 0;      // from the first step of the prompt to its last row
  int64_t answer_ns = 0;      // from there to the end
};

// A request as its owner sees it. Any thread.
class RequestHandle {
 public:
  // Ends the request at the next layer (alone in its step) or step. Once is enough.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

// Hears of one request, on the thread that runs the scheduler. Calls must be short and must not call the scheduler.
class RequestListener {
 public:
  virtual ~RequestListener() = default;
  // A token of the answer, in order. `logprobs` is null unless they were asked for.
  virtual void on_token(int32_t id, const text::Logprobs* logprobs) {
    static_cast<void>(id), static_cast<void>(logprobs);
  }
  // Text of the answer that is certain: whole characters, no stop string, in order.
  virtual void on_text(std::string_view text) = 0;
  // The prompt has come so far.
  virtual void on_prompt(int64_t done, int64_t total) { static_cast<void>(done), static_cast<void>(total); }
  // The last call.
  virtual void on_finish(const RequestResult& result) = 0;
};

}  // namespace strata::engine
