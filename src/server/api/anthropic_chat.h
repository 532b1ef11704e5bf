// The body of an Anthropic request for a message, into a conversation.
#pragma once

#include "server/api/chat_request.h"

namespace strata::server {

// "system", "messages", "tools", "tool_choice", "thinking", "output_config". 400 for images, documents and tools that
// the server itself would have to run.
ApiResult<ChatRequest> read_anthropic_chat(const Fields& fields);

}  // namespace strata::server
