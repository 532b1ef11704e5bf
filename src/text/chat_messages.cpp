#include "text/chat_messages.h"

#include "base/format.h"
#include "text/jinja/limits.h"
#include "text/json_reader.h"

namespace strata::text {
namespace {

using Json = nlohmann::ordered_json;

// Copies of deeper data would recurse too far.
bool is_deeper_than(const Json& json, int levels) {
  if (!json.is_structured()) return false;
  if (levels == 0) return true;
  for (const Json& item : json) {
    if (is_deeper_than(item, levels - 1)) return true;
  }
  return false;
}

Status check_array(const Json& json, const char* what) {
  if (!json.is_array()) {
    return Error{ErrorCode::kBadInput, format("{} must be an array, not {}", what, json.type_name())};
  }
  if (is_deeper_than(json, jinja::kMaxNesting)) {
    return Error{ErrorCode::kBadInput, format("{} are nested more than {} deep", what, jinja::kMaxNesting)};
  }
  return {};
}

// The texts of parts, a line each. nullopt where there is something else among them.
std::optional<std::string> text_of_parts(const Json& parts) {
  std::string out;
  bool first = true;
  for (const Json& part : parts) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) return std::nullopt;
    if (!std::exchange(first, false)) out += '\n';
    out += part["text"].get_ref<const std::string&>();
  }
  return out;
}

void fit_content(Json& message, const ChatAbilities& abilities) {
  const bool has_calls = message.contains("tool_calls") && !message["tool_calls"].empty();
  Json& content = message["content"];
  const bool is_empty = content.is_null() || content == "";
  if (is_empty && has_calls && abilities.null_with_calls) {
    content = nullptr;
  } else if (content.is_null()) {
    content = abilities.text_content ? Json("") : Json::array();
  } else if (content.is_array() && !abilities.content_parts) {
    if (auto text = text_of_parts(content)) content = *std::move(text);
  } else if (content.is_string() && !abilities.text_content) {
    content = Json::array({{{"type", "text"}, {"text", content}}});
  }
}

// As Python's json.dumps() writes it, which is how models have seen it.
void append_json(std::string& out, const Json& json) {
  if (!json.is_structured()) {
    out += json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  out += json.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    if (!std::exchange(first, false)) out += ", ";
    if (json.is_object()) out += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
    append_json(out, value);
  }
  out += json.is_array() ? ']' : '}';
}

void fit_arguments(Json& arguments, const ChatAbilities& abilities) {
  if (arguments.is_string() && abilities.object_arguments && !abilities.text_arguments) {
    auto parsed = read_json(arguments.get_ref<const std::string&>(), jinja::kMaxNesting);
    if (parsed.ok() && parsed->is_object()) arguments = *std::move(parsed);
  } else if (arguments.is_structured() && abilities.text_arguments && !abilities.object_arguments) {
    std::string text;
    append_json(text, arguments);
    arguments = std::move(text);
  }
}

void fit_calls(Json& message, const ChatAbilities& abilities) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (Json& call : message["tool_calls"]) {
    if (!call.is_object()) continue;
    Json& function = call.contains("function") && call["function"].is_object() ? call["function"] : call;
    if (function.contains("arguments")) fit_arguments(function["arguments"], abilities);
  }
}

// Some templates read reasoning under one name, some under the other.
void copy_reasoning(Json& message) {
  const auto given = [&](const char* key) { return message.contains(key) && message[key].is_string(); };
  if (given("reasoning_content") && !message.contains("thinking")) {
    message["thinking"] = message["reasoning_content"];
  } else if (given("thinking") && !message.contains("reasoning_content")) {
    message["reasoning_content"] = message["thinking"];
  }
}

template <class Change>
Json changed_functions(Json tools, const Change& change) {
  for (Json& tool : tools) {
    change(tool.contains("function") && tool["function"].is_object() ? tool["function"] : tool);
  }
  return tools;
}

}  // namespace

Result<Json> fit_messages(const Json& messages, const ChatAbilities& abilities) {
  RETURN_IF_ERROR(check_array(messages, "the messages"));
  if (messages.empty()) return Error{ErrorCode::kBadInput, "there is no message; at least one is needed"};
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object()) {
      return Error{ErrorCode::kBadInput, format("message {} must be an object, not {}", i, message.type_name())};
    }
    if (!message.contains("role") || !message["role"].is_string()) {
      return Error{ErrorCode::kBadInput, format("message {} has no role, as \"role\": \"user\"", i)};
    }
  }
  Json out = messages;
  for (Json& message : out) {
    fit_content(message, abilities);
    fit_calls(message, abilities);
    copy_reasoning(message);
  }
  return out;
}

Result<Json> fit_tools(const Json* tools) {
  if (tools == nullptr || tools->is_null()) return Json(nullptr);
  RETURN_IF_ERROR(check_array(*tools, "the tools"));
  for (size_t i = 0; i < tools->size(); ++i) {
    if ((*tools)[i].is_object()) continue;
    return Error{ErrorCode::kBadInput, format("tool {} must be an object, not {}", i, (*tools)[i].type_name())};
  }
  if (tools->empty()) return Json(nullptr);
  return changed_functions(*tools, [](Json& function) {
    if (function.contains("description") && function["description"].is_null()) function["description"] = "";
  });
}

Json with_all_fields(const Json& tools) {
  return changed_functions(tools, [](Json& function) {
    if (!function.contains("description")) function["description"] = "";
    Json& parameters = function["parameters"];
    if (!parameters.is_object()) parameters = Json::object();
    if (!parameters.contains("type")) parameters["type"] = "object";
    if (!parameters.contains("properties")) parameters["properties"] = Json::object();
  });
}

}  // namespace strata::text
