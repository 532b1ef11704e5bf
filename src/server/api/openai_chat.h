// The body of an OpenAI chat, into a conversation.
#pragma once

#include "server/api/chat_request.h"

namespace strata::server {

// "messages", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "chat_template_kwargs".
ApiResult<ChatRequest> read_openai_chat(const Fields& fields);

// 400 unless it asks for plain text.
ApiStatus check_response_format(const Fields& fields);

// Content as a string, or parts of text; null becomes "". 400 for anything but text.
ApiResult<Json> read_content(const Fields& message, std::string_view key);

}  // namespace strata::server
