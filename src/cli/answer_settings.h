// From settings to what is asked of the scheduler for an answer.
#pragma once

#include <cstdint>
#include <optional>

#include "base/settings.h"
#include "engine/request.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace strata::cli {

// --seed, else one of this process's own.
uint32_t seed_of(const Settings& settings);

// `auto_predict`: what --predict auto means; nothing for as much as the context leaves. kBadInput names a flag or the
// model's key.
Result<engine::RequestParams> request_params(const Settings& settings, const gguf::Model& model,
                                             const text::Tokenizer& tokenizer, uint32_t seed,
                                             std::optional<int64_t> auto_predict);

// What --reasoning tells the chat template; nothing for auto.
std::optional<bool> thinking_of(const Settings& settings);

}  // namespace strata::cli
