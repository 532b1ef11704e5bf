// Ctrl-C asks for the end of a piece of work; a second one ends the program at once.
#pragma once

#include <atomic>

#include <signal.h>

#include "engine/scheduler.h"

namespace strata::cli {

// While it lives, the first SIGINT only sets requested(), and cancels the request if there is one; afterwards the
// signal does what it did before. One at a time.
class InterruptRequest {
 public:
  InterruptRequest();
  // `request` outlives it.
  explicit InterruptRequest(engine::RequestHandle& request);
  ~InterruptRequest();
  InterruptRequest(const InterruptRequest&) = delete;
  InterruptRequest& operator=(const InterruptRequest&) = delete;

  const std::atomic<bool>& requested() const;

 private:
  explicit InterruptRequest(engine::RequestHandle* request);

  struct sigaction previous_ {};
};

// While it lives, SIGINT does nothing: between an answer, which it stops, and the editing of a line, where Ctrl-C is a
// key, it would end the program.
class IgnoredInterrupts {
 public:
  IgnoredInterrupts() : before_(::signal(SIGINT, SIG_IGN)) {}
  ~IgnoredInterrupts() { ::signal(SIGINT, before_); }
  IgnoredInterrupts(const IgnoredInterrupts&) = delete;
  IgnoredInterrupts& operator=(const IgnoredInterrupts&) = delete;

 private:
  void (*before_)(int);
};

}  // namespace strata::cli
