// The token loop of one answer: step, logits, sample, publish.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "engine/engine.h"
#include "text/sampler.h"
#include "text/tokenizer.h"

namespace strata::engine {

struct GenerateOptions {
  int64_t max_tokens = 0;                     // published at most; 0 only computes the prompt
  const std::atomic<bool>* cancel = nullptr;  // looked at before every step; null for never
};

enum class StopReason {
  kEndOfText,    // the model ended its answer; the token that says so is not published
  kLimit,        // max_tokens were published
  kContextFull,  // no room for another step
  kCancelled,
};

struct GenerateResult {
  StopReason stop = StopReason::kLimit;
  int64_t n_tokens = 0;     // published
  int64_t prefill_ns = 0;   // computing the prompt
  int64_t generate_ns = 0;  // everything after it, sampling and sink included
};

// Takes each token as soon as it is sampled; a failure ends the answer and is handed to the caller.
using TokenSink = std::function<Status(int32_t id)>;

// Runs `prompt` through `sequence`, then continues it. kBadInput for an empty prompt, one that is longer than what the
// sequence has left of the context (nothing is computed then), and ids outside the vocabulary. The sequence keeps the
// prompt and all published tokens except the last. One thread.
Result<GenerateResult> generate(Engine& engine, model::SequenceState& sequence, const text::Tokenizer& tokenizer,
                                text::Sampler& sampler, std::span<const int32_t> prompt, const GenerateOptions& options,
                                const TokenSink& sink);

}  // namespace strata::engine
