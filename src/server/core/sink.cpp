#include "server/core/sink.h"

#include <cmath>

namespace strata::server {

std::vector<http::Field> retry_fields(double retry_after_s) {
  if (retry_after_s <= 0) return {};
  return {{"Retry-After", std::to_string(static_cast<int64_t>(std::ceil(retry_after_s)))}};
}

void HttpSink::json(int status, std::string body) {
  begun_ = ended_ = true;
  responder_->answer({.status = status, .body = std::move(body)});
}

void HttpSink::error(const ApiError& error, std::string body) {
  begun_ = ended_ = true;
  responder_->answer(
      {.status = error.http_status, .body = std::move(body), .fields = retry_fields(error.retry_after_s)});
}

void HttpSink::begin_stream() {
  begun_ = true;
  last_word_ns_.store(clock_.now_ns());
  responder_->begin_stream();
}

void HttpSink::event(std::string_view name, std::string_view data) {
  last_word_ns_.store(clock_.now_ns());
  responder_->write(http::sse_event(name, data));
}

void HttpSink::comment(std::string_view text) {
  last_word_ns_.store(clock_.now_ns());
  responder_->write(http::sse_comment(text));
}

void HttpSink::end_stream() {
  ended_ = true;
  last_word_ns_.store(0);
  responder_->end_stream();
}

}  // namespace strata::server
