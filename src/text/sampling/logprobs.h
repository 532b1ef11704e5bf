// What the model itself thought of a token: log-probabilities of raw logits, before any sampling stage.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata::text {

struct TokenLogprob {
  int32_t id;
  float logprob;  // natural; -infinity for an impossible token
};

struct Logprobs {
  TokenLogprob chosen = {};
  std::vector<TokenLogprob> top;  // most probable first, the lower id among equals
};

// Log-softmax of logits[n_vocab], NaN counting as -infinity. 0 <= chosen < n_vocab; `n_top` is cut to [0, n_vocab].
// When no token is possible all are -infinity. `out` keeps its memory from call to call.
void log_probabilities(std::span<const float> logits, int32_t chosen, int32_t n_top, Logprobs& out);

}  // namespace strata::text
