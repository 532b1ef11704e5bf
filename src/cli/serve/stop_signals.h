// SIGINT, SIGTERM and SIGHUP ask a server to end; the second ends it at once.
#pragma once

#include <memory>

#include <signal.h>

#include "base/result.h"

namespace strata::cli {

// What the main thread of a server waits for. One at a time. While it lives, the signals are its own; one that is
// ignored stays so.
class StopSignals {
 public:
  static Result<std::unique_ptr<StopSignals>> create();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Until a signal has come, or another thread called wake(), since the last call. Whether a signal ever has.
  bool wait();
  void wake();
  // The one that has come; 0 for none.
  int signal() const;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  explicit StopSignals(int event_fd);

  struct sigaction before_[3] {};
};

}  // namespace strata::cli
