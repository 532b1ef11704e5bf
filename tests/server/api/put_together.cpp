#include "server/api/put_together.h"

namespace strata::server {
namespace {

void add_call(Json& message, const Json& call) {
  if (call.contains("id")) {
    message["tool_calls"].push_back({{"name", call["function"].value("name", "")}, {"text", ""}});
  }
  Json& text = message["tool_calls"].back()["text"];
  text = text.get<std::string>() + call["function"]["arguments"].get<std::string>();
}

void add_delta(Json& message, const Json& delta) {
  for (const auto& [key, value] : delta.items()) {
    if (key == "tool_calls") {
      for (const Json& call : value) add_call(message, call);
    } else if (key != "role") {
      message[key] = message.value(key, std::string()) + value.get<std::string>();
    }
  }
}

// Arguments that are no object stand under a name of their own.
Json input_of(const std::string& text) {
  Json input = Json::parse(text, nullptr, false);
  return input.is_object() ? input : Json{{"invalid_json", text}};
}

}  // namespace

Json put_together(const Reply& reply, int index) {
  Json message = {{"content", ""}};
  Json finish;
  for (const Json& chunk : reply.data()) {
    for (const Json& choice : chunk.value("choices", Json::array())) {
      if (choice["index"] != index) continue;
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
      add_delta(message, choice["delta"]);
    }
  }
  message["finish"] = finish;
  return message;
}

Json whole_message(const Json& choice) {
  const Json& from = choice["message"];
  Json message = {{"content", from["content"].is_null() ? Json("") : from["content"]}};
  if (from.contains("reasoning_content")) message["reasoning_content"] = from["reasoning_content"];
  for (const Json& call : from.value("tool_calls", Json::array())) {
    message["tool_calls"].push_back({{"name", call["function"]["name"]}, {"text", call["function"]["arguments"]}});
  }
  message["finish"] = choice["finish_reason"];
  return message;
}

Json put_blocks_together(const Reply& reply) {
  Json content = Json::array();
  for (const Json& event : reply.data()) {
    if (event["type"] == "content_block_start") {
      content.push_back(event["content_block"]);
      if (content.back()["type"] == "tool_use") content.back()["input"] = "";
    }
    if (event["type"] == "content_block_stop" && content.back()["type"] == "tool_use") {
      content.back()["input"] = input_of(content.back()["input"].get<std::string>());
    }
    if (event["type"] != "content_block_delta") continue;
    for (const auto& [key, to] : {std::pair{"text", "text"}, {"thinking", "thinking"}, {"signature", "signature"},
                                  {"partial_json", "input"}}) {
      if (!event["delta"].contains(key)) continue;
      content.back()[to] = content.back()[to].get<std::string>() + event["delta"][key].get<std::string>();
    }
  }
  return content;
}

}  // namespace strata::server
