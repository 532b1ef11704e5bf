// The answer to one request, between the threads that make it and the one that sends it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/http/handler.h"

namespace strata::server::http {

struct OutboxOptions {
  int version = 11;  // of HTTP, the request's
  bool keep_alive = true;
  bool head_only = false;  // the answer to HEAD: a head without its body
  std::string request_id = {};
  std::vector<Field> fields = {};     // beside those of the answer
  size_t max_pending_bytes = 1 << 20;  // of a stream, that the client has not taken
};

class Outbox final : public Responder {
 public:
  // `wake` is called, on the thread that answers, when there is something to take and nobody was told yet.
  Outbox(OutboxOptions options, std::function<void()> wake);

  // Any thread.
  void answer(Answer answer) override;
  void begin_stream() override;
  void write(std::string_view bytes) override;
  void end_stream() override;

  // The rest is for the thread that sends.
  struct Taken {
    std::string bytes = {};
    bool ended = false;       // nothing follows
    bool overflowed = false;  // the client is too slow: it is to be dropped
  };
  // What has come since the last call.
  Taken take();
  void client_gone();
  // 0 as long as nothing was said.
  int status() const;
  // Whether another request may follow on the connection.
  bool keep_alive() const;

 private:
  enum class State { kEmpty, kStreaming, kEnded, kGone };
  void wake_once();

  const OutboxOptions options_;
  const std::function<void()> wake_;
  mutable Mutex mutex_;  // guards the rest
  State state_ = State::kEmpty;
  std::string head_;  // not taken
  std::string body_;  // not taken, not framed
  Framing framing_ = Framing::kLength;
  int status_ = 0;
  bool keep_alive_;
  bool overflowed_ = false;
  bool woken_ = false;
};

}  // namespace strata::server::http
