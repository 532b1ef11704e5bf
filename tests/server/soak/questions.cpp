#include "server/soak/questions.h"

#include <string_view>

#include <nlohmann/json.hpp>

namespace strata::test {
namespace {

using Json = nlohmann::json;

constexpr Question kQuestions[] = {
    {"/v1/completions", R"({"prompt":"Once upon a time","temperature":0,"max_tokens":24)"},
    {"/v1/completions", R"({"prompt":"The little bear","temperature":0,"max_tokens":9)"},
    {"/v1/completions", R"({"prompt":"One day, Lily and Tom went to the park","temperature":0,"max_tokens":40)"},
    {"/v1/chat/completions",
     R"({"messages":[{"role":"user","content":"Tell me about a cat."}],"temperature":0,"max_tokens":20)"},
    {"/v1/messages", R"({"messages":[{"role":"user","content":"Who is there?"}],"temperature":0,"max_tokens":16)"},
};

std::string text_of(const Json& content) {
  return content.is_string() ? content.get<std::string>() : std::string();
}

// Of a whole answer, or of one event.
std::string text_in(const Json& json) {
  std::string text;
  for (const Json& choice : json.value("choices", Json::array())) {
    text += text_of(choice.value("text", Json()));
    for (const char* part : {"message", "delta"}) {
      text += text_of(choice.value(part, Json::object()).value("content", Json()));
    }
  }
  for (const Json& block : json.value("content", Json::array())) text += text_of(block.value("text", Json()));
  return text + text_of(json.value("delta", Json::object()).value("text", Json()));
}

std::optional<std::string> text_of_stream(const std::string& body, std::string_view last) {
  if (!body.ends_with(last)) return std::nullopt;
  std::string text;
  for (size_t at = body.find("data: {"); at != std::string::npos; at = body.find("data: {", at + 1)) {
    const Json json = Json::parse(body.substr(at + 6, body.find('\n', at) - at - 6), nullptr, false);
    if (!json.is_object() || json.contains("error")) return std::nullopt;
    text += text_in(json);
  }
  return text;
}

}  // namespace

std::span<const Question> questions() { return kQuestions; }

std::string body_of(const Question& question, bool stream) {
  return question.body + std::string(stream ? ",\"stream\":true}" : "}");
}

std::optional<std::string> text_of_answer(const Question& question, bool stream, const std::string& body) {
  const bool anthropic = question.path == std::string_view("/v1/messages");
  if (stream) return text_of_stream(body, anthropic ? "data: {\"type\":\"message_stop\"}\n\n" : "data: [DONE]\n\n");
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return text_in(json);
}

}  // namespace strata::test
