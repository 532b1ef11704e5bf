// A reply of an API, written as HTTP.
#pragma once

#include <atomic>
#include <memory>

#include "base/clock.h"
#include "server/api/endpoint.h"
#include "server/http/handler.h"

namespace strata::server {

// Seconds of Retry-After; no field for 0.
std::vector<http::Field> retry_fields(double retry_after_s);

class HttpSink final : public ReplySink {
 public:
  HttpSink(std::shared_ptr<http::Responder> responder, Clock& clock)
      : responder_(std::move(responder)), clock_(clock) {}

  void json(int status, std::string body) override;
  void error(const ApiError& error, std::string body) override;
  void begin_stream() override;
  void event(std::string_view name, std::string_view data) override;
  void comment(std::string_view text) override;
  void end_stream() override;

  // Whether the reply is complete.
  bool ended() const { return ended_; }
  bool begun() const { return begun_; }
  // When a stream that goes on has said something last; 0 where there is none. Any thread.
  int64_t last_word_ns() const { return last_word_ns_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<http::Responder> responder_;
  Clock& clock_;
  bool begun_ = false, ended_ = false;
  std::atomic<int64_t> last_word_ns_{0};
};

}  // namespace strata::server
