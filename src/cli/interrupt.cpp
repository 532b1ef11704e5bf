#include "cli/interrupt.h"

namespace strata::cli {
namespace {

std::atomic<bool> g_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler stores it");

void request(int) { g_requested.store(true, std::memory_order_relaxed); }

}  // namespace

InterruptRequest::InterruptRequest() {
  g_requested.store(false, std::memory_order_relaxed);
  struct sigaction action {};
  action.sa_handler = request;
  // RESETHAND: the second signal meets the default. RESTART: no system call has to know about this.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &previous_);
}

InterruptRequest::~InterruptRequest() { ::sigaction(SIGINT, &previous_, nullptr); }

const std::atomic<bool>& InterruptRequest::requested() const { return g_requested; }

}  // namespace strata::cli
