#include "server/api/responses_chat.h"

#include <algorithm>

#include "base/format.h"
#include "server/api/openai_chat.h"

namespace strata::server {
namespace {

constexpr const char* kRemembering[] = {"previous_response_id", "conversation", "prompt", "background"};
// What the API's own server runs by itself. Clients offer these unasked; a model that is not told of them does without.
constexpr std::string_view kHostedTools[] = {"web_search", "web_search_preview", "file_search", "code_interpreter",
                                             "image_generation"};

ApiError no_object(const std::string& name) {
  return invalid_request(format("{} must be an object", name), name, "invalid_type");
}

bool is_hosted(const std::string& type) {
  return std::any_of(std::begin(kHostedTools), std::end(kHostedTools),
                     [&](std::string_view hosted) { return type.starts_with(hosted); });
}

// Items of the assistant that follow one another are one message of a conversation.
class ItemReader {
 public:
  explicit ItemReader(ChatRequest& request) : request_(request) {}

  ApiStatus take(const Json& item, const std::string& name) {
    if (!item.is_object()) return no_object(name);
    const Fields fields(item, name);
    ASSIGN_OR_RETURN(const auto given, fields.text("type"));
    const std::string type = given.value_or("message");
    if (type == "message") return take_message(fields, name);
    if (type == "reasoning") return take_reasoning(fields, name);
    if (type == "function_call") return take_call(fields, name);
    if (type == "function_call_output") return take_output(fields, name);
    return unsupported(format("{}.type is '{}', but must be message, reasoning, function_call or function_call_output",
                              name, printable(type)), name);
  }

 private:
  ApiStatus take_message(const Fields& fields, const std::string& name) {
    ASSIGN_OR_RETURN(const std::string role, fields.required_text("role"));
    if (role != "system" && role != "developer" && role != "user" && role != "assistant") {
      return invalid_request(format("{} is '{}', but must be system, developer, user or assistant",
                                    fields.name("role"), printable(role)), fields.name("role"));
    }
    ASSIGN_OR_RETURN(Json content, read_content(fields, "content"));
    if (role != "assistant") {
      add({{"role", role}, {"content", std::move(content)}}, name);
    } else {
      Json& message = assistant(name, "content");
      message["content"] = std::move(content);
    }
    return {};
  }

  // The text of its content, else of its summary.
  ApiStatus take_reasoning(const Fields& fields, const std::string& name) {
    std::string text;
    for (const char* key : {"content", "summary"}) {
      ASSIGN_OR_RETURN(const Json* parts, fields.array(key));
      if (parts == nullptr || !text.empty()) continue;
      for (size_t i = 0; i < parts->size(); ++i) {
        if (!(*parts)[i].is_object()) return no_object(fields.name(key, i));
        ASSIGN_OR_RETURN(const auto part, Fields((*parts)[i], fields.name(key, i)).text("text"));
        text += part.value_or("");
      }
    }
    if (!text.empty()) assistant(name, "reasoning_content")["reasoning_content"] = std::move(text);
    return {};
  }

  ApiStatus take_call(const Fields& fields, const std::string& name) {
    ASSIGN_OR_RETURN(const std::string id, fields.required_text("call_id"));
    ASSIGN_OR_RETURN(const std::string called, fields.required_text("name"));
    ASSIGN_OR_RETURN(const auto arguments, fields.text("arguments"));
    const bool empty = !arguments || arguments->empty();
    Json function = {{"name", called}, {"arguments", empty ? "{}" : *arguments}};
    Json& message = assistant(name, "");
    message["tool_calls"].push_back({{"id", id}, {"type", "function"}, {"function", std::move(function)}});
    return {};
  }

  ApiStatus take_output(const Fields& fields, const std::string& name) {
    ASSIGN_OR_RETURN(const std::string id, fields.required_text("call_id"));
    ASSIGN_OR_RETURN(Json output, read_content(fields, "output"));
    add({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(output)}}, name);
    return {};
  }

  void add(Json message, const std::string& name) {
    request_.messages.push_back(std::move(message));
    request_.origins.push_back(name);
  }

  // The assistant's message that is being put together, if `key` is not in it yet; else another one.
  Json& assistant(const std::string& name, const char* key) {
    const Json* last = request_.messages.empty() ? nullptr : &request_.messages.back();
    const bool goes_on = last != nullptr && (*last)["role"] == "assistant";
    const bool fits = goes_on && (*key == '\0' || (!last->contains("tool_calls") && last->value(key, Json("")) == ""));
    if (!fits) add({{"role", "assistant"}, {"content", ""}}, name);
    return request_.messages.back();
  }

  ChatRequest& request_;
};

ApiStatus read_input(const Fields& fields, ChatRequest& request) {
  const Json* input = fields.find("input");
  if (input == nullptr) return fields.wrong_type("input", "a string or an array of items");
  if (input->is_string()) {
    request.messages.push_back({{"role", "user"}, {"content", *input}});
    request.origins.push_back("input");
    return {};
  }
  if (!input->is_array()) return fields.wrong_type("input", "a string or an array of items");
  ItemReader reader(request);
  for (size_t i = 0; i < input->size(); ++i) RETURN_IF_ERROR(reader.take((*input)[i], fields.name("input", i)));
  return {};
}

ApiStatus read_tool(const Json& tool, const std::string& name, ChatRequest& request) {
  if (!tool.is_object()) return no_object(name);
  const Fields fields(tool, name);
  ASSIGN_OR_RETURN(const std::string type, fields.required_text("type"));
  if (is_hosted(type)) return {};
  if (type != "function") {
    return unsupported(format("{}.type is '{}', but only tools of type function can be offered", name,
                              printable(type)), name);
  }
  ASSIGN_OR_RETURN(const std::string called, fields.required_text("name"));
  ASSIGN_OR_RETURN(const auto description, fields.text("description"));
  ASSIGN_OR_RETURN(const Json* parameters, fields.object("parameters"));
  ASSIGN_OR_RETURN(const auto strict, fields.boolean("strict"));
  if (strict.value_or(false)) {
    return unsupported(format("{} is true, but structured output is not implemented yet: arguments can't be held to "
                              "their schema; set strict to false and check them", fields.name("strict")),
                       fields.name("strict"));
  }
  const Json text = description.value_or("");
  return add_tool(request, called, &text, parameters, fields.name("name"));
}

ApiStatus read_tools(const Fields& fields, ChatRequest& request) {
  ASSIGN_OR_RETURN(const Json* tools, fields.array("tools"));
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    RETURN_IF_ERROR(read_tool((*tools)[i], fields.name("tools", i), request));
  }
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

ApiStatus check_text(const Fields& fields) {
  ASSIGN_OR_RETURN(const Json* text, fields.object("text"));
  if (text == nullptr) return {};
  ASSIGN_OR_RETURN(const Json* wanted, Fields(*text, "text").object("format"));
  if (wanted == nullptr) return {};
  ASSIGN_OR_RETURN(const std::string type, Fields(*wanted, "text.format").required_text("type"));
  if (type == "text") return {};
  return unsupported(format("text.format.type is '{}', but structured output is not implemented yet; use \"text\" and "
                            "check the answer", printable(type)), "text.format");
}

// Nothing is kept: clients send the whole conversation each time.
ApiStatus refuse_remembering(const Fields& fields) {
  for (const char* key : kRemembering) {
    const Json* value = fields.find(key);
    if (value == nullptr || *value == false) continue;
    return unsupported(format("{}: this server keeps no responses; send the whole conversation as input", key), key);
  }
  ASSIGN_OR_RETURN(const auto store, fields.boolean("store"));
  if (store.value_or(false)) {
    return unsupported("store: this server keeps no responses; set it to false or leave it out", "store");
  }
  ASSIGN_OR_RETURN(const auto truncation, fields.text("truncation"));
  if (truncation.value_or("disabled") != "disabled") {
    return unsupported("truncation must be \"disabled\": input is never cut", "truncation");
  }
  return {};
}

}  // namespace

ApiResult<ChatRequest> read_responses_chat(const Fields& fields) {
  RETURN_IF_ERROR(refuse_remembering(fields));
  RETURN_IF_ERROR(check_text(fields));
  ChatRequest request;
  ASSIGN_OR_RETURN(const auto instructions, fields.text("instructions"));
  if (instructions && !instructions->empty()) {
    request.messages.push_back({{"role", "system"}, {"content", *instructions}});
    request.origins.push_back("instructions");
  }
  RETURN_IF_ERROR(read_input(fields, request));
  if (request.messages.empty()) return invalid_request("input is empty; at least one item is needed", "input");
  RETURN_IF_ERROR(read_tools(fields, request));
  ASSIGN_OR_RETURN(const auto parallel, fields.boolean("parallel_tool_calls"));
  request.one_call = !parallel.value_or(true);
  ASSIGN_OR_RETURN(const Json* reasoning, fields.object("reasoning"));
  if (reasoning != nullptr) {
    const Fields parts(*reasoning, fields.name("reasoning"));
    ASSIGN_OR_RETURN(const auto effort, parts.text("effort"));
    if (effort) RETURN_IF_ERROR(set_effort(request, *effort, parts.name("effort")));
  }
  return request;
}

}  // namespace strata::server
