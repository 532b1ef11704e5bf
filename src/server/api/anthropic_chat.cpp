#include "server/api/anthropic_chat.h"

#include <limits>

#include "base/format.h"

namespace strata::server {
namespace {

ApiError no_object(const std::string& name) {
  return invalid_request(format("{} must be an object", name), name, "invalid_type");
}

ApiError unknown_block(const std::string& name, const std::string& type) {
  return unsupported(format("{}.type is '{}', but this model takes text only", name, printable(type)), name);
}

// A string, or blocks of text put one after the other.
ApiResult<std::string> read_text(const Fields& fields, std::string_view key) {
  const Json* content = fields.find(key);
  if (content == nullptr) return std::string();
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return fields.wrong_type(key, "a string or an array of blocks");
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string name = fields.name(key, i);
    if (!(*content)[i].is_object()) return no_object(name);
    const Fields block((*content)[i], name);
    ASSIGN_OR_RETURN(const std::string type, block.required_text("type"));
    if (type != "text") return unknown_block(name, type);
    ASSIGN_OR_RETURN(const std::string part, block.required_text("text"));
    if (!text.empty()) text += "\n";
    text += part;
  }
  return text;
}

// The messages of one turn: a turn with results of tools becomes several.
class TurnReader {
 public:
  TurnReader(std::string role, std::string origin, ChatRequest& request)
      : role_(std::move(role)), origin_(std::move(origin)), request_(request) {}

  ApiStatus take(const Fields& block, const std::string& name) {
    ASSIGN_OR_RETURN(const std::string type, block.required_text("type"));
    if (type == "text") {
      ASSIGN_OR_RETURN(std::string text, block.required_text("text"));
      parts_.push_back({{"type", "text"}, {"text", std::move(text)}});
      return {};
    }
    const bool of_assistant = type == "thinking" || type == "redacted_thinking" || type == "tool_use";
    if (type != "tool_result" && !of_assistant) return unknown_block(name, type);
    if (of_assistant != (role_ == "assistant")) {
      return invalid_request(format("{}.type is '{}', which does not go with the role {}", name, type, role_), name);
    }
    if (type == "thinking") {
      ASSIGN_OR_RETURN(const std::string thought, block.required_text("thinking"));
      reasoning_ += thought;
    }
    if (type == "tool_use") return take_call(block);
    if (type == "tool_result") return take_result(block);
    return {};
  }

  void finish() {
    if (role_ != "assistant" && parts_.empty()) return;
    Json message = {{"role", role_}, {"content", ""}};
    if (!parts_.empty()) message["content"] = std::move(parts_);
    if (!reasoning_.empty()) message["reasoning_content"] = std::move(reasoning_);
    if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
    add(std::move(message));
  }

 private:
  ApiStatus take_call(const Fields& block) {
    ASSIGN_OR_RETURN(const std::string id, block.required_text("id"));
    ASSIGN_OR_RETURN(const std::string called, block.required_text("name"));
    ASSIGN_OR_RETURN(const Json* input, block.object("input"));
    const Json arguments = input == nullptr ? Json::object() : *input;
    calls_.push_back({{"id", id}, {"type", "function"}, {"function", {{"name", called}, {"arguments", arguments}}}});
    return {};
  }

  ApiStatus take_result(const Fields& block) {
    ASSIGN_OR_RETURN(const std::string id, block.required_text("tool_use_id"));
    ASSIGN_OR_RETURN(std::string text, read_text(block, "content"));
    add({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(text)}});
    return {};
  }

  void add(Json message) {
    request_.messages.push_back(std::move(message));
    request_.origins.push_back(origin_);
  }

  const std::string role_, origin_;
  ChatRequest& request_;
  Json parts_ = Json::array(), calls_ = Json::array();
  std::string reasoning_;
};

ApiStatus read_turn(const Fields& fields, const std::string& name, ChatRequest& request) {
  ASSIGN_OR_RETURN(const std::string role, fields.required_text("role"));
  if (role != "user" && role != "assistant" && role != "system") {
    return invalid_request(format("{} is '{}', but must be user or assistant", fields.name("role"), printable(role)),
                           fields.name("role"));
  }
  const Json* content = fields.find("content");
  const bool is_text = content != nullptr && content->is_string();
  if (!is_text && (content == nullptr || !content->is_array())) {
    return fields.wrong_type("content", "a string or an array of blocks");
  }
  if (is_text) {
    request.messages.push_back({{"role", role}, {"content", *content}});
    request.origins.push_back(name);
    return {};
  }
  TurnReader turn(role, name, request);
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string block = fields.name("content", i);
    if (!(*content)[i].is_object()) return no_object(block);
    RETURN_IF_ERROR(turn.take(Fields((*content)[i], block), block));
  }
  turn.finish();
  return {};
}

ApiStatus read_tools(const Fields& fields, ChatRequest& request) {
  ASSIGN_OR_RETURN(const Json* tools, fields.array("tools"));
  if (tools == nullptr) return {};
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string name = fields.name("tools", i);
    if (!(*tools)[i].is_object()) return no_object(name);
    const Fields tool((*tools)[i], name);
    ASSIGN_OR_RETURN(const auto type, tool.text("type"));
    if (type && *type != "custom") {
      return unsupported(format("{}.type is '{}', but only tools that the client runs can be offered, with a name and "
                                "an input_schema", name, printable(*type)),
                         name);
    }
    ASSIGN_OR_RETURN(const std::string called, tool.required_text("name"));
    ASSIGN_OR_RETURN(const auto description, tool.text("description"));
    ASSIGN_OR_RETURN(const Json* schema, tool.object("input_schema"));
    ASSIGN_OR_RETURN(const auto strict, tool.boolean("strict"));
    if (strict.value_or(false)) {
      return unsupported(format("{} is true, but structured output is not implemented yet: arguments can't be held to "
                                "their schema; leave strict out and check them", tool.name("strict")),
                         tool.name("strict"));
    }
    const Json text = description.value_or("");
    RETURN_IF_ERROR(add_tool(request, called, &text, schema, tool.name("name")));
  }
  return {};
}

ApiStatus read_tool_choice(const Fields& fields, ChatRequest& request) {
  ASSIGN_OR_RETURN(const Json* choice, fields.object("tool_choice"));
  if (choice == nullptr) return {};
  const Fields parts(*choice, fields.name("tool_choice"));
  ASSIGN_OR_RETURN(const std::string type, parts.required_text("type"));
  ASSIGN_OR_RETURN(const auto one_call, parts.boolean("disable_parallel_tool_use"));
  request.one_call = one_call.value_or(false);
  if (type == "auto") return {};
  if (type == "none") {
    request.tools = Json::array();
    return {};
  }
  if (type != "any" && type != "tool") {
    return invalid_request(format("tool_choice.type is '{}', but must be auto or none", printable(type)),
                           "tool_choice.type");
  }
  return unsupported("tool_choice forces a call, but structured output is not implemented yet; use auto or none",
                     "tool_choice");
}

// The protocol's own default is not to reason.
ApiStatus read_thinking(const Fields& fields, ChatRequest& request) {
  request.thinking = false;
  ASSIGN_OR_RETURN(const Json* thinking, fields.object("thinking"));
  if (thinking != nullptr) {
    const Fields parts(*thinking, fields.name("thinking"));
    ASSIGN_OR_RETURN(const std::string type, parts.required_text("type"));
    if (type != "enabled" && type != "adaptive" && type != "disabled") {
      return invalid_request(format("thinking.type is '{}', but must be enabled, adaptive or disabled",
                                    printable(type)), "thinking.type");
    }
    request.thinking = type != "disabled";
    ASSIGN_OR_RETURN(request.reasoning_budget,
                     parts.integer("budget_tokens", 1, std::numeric_limits<int64_t>::max()));
  }
  ASSIGN_OR_RETURN(const Json* config, fields.object("output_config"));
  if (config == nullptr) return {};
  const Fields parts(*config, fields.name("output_config"));
  if (parts.has("format")) {
    return unsupported("output_config.format: structured output is not implemented yet", "output_config.format");
  }
  ASSIGN_OR_RETURN(const auto effort, parts.text("effort"));
  if (!effort) return {};
  const std::optional<bool> wanted = request.thinking;
  RETURN_IF_ERROR(set_effort(request, *effort, parts.name("effort")));
  request.thinking = wanted;  // effort is for all of the answer here
  return {};
}

}  // namespace

ApiResult<ChatRequest> read_anthropic_chat(const Fields& fields) {
  for (const char* key : {"output_format", "mcp_servers", "container"}) {
    if (fields.has(key)) return unsupported(format("{} is not something this server does; leave it out", key), key);
  }
  ChatRequest request;
  ASSIGN_OR_RETURN(std::string system, read_text(fields, "system"));
  if (!system.empty()) {
    request.messages.push_back({{"role", "system"}, {"content", std::move(system)}});
    request.origins.push_back("system");
  }
  ASSIGN_OR_RETURN(const Json* messages, fields.array("messages"));
  if (messages == nullptr) return fields.wrong_type("messages", "an array of messages");
  if (messages->empty()) return invalid_request("at least one message is needed", "messages");
  for (size_t i = 0; i < messages->size(); ++i) {
    const std::string name = fields.name("messages", i);
    if (!(*messages)[i].is_object()) return no_object(name);
    RETURN_IF_ERROR(read_turn(Fields((*messages)[i], name), name, request));
  }
  RETURN_IF_ERROR(read_tools(fields, request));
  RETURN_IF_ERROR(read_tool_choice(fields, request));
  RETURN_IF_ERROR(read_thinking(fields, request));
  if (request.messages.empty()) return invalid_request("the messages are empty", "messages");
  const Json& last = request.messages.back();
  request.continues = last["role"] == "assistant" && !last.contains("tool_calls") && last["content"] != "";
  return request;
}

}  // namespace strata::server
