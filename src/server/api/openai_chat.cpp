#include "server/api/openai_chat.h"

#include <algorithm>

#include "base/format.h"

namespace strata::server {
namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};
constexpr std::string_view kTextParts[] = {"text", "input_text", "output_text"};

template <size_t n>
bool is_one_of(std::string_view text, const std::string_view (&list)[n]) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

ApiResult<Json> read_part(const Json& part, const std::string& name) {
  if (!part.is_object()) return invalid_request(format("{} must be an object", name), name, "invalid_type");
  const Fields fields(part, name);
  ASSIGN_OR_RETURN(const std::string type, fields.required_text("type"));
  const bool is_refusal = type == "refusal";
  if (!is_refusal && !is_one_of(type, kTextParts)) {
    return unsupported(format("{}.type is '{}', but this model takes text only", name, printable(type)), name);
  }
  ASSIGN_OR_RETURN(std::string text, fields.required_text(is_refusal ? "refusal" : "text"));
  return Json{{"type", "text"}, {"text", std::move(text)}};
}

ApiResult<Json> read_call(const Json& call, const std::string& name) {
  if (!call.is_object()) return invalid_request(format("{} must be an object", name), name, "invalid_type");
  const Fields fields(call, name);
  ASSIGN_OR_RETURN(const auto type, fields.text("type"));
  if (type && *type != "function") {
    return unsupported(format("{}.type is '{}', but only functions can be called", name, printable(*type)), name);
  }
  ASSIGN_OR_RETURN(const Json* function, fields.object("function"));
  if (function == nullptr) return fields.wrong_type("function", "an object");
  const Fields parts(*function, fields.name("function"));
  ASSIGN_OR_RETURN(const std::string called, parts.required_text("name"));
  const Json* arguments = parts.find("arguments");
  const bool empty = arguments == nullptr || *arguments == "";
  if (!empty && !arguments->is_string() && !arguments->is_object()) {
    return parts.wrong_type("arguments", "a string with a JSON object");
  }
  Json out = {{"id", ""}, {"type", "function"}, {"function", {{"name", called}}}};
  ASSIGN_OR_RETURN(const auto id, fields.text("id"));
  out["id"] = id.value_or("");
  out["function"]["arguments"] = empty ? Json("{}") : *arguments;
  return out;
}

ApiStatus read_calls(const Fields& fields, Json& message) {
  ASSIGN_OR_RETURN(const Json* calls, fields.array("tool_calls"));
  if (calls == nullptr || calls->empty()) return {};
  Json out = Json::array();
  for (size_t i = 0; i < calls->size(); ++i) {
    ASSIGN_OR_RETURN(Json call, read_call((*calls)[i], fields.name("tool_calls", i)));
    out.push_back(std::move(call));
  }
  message["tool_calls"] = std::move(out);
  return {};
}

ApiResult<Json> read_message(const Fields& fields) {
  ASSIGN_OR_RETURN(std::string role, fields.required_text("role"));
  if (!is_one_of(role, kRoles)) {
    return invalid_request(format("{} is '{}', but must be system, developer, user, assistant or tool",
                                  fields.name("role"), printable(role)),
                           fields.name("role"));
  }
  if (role == "function") role = "tool";
  Json message = {{"role", role}};
  const bool may_lack_content = role == "assistant";
  if (!may_lack_content && !fields.has("content")) return fields.wrong_type("content", "a string or an array of parts");
  ASSIGN_OR_RETURN(message["content"], read_content(fields, "content"));
  for (const char* key : {"name", "tool_call_id"}) {
    ASSIGN_OR_RETURN(auto text, fields.text(key));
    if (text) message[key] = *std::move(text);
  }
  if (role != "assistant") return message;
  for (const char* key : {"reasoning_content", "reasoning"}) {
    const Json* reasoning = fields.find(key);
    if (reasoning != nullptr && reasoning->is_string()) {
      message["reasoning_content"] = *reasoning;
      break;
    }
  }
  RETURN_IF_ERROR(read_calls(fields, message));
  return message;
}

ApiStatus read_messages(const Fields& fields, ChatRequest& request) {
  ASSIGN_OR_RETURN(const Json* messages, fields.array("messages"));
  if (messages == nullptr) return fields.wrong_type("messages", "an array of messages");
  if (messages->empty()) return invalid_request("messages is empty; at least one message is needed", "messages");
  for (size_t i = 0; i < messages->size(); ++i) {
    const std::string name = fields.name("messages", i);
    if (!(*messages)[i].is_object()) return invalid_request(format("{} must be an object", name), name, "invalid_type");
    ASSIGN_OR_RETURN(Json message, read_message(Fields((*messages)[i], name)));
    request.messages.push_back(std::move(message));
    request.origins.push_back(name);
  }
  return {};
}

ApiStatus read_tool(const Json& tool, const std::string& name, ChatRequest& request) {
  if (!tool.is_object()) return invalid_request(format("{} must be an object", name), name, "invalid_type");
  const Fields fields(tool, name);
  ASSIGN_OR_RETURN(const std::string type, fields.required_text("type"));
  if (type != "function") {
    return unsupported(format("{}.type is '{}', but only tools of type function can be offered", name,
                              printable(type)), name);
  }
  ASSIGN_OR_RETURN(const Json* function, fields.object("function"));
  if (function == nullptr) return fields.wrong_type("function", "an object");
  const Fields parts(*function, fields.name("function"));
  ASSIGN_OR_RETURN(const std::string called, parts.required_text("name"));
  ASSIGN_OR_RETURN(const auto description, parts.text("description"));
  ASSIGN_OR_RETURN(const Json* parameters, parts.object("parameters"));
  ASSIGN_OR_RETURN(const auto strict, parts.boolean("strict"));
  if (strict.value_or(false)) {
    return unsupported(format("{} is true, but structured output is not implemented yet: arguments can't be held to "
                              "their schema; leave strict out and check them",
                              parts.name("strict")),
                       parts.name("strict"));
  }
  const Json text = description.value_or("");
  return add_tool(request, called, &text, parameters, parts.name("name"));
}

ApiStatus read_tool_choice(const Fields& fields, ChatRequest& request) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return {};
  if (*choice == "none") {
    request.tools = Json::array();
    return {};
  }
  if (*choice == "required" || choice->is_object()) {
    return unsupported("tool_choice forces a call, but structured output is not implemented yet; use \"auto\" or "
                       "\"none\"", "tool_choice");
  }
  return invalid_request(format("tool_choice is {}, but must be \"auto\" or \"none\"", printable(dump(*choice))),
                         "tool_choice");
}

}  // namespace

ApiResult<Json> read_content(const Fields& message, std::string_view key) {
  const Json* content = message.find(key);
  if (content == nullptr) return Json("");
  if (content->is_string()) return *content;
  if (!content->is_array()) return message.wrong_type(key, "a string or an array of parts");
  Json parts = Json::array();
  for (size_t i = 0; i < content->size(); ++i) {
    ASSIGN_OR_RETURN(Json part, read_part((*content)[i], message.name(key, i)));
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return Json("");
  return parts;
}

ApiStatus check_response_format(const Fields& fields) {
  ASSIGN_OR_RETURN(const Json* wanted, fields.object("response_format"));
  if (wanted == nullptr) return {};
  const Fields parts(*wanted, fields.name("response_format"));
  ASSIGN_OR_RETURN(const std::string type, parts.required_text("type"));
  if (type == "text") return {};
  return unsupported(format("{} is '{}', but structured output is not implemented yet: answers can't be held to a "
                            "schema; use \"text\" and check the answer",
                            parts.name("type"), printable(type)),
                     "response_format");
}

ApiResult<ChatRequest> read_openai_chat(const Fields& fields) {
  ChatRequest request;
  RETURN_IF_ERROR(read_messages(fields, request));
  ASSIGN_OR_RETURN(const Json* tools, fields.array("tools"));
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    RETURN_IF_ERROR(read_tool((*tools)[i], fields.name("tools", i), request));
  }
  RETURN_IF_ERROR(read_tool_choice(fields, request));
  ASSIGN_OR_RETURN(const auto parallel, fields.boolean("parallel_tool_calls"));
  request.one_call = !parallel.value_or(true);
  ASSIGN_OR_RETURN(const auto effort, fields.text("reasoning_effort"));
  if (effort) RETURN_IF_ERROR(set_effort(request, *effort, fields.name("reasoning_effort")));
  ASSIGN_OR_RETURN(const Json* variables, fields.object("chat_template_kwargs"));
  if (variables != nullptr) {
    for (const auto& [key, value] : variables->items()) request.variables[key] = value;
  }
  return request;
}

}  // namespace strata::server
