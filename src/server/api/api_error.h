// What a client is told when a request can't be answered. Each protocol writes it in a JSON shape of its own
// (Endpoint::error_body).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/result.h"

namespace strata::server {

struct ApiError {
  int http_status = 500;
  std::string type;     // as OpenAI names it: "invalid_request_error", "rate_limit_error", ...
  std::string code;     // "context_length_exceeded", "invalid_value", ...; empty for none
  std::string message;  // one line: what is wrong, what is allowed. No path of this machine
  std::optional<std::string> param = {};  // "messages[2].content"
  double retry_after_s = 0;               // for a Retry-After header; 0 for none
};

// 400 invalid_request_error.
ApiError invalid_request(std::string message, std::string param, std::string code = "invalid_value");
// 400 for what is well formed, but not something this server does.
ApiError unsupported(std::string message, std::string param);
// 404 invalid_request_error.
ApiError not_found(std::string message, std::string code);
// 429 rate_limit_error: the queue is full.
ApiError too_many_requests(std::string message, double retry_after_s);
// 503 for a server that is loading or has no model.
ApiError unavailable(std::string message, double retry_after_s);
// 503 for what the server does not take or finish any more because it ends.
ApiError shutting_down();
// 504.
ApiError timed_out(std::string message);
// A failure of the engine or of the text floor: 400 for bad input, 429 for a full queue, else 500. Of a 500 the client
// sees no more than that the engine failed, since such messages name files: write them to the log.
ApiError from_engine(const Error& error, std::string param = {});

// {"error": {"message", "type", "param", "code"}}, as OpenAI has it.
std::string openai_error_body(const ApiError& error);
// {"type": "error", "error": {"type", "message"}}, as Anthropic has it; the type follows from the status.
std::string anthropic_error_body(const ApiError& error);

// A value or the answer for the client. RETURN_IF_ERROR and ASSIGN_OR_RETURN of base/result.h work with it.
template <class T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  ApiResult(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  T& value() & { ASSERT(ok()); return *std::get_if<0>(&state_); }
  const T& value() const& { ASSERT(ok()); return *std::get_if<0>(&state_); }
  T&& value() && { ASSERT(ok()); return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const ApiError& error() const& { ASSERT(!ok()); return *std::get_if<1>(&state_); }
  ApiError&& error() && { ASSERT(!ok()); return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, ApiError> state_;
};

template <>
class [[nodiscard]] ApiResult<void> {
 public:
  ApiResult() = default;
  ApiResult(ApiError error) : error_(std::move(error)) {}
  bool ok() const { return !error_.has_value(); }
  const ApiError& error() const& { ASSERT(!ok()); return *error_; }
  ApiError&& error() && { ASSERT(!ok()); return std::move(*error_); }

 private:
  std::optional<ApiError> error_;
};

using ApiStatus = ApiResult<void>;

}  // namespace strata::server
