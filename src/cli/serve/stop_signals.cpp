#include "cli/serve/stop_signals.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/format.h"

namespace strata::cli {
namespace {

std::atomic<int> g_signal{0};
std::atomic<int> g_event{-1};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler uses them");

void count_up() {
  const uint64_t one = 1;
  // It can only fail when it has been counted up 2^64 times.
  [[maybe_unused]] const ssize_t written = ::write(g_event.load(), &one, sizeof one);
}

void take_signal(int signal) {
  const int error = errno;
  if (g_signal.exchange(signal) != 0) end_by_signal(signal);
  count_up();
  errno = error;
}

}  // namespace

Result<std::unique_ptr<StopSignals>> StopSignals::create() {
  const int fd = ::eventfd(0, EFD_CLOEXEC);
  if (fd < 0) {
    return Error{ErrorCode::kIo, format("cannot wait for signals: {}", std::generic_category().message(errno))};
  }
  return std::unique_ptr<StopSignals>(new StopSignals(fd));
}

StopSignals::StopSignals(int event_fd) {
  g_signal.store(0);
  g_event.store(event_fd);
  for (size_t i = 0; i < std::size(kSignals); i++) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = take_signal;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < std::size(kSignals); i++) ::sigaction(kSignals[i], &before_[i], nullptr);
  ::close(g_event.exchange(-1));
}

bool StopSignals::wait() {
  uint64_t n = 0;
  while (::read(g_event.load(), &n, sizeof n) < 0 && errno == EINTR) continue;
  return signal() != 0;
}

int StopSignals::signal() const { return g_signal.load(); }

void StopSignals::wake() { count_up(); }

}  // namespace strata::cli
