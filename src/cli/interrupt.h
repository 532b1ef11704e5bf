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

}  // namespace strata::cli
