#include "server/api/api_error.h"

#include "server/api/json.h"

namespace strata::server {
namespace {

// By then another server may have taken its place.
constexpr double kStoppingRetryS = 10;

constexpr const char* kInvalid = "invalid_request_error";

struct StatusName {
  int status;
  const char* type;
};

// Anthropic's clients go by the status, people by the type.
constexpr StatusName kAnthropicTypes[] = {
    {400, kInvalid},          {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
    {413, "request_too_large"}, {429, "rate_limit_error"},   {503, "overloaded_error"}, {504, "timeout_error"},
    {529, "overloaded_error"},
};

const char* anthropic_type(int status) {
  for (const auto& [known, type] : kAnthropicTypes) {
    if (known == status) return type;
  }
  return status >= 400 && status < 500 ? kInvalid : "api_error";
}

}  // namespace

ApiError invalid_request(std::string message, std::string param, std::string code) {
  ApiError error{.http_status = 400, .type = kInvalid, .code = std::move(code), .message = std::move(message)};
  if (!param.empty()) error.param = std::move(param);
  return error;
}

ApiError unsupported(std::string message, std::string param) {
  return invalid_request(std::move(message), std::move(param), "unsupported_value");
}

ApiError not_found(std::string message, std::string code) {
  return {.http_status = 404, .type = kInvalid, .code = std::move(code), .message = std::move(message)};
}

ApiError too_many_requests(std::string message, double retry_after_s) {
  return {.http_status = 429,
          .type = "rate_limit_error",
          .code = "rate_limit_exceeded",
          .message = std::move(message),
          .retry_after_s = retry_after_s};
}

ApiError unavailable(std::string message, double retry_after_s) {
  return {.http_status = 503,
          .type = "overloaded_error",
          .code = "unavailable",
          .message = std::move(message),
          .retry_after_s = retry_after_s};
}

ApiError shutting_down() { return unavailable("the server is shutting down", kStoppingRetryS); }

ApiError timed_out(std::string message) {
  return {.http_status = 504, .type = "timeout_error", .code = "timeout", .message = std::move(message)};
}

ApiError from_engine(const Error& error, std::string param) {
  switch (error.code) {
    case ErrorCode::kBadInput:
    case ErrorCode::kNotFound:
    case ErrorCode::kUnsupported: return invalid_request(error.message, std::move(param));
    case ErrorCode::kNoMemory: return too_many_requests(error.message, 1);
    case ErrorCode::kCancelled:
    case ErrorCode::kIo:
    case ErrorCode::kInterrupted:
    case ErrorCode::kInternal: break;
  }
  return {.http_status = 500,
          .type = "server_error",
          .code = "engine_failed",
          .message = "the engine failed while it computed the answer; the server's log says why"};
}

std::string openai_error_body(const ApiError& error) {
  Json body = {{"message", error.message}, {"type", error.type}, {"param", nullptr}, {"code", nullptr}};
  if (error.param) body["param"] = *error.param;
  if (!error.code.empty()) body["code"] = error.code;
  return dump({{"error", std::move(body)}});
}

std::string anthropic_error_body(const ApiError& error) {
  const bool named = !error.param || error.message.starts_with(*error.param);
  const std::string message = named ? error.message : *error.param + ": " + error.message;
  return dump({{"type", "error"}, {"error", {{"type", anthropic_type(error.http_status)}, {"message", message}}}});
}

}  // namespace strata::server
