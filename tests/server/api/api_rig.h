// The APIs without HTTP and without an engine: a small model's vocabulary and template, scripted answers, and all that
// a client would get.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/api/endpoint.h"
#include "server/api/json.h"
#include "text/tokenizer_model.h"

namespace strata::server {

struct SseEvent {
  std::string name, data;
};

struct Reply {
  int status = 0;          // of a reply that is not a stream
  Json body;               // of such a reply
  std::optional<ApiError> error;
  bool streamed = false, ended = false;
  std::vector<SseEvent> events;
  int n_comments = 0;
  std::vector<GenerationJob> jobs;
  std::string prompt;      // of the first job, control tokens included

  // Of a stream: the data of its events, without "[DONE]".
  std::vector<Json> data() const;
};

// What the engine says. Every byte is a token.
struct Script {
  std::string answer;
  engine::Finish end = engine::Finish::kEndOfText;
  Status error = {};        // for kFailed
  std::optional<ApiError> ending = {};  // why the server ended it, if it did
  int64_t kept_tokens = 0;
  bool breaks = false;          // the reply is broken off at the end, as when it can't be made for want of memory
};

class ApiRig {
 public:
  // `chat_template`: as find_styles() is to see it.
  explicit ApiRig(const std::string& chat_template);

  ServedModel& model() { return model_; }
  // POST, with the same script for each job.
  Reply ask(std::string_view path, const Json& body, const Script& script = {});
  Reply ask_text(std::string_view path, std::string_view body, const Script& script = {},
                 std::string_view method = "POST", std::string_view tail = "");
  // As when the queue is full.
  Reply refused(std::string_view path, const Json& body, const ApiError& error);

 private:
  void run(Exchange& exchange, const Script& script);

  text::test::TokenizerModel files_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> template_;
  ServedModel model_;
};

// As Qwen's family has it: reasoning in <think>, calls in <tool_call>.
extern const char* const kHermesTemplate;
// Knows neither tools nor reasoning.
extern const char* const kPlainTemplate;

Json parse(std::string_view text);

}  // namespace strata::server
