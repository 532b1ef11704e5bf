#include "cli/interrupt.h"

#include "base/ending.h"

namespace strata::cli {
namespace {

std::atomic<bool> g_requested{false};
std::atomic<engine::RequestHandle*> g_request{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<engine::RequestHandle*>::is_always_lock_free,
              "a signal handler uses them");

void request_end(int signal) {
  if (g_requested.exchange(true, std::memory_order_relaxed)) end_by_signal(signal);
  if (engine::RequestHandle* request = g_request.load(std::memory_order_relaxed)) request->cancel();
}

}  // namespace

InterruptRequest::InterruptRequest(engine::RequestHandle* request) {
  g_requested.store(false, std::memory_order_relaxed);
  g_request.store(request, std::memory_order_relaxed);
  struct sigaction action {};
  action.sa_handler = request_end;
  action.sa_flags = SA_RESTART;  // no system call has to know about this
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &previous_);
}

InterruptRequest::InterruptRequest() : InterruptRequest(static_cast<engine::RequestHandle*>(nullptr)) {}

InterruptRequest::InterruptRequest(engine::RequestHandle& request) : InterruptRequest(&request) {}

InterruptRequest::~InterruptRequest() {
  ::sigaction(SIGINT, &previous_, nullptr);
  g_request.store(nullptr, std::memory_order_relaxed);
}

const std::atomic<bool>& InterruptRequest::requested() const { return g_requested; }

}  // namespace strata::cli
