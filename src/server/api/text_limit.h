// How much text of one request is rendered and tokenised: both take time and some 50 times its memory, and what is far
// longer than any context would take them for nothing.
#pragma once

#include "server/api/endpoint.h"
#include "server/api/json.h"

namespace strata::server {

// Tokens that a request may be about whatever the model's context is.
inline constexpr int64_t kLeastTokenLimit = 65'536;

// The context's tokens, or kLeastTokenLimit where that is more.
int64_t max_tokens_of_text(const ServedModel& model);
// 16 bytes for each of those tokens: three to four times what languages and code take.
size_t max_text_bytes(const ServedModel& model);

// Bytes of all texts and names in it, and 8 for every value.
size_t text_cost(const Json& json);

// 400 context_length_exceeded for prompts whose text is longer than max_text_bytes().
ApiStatus check_prompt_text(size_t bytes, const ServedModel& model, const std::string& param);
// 413 for what is longer; `unit` is "bytes" or "tokens".
ApiStatus check_size(size_t size, size_t most, const char* unit, const std::string& param);

}  // namespace strata::server
