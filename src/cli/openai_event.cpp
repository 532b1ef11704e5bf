#include "cli/openai_event.h"

#include <nlohmann/json.hpp>

#include "base/format.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxShownBytes = 500;

bool is_failure(int status) {
  constexpr int kTimeout = 408, kTooEarly = 425, kBusy = 429;
  return status < 400 || status >= 500 || status == kTimeout || status == kTooEarly || status == kBusy;
}

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// The text of a member that may be absent, or something else.
std::string text_at(const Json& object, const char* name) {
  const Json* text = member(object, name);
  return text != nullptr && text->is_string() ? text->get<std::string>() : "";
}

std::optional<int64_t> count_at(const Json& object, const char* name) {
  const Json* count = member(object, name);
  return count != nullptr && count->is_number_integer() ? std::optional(count->get<int64_t>()) : std::nullopt;
}

// {"error": {"message": ...}}, or as some have it {"error": "..."}.
std::optional<std::string> error_of(const Json& json) {
  const Json* error = member(json, "error");
  if (error == nullptr) return std::nullopt;
  return printable(error->is_string() ? error->get<std::string>() : text_at(*error, "message"), kMaxShownBytes);
}

}  // namespace

OpenAiEvent read_openai_event(std::string_view data) {
  OpenAiEvent event;
  const Json json = Json::parse(data, nullptr, false);
  event.error = error_of(json);
  if (const Json* usage = member(json, "usage")) {
    event.prompt_tokens = count_at(*usage, "prompt_tokens");
    event.answer_tokens = count_at(*usage, "completion_tokens");
  }
  const Json* choices = member(json, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return event;
  const Json& choice = choices->front();
  event.finish = text_at(choice, "finish_reason");
  const Json* delta = member(choice, "delta");
  event.text = delta == nullptr ? text_at(choice, "text") : text_at(*delta, "content");
  if (delta != nullptr) event.reasoning = text_at(*delta, "reasoning_content");
  return event;
}

std::string openai_error_text(std::string_view body) {
  const auto error = error_of(Json::parse(body, nullptr, false));
  return error ? *error : printable(body, kMaxShownBytes);
}

std::string openai_error_field(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  const Json* error = member(json, "error");
  return error == nullptr ? "" : text_at(*error, "param");
}

Error openai_error(int status, std::string_view body) {
  const ErrorCode code = is_failure(status) ? ErrorCode::kIo : ErrorCode::kBadInput;
  return {code, format("the server answered {}: {}", status, openai_error_text(body))};
}

}  // namespace strata::cli
