// A conversation as templates take it, whatever protocol it came in, and the prompt that it becomes.
#pragma once

#include <optional>
#include <string>

#include "server/api/answer_parser.h"
#include "server/api/endpoint.h"
#include "server/api/json.h"
#include "server/api/tool_set.h"

namespace strata::server {

struct ChatRequest {
  // Messages in the form of the OpenAI API: role, content (a string or parts of text), reasoning_content, tool_calls,
  // tool_call_id.
  Json messages = Json::array();
  std::vector<std::string> origins;  // of each message, for errors: "messages[3]"
  Json tools = Json::array();        // [{"type": "function", "function": {...}}]
  bool one_call = false;             // at most one call of a tool is wanted
  std::optional<bool> thinking;      // whether the model is to reason; its own way where absent
  std::optional<int64_t> reasoning_budget;  // tokens of reasoning, at most
  Json variables = Json::object();   // for the template
  bool continues = false;            // the last message is the beginning of the answer
};

struct ChatPrompt {
  std::vector<int32_t> ids;
  AnswerStyle style;  // but for the tools, which the caller keeps
};

// A function as all protocols describe it, into `tools`. 400 for a name that can't be written in a call.
ApiStatus add_tool(ChatRequest& request, const std::string& name, const Json* description, const Json* parameters,
                   const std::string& param);

// "none" turns reasoning off, other efforts turn it on and go to the template. 400 for unknown ones.
ApiStatus set_effort(ChatRequest& request, const std::string& effort, const std::string& param);

// 400 for a conversation that the model's template refuses. Whether there is room for it is the caller's question.
ApiResult<ChatPrompt> make_prompt(const ChatRequest& request, const ServedModel& model);

// Control tokens that the parser needs to see.
std::vector<int32_t> shown_tokens(const AnswerStyle& style, const text::Tokenizer& tokenizer);

}  // namespace strata::server
