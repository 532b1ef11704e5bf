// Log-probabilities of the tokens whose text has been given out: text may be held back behind its tokens, and what a
// stop string cuts off was never part of the answer.
#pragma once

#include <deque>
#include <string_view>
#include <vector>

#include "server/api/json.h"
#include "text/detokenizer.h"
#include "text/sampling/logprobs.h"
#include "text/tokenizer.h"

namespace strata::server {

class LogprobQueue {
 public:
  // `shown`: see RequestParams::shown_tokens; both outlive the queue.
  LogprobQueue(const text::Tokenizer& tokenizer, const std::vector<int32_t>& shown)
      : tokenizer_(&tokenizer), shown_(&shown) {}

  void on_token(int32_t id, const text::Logprobs& logprobs);
  void on_text(std::string_view text) { n_given_ += text.size(); }
  // Those whose text is given out, in order; each only once.
  std::vector<text::Logprobs> take();
  // What is left at the end of the answer. `cut`: a stop string was cut off it.
  std::vector<text::Logprobs> take_rest(bool cut);

 private:
  struct Entry {
    text::Logprobs logprobs;
    size_t begin, end;  // in the decoded text
  };
  const text::Tokenizer* tokenizer_;
  const std::vector<int32_t>* shown_;
  text::StreamDecoder decoder_{text::InvalidBytes::kReplace};
  std::deque<Entry> entries_;
  size_t n_decoded_ = 0, n_given_ = 0;
};

// A log-probability as JSON, which has no infinity.
double finite_logprob(float logprob);

// [{"token", "logprob", "bytes", "top_logprobs"}], as chats and responses have it.
Json logprobs_json(const std::vector<text::Logprobs>& logprobs, const text::Tokenizer& tokenizer);

}  // namespace strata::server
