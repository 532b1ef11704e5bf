// What clients of the soak test ask, and what they read out of answers.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace strata::test {

struct Question {
  const char* path;
  const char* body;  // a JSON object without its last brace, for fields to follow
};

// Of several APIs, with prompts and lengths of their own; at temperature 0.
std::span<const Question> questions();
// The body, streamed or not.
std::string body_of(const Question& question, bool stream);

// The text of a whole answer or of a stream that was ended as its API wants it; nullopt for anything else.
std::optional<std::string> text_of_answer(const Question& question, bool stream, const std::string& body);

}  // namespace strata::test
