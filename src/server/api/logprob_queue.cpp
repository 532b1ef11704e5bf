#include "server/api/logprob_queue.h"

#include <algorithm>

namespace strata::server {
namespace {

Json token_json(const text::TokenLogprob& token, const text::Tokenizer& tokenizer) {
  const std::string piece = tokenizer.piece(token.id, true);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", piece}, {"logprob", finite_logprob(token.logprob)}, {"bytes", std::move(bytes)}};
}

}  // namespace

void LogprobQueue::on_token(int32_t id, const text::Logprobs& logprobs) {
  const size_t begin = n_decoded_;
  const bool shown = std::binary_search(shown_->begin(), shown_->end(), id);
  n_decoded_ += decoder_.push(tokenizer_->piece(id, shown)).size();
  entries_.push_back({logprobs, begin, n_decoded_});
}

std::vector<text::Logprobs> LogprobQueue::take() {
  std::vector<text::Logprobs> taken;
  while (!entries_.empty() && entries_.front().end <= n_given_) {
    taken.push_back(std::move(entries_.front().logprobs));
    entries_.pop_front();
  }
  return taken;
}

std::vector<text::Logprobs> LogprobQueue::take_rest(bool cut) {
  std::vector<text::Logprobs> taken;
  for (Entry& entry : entries_) {
    if (!cut || entry.begin < n_given_) taken.push_back(std::move(entry.logprobs));
  }
  entries_.clear();
  return taken;
}

double finite_logprob(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

Json logprobs_json(const std::vector<text::Logprobs>& logprobs, const text::Tokenizer& tokenizer) {
  Json out = Json::array();
  for (const text::Logprobs& entry : logprobs) {
    Json token = token_json(entry.chosen, tokenizer);
    token["top_logprobs"] = Json::array();
    for (const text::TokenLogprob& top : entry.top) token["top_logprobs"].push_back(token_json(top, tokenizer));
    out.push_back(std::move(token));
  }
  return out;
}

}  // namespace strata::server
