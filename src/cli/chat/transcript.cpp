#include "cli/chat/transcript.h"

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/output_file.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_text(const Json& message, const char* key) { return message.contains(key) && message.at(key).is_string(); }

Result<Message> message_of(const Json& json, size_t index, const std::string& origin) {
  const auto wrong = [&](const char* what) {
    return Error{ErrorCode::kBadInput, format("{}: message {} {}", origin, index, what)};
  };
  if (!json.is_object() || !is_text(json, "role") || !is_text(json, "content")) {
    return wrong("is not an object with a role and a text as content");
  }
  Message message{.role = json.at("role").get<std::string>(), .content = json.at("content").get<std::string>()};
  if (message.role != "system" && message.role != "user" && message.role != "assistant") {
    return wrong("has a role other than system, user and assistant");
  }
  if (message.role == "system" && index != 0) return wrong("is of the system, but not the first");
  if (is_text(json, "reasoning_content")) message.reasoning = json.at("reasoning_content").get<std::string>();
  return message;
}

}  // namespace

void Transcript::set_system(std::string text) {
  const bool has_one = !messages_.empty() && messages_[0].role == "system";
  if (has_one) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), {.role = "system", .content = std::move(text)});
}

void Transcript::add_user(std::string text) { messages_.push_back({.role = "user", .content = std::move(text)}); }

void Transcript::add_answer(std::string text, std::string reasoning) {
  messages_.push_back({.role = "assistant", .content = std::move(text), .reasoning = std::move(reasoning)});
}

size_t Transcript::last_user() const {
  for (size_t i = messages_.size(); i > 0; i--) {
    if (messages_[i - 1].role == "user") return i - 1;
  }
  return messages_.size();
}

bool Transcript::drop_last_turn() {
  const size_t at = last_user();
  if (at == messages_.size()) return false;
  messages_.resize(at);
  return true;
}

bool Transcript::drop_last_answer() {
  const size_t at = last_user();
  if (at == messages_.size()) return false;
  messages_.resize(at + 1);
  return true;
}

void Transcript::reset() {
  std::erase_if(messages_, [](const Message& message) { return message.role != "system"; });
}

Json Transcript::to_json() const {
  Json array = Json::array();
  for (const Message& message : messages_) {
    Json json = {{"role", message.role}, {"content", message.content}};
    if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
    array.push_back(std::move(json));
  }
  return array;
}

Status Transcript::save(const std::string& path) const {
  const std::string text = to_json().dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  RETURN_IF_ERROR(check_is_file(path, "/save"));
  OutputFile out(path);
  RETURN_IF_ERROR(out.open());
  RETURN_IF_ERROR(out.append(std::as_bytes(std::span(text))));
  return out.commit();
}

Result<Transcript> Transcript::load(const std::string& path) {
  RETURN_IF_ERROR(check_is_file(path, "/load"));  // a pipe without a writer would never answer
  ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxTextBytes));
  return parse(text, path_text(path));
}

Result<Transcript> Transcript::parse(std::string_view json, const std::string& origin) {
  const Json array = Json::parse(json, nullptr, false);
  if (!array.is_array()) {
    return Error{ErrorCode::kBadInput, format("{}: this is not a JSON array of messages, as /save writes it", origin)};
  }
  Transcript transcript;
  for (size_t i = 0; i < array.size(); i++) {
    ASSIGN_OR_RETURN(Message message, message_of(array[i], i, origin));
    transcript.messages_.push_back(std::move(message));
  }
  return transcript;
}

}  // namespace strata::cli
