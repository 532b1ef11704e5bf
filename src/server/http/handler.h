// The seam between the protocol and what is served.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/access.h"
#include "server/http/message.h"

namespace strata::server::http {

// Takes the answer to one request: answer(), or begin_stream(), write() and end_stream(). Any thread, one at a time;
// nothing blocks. Once the client has gone, or has not taken what waits for it, calls do nothing.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void answer(Answer answer) = 0;
  virtual void begin_stream() = 0;  // 200, text/event-stream
  virtual void write(std::string_view bytes) = 0;
  virtual void end_stream() = 0;
};

// What is done for a request. Calls come on the thread of the connections and must be short.
class Call {
 public:
  virtual ~Call() = default;
  virtual void client_gone() = 0;
  // Every so often while it is answered.
  virtual void tick(int64_t now_ns) = 0;
  // For the log: what it took. Nothing that the client said.
  virtual std::string summary() const = 0;
};

// Bytes of all bodies that are in memory at once, at most so many: a lease is taken before they are read. The last
// quarter is for small bodies alone, so that large ones don't shut them out.
class BodyBudget {
 public:
  static constexpr uint64_t kSmallBytes = 256 << 10;

  explicit BodyBudget(uint64_t limit_bytes) : limit_(limit_bytes) {}
  // `total`: of the body, with these bytes.
  bool take(uint64_t bytes, uint64_t total) {
    const uint64_t limit = total <= kSmallBytes ? limit_ : limit_ - limit_ / 4;
    if (used_.fetch_add(bytes) + bytes <= limit) return true;
    used_.fetch_sub(bytes);
    return false;
  }
  void give(uint64_t bytes) { used_.fetch_sub(bytes); }
  uint64_t used() const { return used_.load(); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

// A body, and its share of the budget until it dies; the budget lives as long, for calls may outlive the server.
class Body {
 public:
  explicit Body(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  ~Body() { clear(); }
  Body(Body&& other) noexcept
      : budget_(other.budget_), bytes_(std::move(other.bytes_)), leased_(std::exchange(other.leased_, 0)) {}
  Body& operator=(Body&&) = delete;

  // False when the budget is used up.
  bool append(std::string_view bytes) {
    if (!budget_->take(bytes.size(), leased_ + bytes.size())) return false;
    leased_ += bytes.size();
    bytes_ += bytes;
    return true;
  }
  void clear() {
    budget_->give(std::exchange(leased_, 0));
    bytes_ = std::string();
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::shared_ptr<BodyBudget> budget_;
  std::string bytes_;
  uint64_t leased_ = 0;
};

// Answers requests. Calls come on the thread of the connections and must be short.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual std::optional<Route> find(std::string_view path) const = 0;
  // JSON, in the form of the API that the path belongs to.
  virtual std::string error_body(std::string_view path, const Refusal& refusal) const = 0;
  // Null when nothing is left to be done but to send the answer.
  virtual std::shared_ptr<Call> start(const RequestHead& head, Body body, std::shared_ptr<Responder> responder) = 0;
  // The answer to a request is complete, or its connection is: for counting and logging. `status` is 0 where none was
  // begun, `summary` the call's.
  virtual void ended(const RequestHead& head, int status, int64_t duration_ns, const std::string& summary) = 0;
};

}  // namespace strata::server::http
