// Ctrl-C asks for the end of an answer; a second one ends the program at once.
#pragma once

#include <atomic>

#include <signal.h>

namespace strata::cli {

// While it lives, the first SIGINT only sets requested(); afterwards the signal does what it did before. One at a time.
class InterruptRequest {
 public:
  InterruptRequest();
  ~InterruptRequest();
  InterruptRequest(const InterruptRequest&) = delete;
  InterruptRequest& operator=(const InterruptRequest&) = delete;

  const std::atomic<bool>& requested() const;

 private:
  struct sigaction previous_ {};
};

}  // namespace strata::cli
