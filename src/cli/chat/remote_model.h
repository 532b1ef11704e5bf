// A model behind a server, for strata run --connect: asked over OpenAI's API, which other servers speak too.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/settings.h"
#include "cli/chat/transcript.h"
#include "server/http/client.h"

namespace strata::cli {

// What came of a question.
struct RemoteAnswer {
  std::string text, reasoning;
  std::string finish;  // "stop", "length", ...; "" when it was interrupted
  int64_t prompt_tokens = 0, answer_tokens = 0;
};

// One thread.
class RemoteModel {
 public:
  // kBadInput for a URL that is none.
  static Result<std::unique_ptr<RemoteModel>> create(const Settings& settings);

  // The answer is written to stdout as it comes: reasoning dimmed on a terminal, and left out elsewhere. SIGINT ends
  // it, and the server computes no further. Of the settings those count that the user has given; the others are the
  // server's. Fails with the server's own message.
  Result<RemoteAnswer> answer(const Transcript& transcript);
  // The same for a text that is continued.
  Result<RemoteAnswer> continue_text(const std::string& prompt);

 private:
  RemoteModel(const Settings& settings, server::http::Url url);
  Result<RemoteAnswer> ask(const std::string& path, nlohmann::ordered_json body);

  const Settings& settings_;
  server::http::Client client_;
};

// strata run --connect: one answer for a prompt, or a chat on a terminal.
Status run_remote(const Settings& settings, bool holds_chat, const std::string& prompt);

}  // namespace strata::cli
