// What strata eval can compute: one file each, and a row in commands/eval.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "engine/engine.h"

namespace strata::cli {

// Log-probabilities of all tokens after each id, to a file.
Status eval_logprobs(const Settings& settings);
// How well the model foresees a text.
Status eval_perplexity(const Settings& settings);
// How far the model's log-probabilities are from those in a file.
Status eval_kl(const Settings& settings);

// log(softmax(logits)), summed in double. `out` is as long as `logits`.
void log_softmax(std::span<const float> logits, std::span<float> out);

// The ids of --ids-file; kBadInput when there are none.
Result<std::vector<int32_t>> read_some_ids(const std::string& path, int64_t n_vocab);

// Sets the context that `n` tokens need, where the settings leave it open; fewer would not do. `what` is what one of
// them is called in messages.
Status fit_context(engine::EngineConfig& config, size_t n, const char* what);

// Runs ids through a sequence of its own and hands out the log-probabilities [n_vocab] after each, from `first` on.
using RowSink = std::function<Status(std::span<const float> row)>;
Status for_each_row(engine::Engine& engine, std::span<const int32_t> ids, size_t first, const RowSink& sink);

}  // namespace strata::cli
