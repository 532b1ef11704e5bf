#include "server/api/sse_grammar.h"

#include <map>
#include <optional>
#include <set>

#include "base/format.h"

namespace strata::server {
namespace {

std::string quoted(const Json& json) { return json.dump(); }

// Calls of one choice: indices from 0, each with id and name first, then arguments.
std::string fault_of_calls(const Json& calls, size_t& n_calls) {
  for (const Json& call : calls) {
    const size_t index = call.value("index", size_t{999});
    if (!call.contains("function") || !call["function"].contains("arguments")) return "a call without arguments";
    if (call.contains("id")) {
      if (index != n_calls) return format("call {} begins after {} calls", index, n_calls);
      if (!call["function"].contains("name") || call.value("type", "") != "function") return "a call begins nameless";
      ++n_calls;
    } else if (index + 1 != n_calls) {
      return format("arguments of call {} while {} have begun", index, n_calls);
    }
  }
  return "";
}

struct Choice {
  bool has_role = false, finished = false;
  size_t n_calls = 0;
};

std::string fault_of_choice(const Json& choice, Choice& state, bool is_chat) {
  if (state.finished) return "more of a choice that has finished";
  if (!choice.contains("finish_reason") || !choice.contains("logprobs")) return "a choice lacks a field";
  state.finished = !choice["finish_reason"].is_null();
  if (!is_chat) return choice.contains("text") ? "" : "a choice without text";
  const Json& delta = choice.at("delta");
  if (delta.contains("role") == state.has_role) return "the role comes first, and only once";
  state.has_role = true;
  if (state.finished && !delta.empty()) return "the chunk that finishes brings more";
  return delta.contains("tool_calls") ? fault_of_calls(delta["tool_calls"], state.n_calls) : "";
}

}  // namespace

std::string fault_of_chunks(const std::vector<SseEvent>& events, const std::string& object, bool with_usage) {
  if (events.empty() || events.back().data != "[DONE]") return "the last event is not [DONE]";
  std::map<int, Choice> choices;
  std::string id;
  bool failed = false, has_usage = false;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    if (!events[i].name.empty()) return "an event with a name";
    const Json chunk = Json::parse(events[i].data, nullptr, false);
    if (!chunk.is_object()) return "not JSON, or [DONE] before the end: " + events[i].data;
    if (failed || has_usage) return "something follows the error or the usage: " + events[i].data;
    if (chunk.contains("error")) {
      failed = true;
      continue;
    }
    for (const char* key : {"id", "object", "created", "model", "choices"}) {
      if (!chunk.contains(key)) return format("a chunk without {}", key);
    }
    if (chunk["object"] != object) return "object is " + quoted(chunk["object"]);
    if (!id.empty() && chunk["id"] != id) return "the id changes";
    id = chunk["id"].get<std::string>();
    has_usage = chunk.contains("usage");
    if (has_usage != chunk["choices"].empty()) return "usage comes without choices, choices without usage";
    for (const Json& choice : chunk["choices"]) {
      const std::string fault = fault_of_choice(choice, choices[choice.at("index").get<int>()],
                                                object == "chat.completion.chunk");
      if (!fault.empty()) return fault + ": " + events[i].data;
    }
  }
  if (failed) return "";
  if (has_usage != with_usage) return "usage is there unasked, or missing";
  for (const auto& [index, choice] : choices) {
    if (!choice.finished) return format("choice {} never finishes", index);
  }
  return choices.empty() ? "no choice" : "";
}

std::string fault_of_message_stream(const std::vector<SseEvent>& events) {
  static const std::map<std::string, std::set<std::string>> kDeltas = {
      {"text", {"text_delta"}},
      {"thinking", {"thinking_delta", "signature_delta"}},
      {"tool_use", {"input_json_delta"}}};
  enum { kBefore, kOpen, kDelta, kOver } state = kBefore;
  std::optional<std::string> block;
  size_t n_blocks = 0;
  for (const SseEvent& event : events) {
    const Json data = Json::parse(event.data, nullptr, false);
    if (!data.is_object()) return "not JSON: " + event.data;
    const std::string type = data.value("type", "");
    if (type != event.name) return "the name of the event is not its type: " + event.name;
    if (state == kOver) return "something follows the end: " + type;
    if (state == kBefore && type != "message_start" && type != "error") return "begins with " + type;
    if (type == "error") {
      state = kOver;
    } else if (type == "message_start") {
      if (state != kBefore) return "two message_start";
      if (!data.at("message").contains("usage")) return "message_start without usage";
      state = kOpen;
    } else if (type == "ping") {
      continue;
    } else if (type == "message_delta") {
      if (block || state != kOpen) return "message_delta inside a block, or twice";
      if (!data["delta"].value("stop_reason", Json()).is_string()) return "no stop_reason";
      state = kDelta;
    } else if (type == "message_stop") {
      if (state != kDelta) return "message_stop without message_delta";
      state = kOver;
    } else if (state != kOpen) {
      return "a block after message_delta";
    } else if (type == "content_block_start") {
      if (block) return "two blocks open at once";
      if (data.at("index") != n_blocks) return "the index of a block is not the next";
      block = data.at("content_block").at("type").get<std::string>();
    } else if (!block || data.at("index") != n_blocks) {
      return type + " outside its block";
    } else if (type == "content_block_delta") {
      if (!kDeltas.at(*block).contains(data.at("delta").at("type"))) return "a delta of another kind: " + event.data;
    } else if (type == "content_block_stop") {
      block.reset();
      ++n_blocks;
    } else {
      return "unknown event " + type;
    }
  }
  return state == kOver ? "" : "no end";
}

std::string fault_of_response_stream(const std::vector<SseEvent>& events) {
  static const std::map<std::string, std::string> kOwner = {
      {"response.output_text.delta", "message"},         {"response.output_text.done", "message"},
      {"response.reasoning_text.delta", "reasoning"},    {"response.reasoning_text.done", "reasoning"},
      {"response.function_call_arguments.delta", "function_call"},
      {"response.function_call_arguments.done", "function_call"}};
  std::optional<Json> item;  // that is open, as it was added
  std::string text;          // of its deltas
  std::vector<Json> items;
  bool over = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const Json data = Json::parse(events[i].data, nullptr, false);
    if (!data.is_object()) return "not JSON: " + events[i].data;
    const std::string type = data.value("type", "");
    if (type != events[i].name) return "the name of the event is not its type";
    if (data.value("sequence_number", size_t{999}) != i) return "sequence numbers are not in order";
    if (over) return "something follows the end";
    if (i < 2) {
      if (type != (i == 0 ? "response.created" : "response.in_progress")) return "begins with " + type;
      continue;
    }
    if (type == "response.completed" || type == "response.incomplete" || type == "response.failed") {
      over = true;
      if (type == "response.failed") continue;
      if (item) return "an item is still open";
      if (data["response"]["output"] != Json(items)) return "the whole is not the sum of its items";
      if ("response." + data["response"]["status"].get<std::string>() != type) return "status is not the event's";
      continue;
    }
    if (data.at("output_index") != items.size()) return "the index of an item is not the next: " + type;
    if (type == "response.output_item.added") {
      if (item) return "two items open at once";
      item = data["item"];
      text.clear();
      continue;
    }
    if (!item) return type + " outside an item";
    if (type == "response.output_item.done") {
      if (data["item"]["id"] != (*item)["id"] || data["item"]["type"] != (*item)["type"]) return "another item ends";
      items.push_back(data["item"]);
      item.reset();
      continue;
    }
    if (data.at("item_id") != (*item)["id"]) return "the id of an item changes";
    if (type.starts_with("response.content_part.")) continue;
    const auto owner = kOwner.find(type);
    if (owner == kOwner.end()) return "unknown event " + type;
    if ((*item)["type"] != owner->second) return type + " inside a " + quoted((*item)["type"]);
    if (type.ends_with(".delta")) text += data["delta"].get<std::string>();
    const char* whole = owner->second == "function_call" ? "arguments" : "text";
    if (type.ends_with(".done") && data.at(whole) != text) return "the whole is not the sum of its deltas";
  }
  return over ? "" : "no end";
}

}  // namespace strata::server
