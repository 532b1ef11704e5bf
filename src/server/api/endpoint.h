// The seam between HTTP and the APIs. HTTP brings bodies and takes replies; an API turns a body into prompts and what
// the engine says into a reply. Neither knows the other.
//
// The life of a request: Endpoint::open() judges the body and gives an Exchange. Where jobs() is empty the reply has
// been given already. Else the jobs are queued, all or none:
//   none could be: refuse() gives the reply;
//   all are: begin(), then what the engine says of each job, on_finish() last; after the last job's on_finish() the
//   reply is complete. A request whose client has gone is cancelled and ends the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/api/api_error.h"
#include "text/chat_template.h"
#include "text/reasoning.h"
#include "text/sampling/logprobs.h"
#include "text/tokenizer.h"

namespace strata::server {

struct ToolDialect;

// The model that answers. All that it points to outlives it; immutable, any thread.
struct ServedModel {
  std::string id;  // in replies and in the list of models
  const text::Tokenizer* tokenizer = nullptr;
  const text::ChatTemplate* chat_template = nullptr;
  int64_t context = 0;               // tokens of a prompt and its answer together
  int64_t created = 0;               // of the model, Unix seconds
  std::string fingerprint;           // "system_fingerprint": changes with what changes answers
  text::SamplerParams sampling;      // where the request says nothing
  int64_t repeat_stop_tokens = 256;  // see RequestParams

  // How the model marks what it says to itself, and its calls of tools; null for a model that does neither.
  const text::ReasoningStyle* reasoning = nullptr;
  const ToolDialect* tools = nullptr;
};

// Fills `reasoning` and `tools` from the template and the vocabulary.
void find_styles(ServedModel& model);

// One answer to compute.
struct GenerationJob {
  std::vector<int32_t> prompt;
  engine::RequestParams params;
};

// Where a reply goes. Calls come from one thread at a time; after the client has gone they do nothing. A reply is one
// json(), or begin_stream(), events and comments, end_stream().
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void json(int status, std::string body) = 0;  // application/json, the whole reply
  virtual void error(const ApiError& error, std::string body) = 0;  // json() with the status and headers of the error
  virtual void begin_stream() = 0;                      // 200, text/event-stream
  // `name` may be empty; `data` has no line end.
  virtual void event(std::string_view name, std::string_view data) = 0;
  virtual void comment(std::string_view text) = 0;
  virtual void end_stream() = 0;
};

// One request from its body to the last byte of its reply. Calls come from one thread at a time. The sink outlives it.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Empty: the reply has been given.
  virtual std::span<const GenerationJob> jobs() const = 0;
  // The jobs are queued. Streams send their first bytes.
  virtual void begin() {}
  // Nothing has been sent for a while (a stream is to say something at least every 15 s); only after begin().
  virtual void keep_alive() {}
  virtual void on_prompt(size_t job, int64_t done, int64_t total) {
    static_cast<void>(job), static_cast<void>(done), static_cast<void>(total);
  }
  // As engine::RequestListener has them; `job` is an index into jobs().
  virtual void on_token(size_t job, int32_t id, const text::Logprobs* logprobs) {
    static_cast<void>(job), static_cast<void>(id), static_cast<void>(logprobs);
  }
  virtual void on_text(size_t job, std::string_view text) = 0;
  // The server ends the answers that are left: time is up, or it shuts down. The on_finish() of each follows, with
  // Finish::kFailed; the reply's error is to be `why`.
  virtual void on_ending(const ApiError& why) { static_cast<void>(why); }
  virtual void on_finish(size_t job, const engine::RequestResult& result) = 0;
  // Instead of begin() and all that follows it: the queue is full, the engine is loading or shutting down.
  virtual void refuse(const ApiError& error) = 0;
  // After begin(), instead of what would follow: one of these calls has thrown. A stream has its end all the same, so
  // that nobody takes it for a whole one or waits for more.
  virtual void break_off(const ApiError& error) = 0;
};

// What HTTP knows of a request.
struct ApiCall {
  std::string_view body;  // lives while open() runs
  std::string_view tail;  // what stands for "{...}" at the end of the path, percent-decoded
  int64_t unix_time = 0;  // seconds
  uint64_t nonce = 0;     // random; ids and seeds come from it
};

// Stateless; any thread.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual std::string_view method() const = 0;  // "GET", "POST"
  virtual std::string_view path() const = 0;    // "/v1/models", or "/v1/models/{id}": the tail may hold slashes
  virtual ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel& model,
                                                    ReplySink& sink) const = 0;
  // In the shape of the endpoint's protocol, also for errors that HTTP finds: a wrong key, a body that is too large.
  virtual std::string error_body(const ApiError& error) const = 0;
};

// All of them. A path has one endpoint for a method; those without a tail go before those with one.
std::span<const Endpoint* const> endpoints();

}  // namespace strata::server
