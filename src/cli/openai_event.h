// What a server of OpenAI's API says, as its clients here read it. The server may be a stranger: whatever it says, it
// is read without failing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace strata::cli {

// One event of a stream, of chats or of completions. Empty for "[DONE]" and for what is no event.
struct OpenAiEvent {
  std::string text, reasoning;         // more of the answer
  std::string finish;                  // "stop", "length", ...; "" before the end
  std::optional<std::string> error;    // the server's own message
  std::optional<int64_t> prompt_tokens, answer_tokens;  // where it tells them
};

OpenAiEvent read_openai_event(std::string_view data);

// The server's own message in a body that is no stream, else the beginning of the body; printable.
std::string openai_error_text(std::string_view body);
// The field of the request that such a body says is wrong; "" where it names none.
std::string openai_error_field(std::string_view body);

// For an answer with another status than 200. kBadInput where asking otherwise would help, kIo for a server that is
// busy and for what failed there or on the way.
Error openai_error(int status, std::string_view body);

}  // namespace strata::cli
