#include "server/api/tool_prompt.h"

namespace strata::server {
namespace {

std::string description_of(const Json& tools) {
  std::string text = "You can call functions. These are their signatures, one JSON object a line:\n<tools>\n";
  for (const Json& tool : tools) text += dump(tool.at("function")) + "\n";
  text +=
      "</tools>\nTo call one, answer with its name and arguments as JSON between these tags, once for each call:\n"
      "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"ARGUMENT\": VALUE}}\n</tool_call>";
  return text;
}

// {"name", "arguments"} as the model wrote it, or would have.
std::string call_text(const Json& call) {
  const Json& function = call.at("function");
  const Json& arguments = function.at("arguments");
  const std::string object = arguments.is_string() ? arguments.get<std::string>() : dump(arguments);
  return "<tool_call>\n{\"name\": " + dump(function.at("name")) + ", \"arguments\": " + object + "}\n</tool_call>";
}

void put_calls_into_words(Json& message) {
  if (!message.contains("tool_calls")) return;
  std::string text = text_of(message.value("content", Json()));
  for (const Json& call : message["tool_calls"]) text += (text.empty() ? "" : "\n") + call_text(call);
  message["content"] = text;
  message.erase("tool_calls");
}

Json result_message(const Json& message) {
  return {{"role", "user"},
          {"content", "<tool_response>\n" + text_of(message.value("content", Json())) + "\n</tool_response>"}};
}

}  // namespace

void describe_tools(Json& messages, const Json& tools) {
  Json out = Json::array();
  for (Json& message : messages) {
    put_calls_into_words(message);
    if (message["role"] != "tool") {
      out.push_back(std::move(message));
    } else if (!out.empty() && out.back().contains("from_tools")) {
      // Results that follow one another are one turn: roles alternate in many templates.
      out.back()["content"].get_ref<std::string&>() += "\n" + text_of(result_message(message)["content"]);
    } else {
      out.push_back(result_message(message));
      out.back()["from_tools"] = true;
    }
  }
  for (Json& message : out) message.erase("from_tools");
  if (!tools.empty()) {
    const std::string description = description_of(tools);
    if (!out.empty() && out[0]["role"] == "system") {
      out[0]["content"] = text_of(out[0]["content"]) + "\n\n" + description;
    } else {
      out.insert(out.begin(), Json{{"role", "system"}, {"content", description}});
    }
  }
  messages = std::move(out);
}

}  // namespace strata::server
