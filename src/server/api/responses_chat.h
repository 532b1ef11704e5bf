// The body of a request for a response, as OpenAI's newer API has it, into a conversation.
#pragma once

#include "server/api/chat_request.h"

namespace strata::server {

// "instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text". 400 for all that needs a
// server that remembers.
ApiResult<ChatRequest> read_responses_chat(const Fields& fields);

}  // namespace strata::server
