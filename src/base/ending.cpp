#include "base/ending.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <utility>

#include <unistd.h>

#include "base/format.h"

namespace strata {
namespace {

// A program writes one result at a time; the rest is for tests and servers.
constexpr int kSlots = 16;

enum class State { kFree, kClaimed, kArmed };

// A slot is claimed by its owner, filled, and armed. A handler claims what is armed before it looks at the path, and
// never gives it back.
struct Slot {
  std::atomic<State> state{State::kFree};
  char path[PATH_MAX];
};
static_assert(std::atomic<State>::is_always_lock_free, "a signal handler uses it");

Slot g_slots[kSlots];

std::atomic<void (*)()> g_restore{nullptr};
static_assert(std::atomic<void (*)()>::is_always_lock_free, "a signal handler uses it");

void put_in_order() {
  if (void (*restore)() = g_restore.exchange(nullptr)) restore();
  for (Slot& slot : g_slots) {
    State expected = State::kArmed;
    if (slot.state.compare_exchange_strong(expected, State::kClaimed)) ::unlink(slot.path);
  }
}

}  // namespace

Result<UnfinishedFile> UnfinishedFile::create(const std::string& path) {
  if (path.size() >= PATH_MAX) {
    return Error{ErrorCode::kBadInput, format("cannot create {}: the path has {} bytes, and {} are allowed",
                                              printable(path), path.size(), PATH_MAX - 1)};
  }
  for (int i = 0; i < kSlots; i++) {
    State expected = State::kFree;
    if (!g_slots[i].state.compare_exchange_strong(expected, State::kClaimed)) continue;
    *std::copy(path.begin(), path.end(), g_slots[i].path) = '\0';
    g_slots[i].state.store(State::kArmed);
    return UnfinishedFile(i);
  }
  return Error{ErrorCode::kNoMemory, format("cannot create {}: {} files are being written already", printable(path),
                                            kSlots)};
}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

UnfinishedFile::~UnfinishedFile() {
  State expected = State::kArmed;
  if (slot_ >= 0) g_slots[slot_].state.compare_exchange_strong(expected, State::kFree);
}

void set_restore(void (*restore)()) { g_restore.store(restore); }

void end_by_signal(int signal) {
  put_in_order();
  std::signal(signal, SIG_DFL);
  // In its handler the signal is held back.
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
  ::_exit(128 + signal);
}

void end_with(int exit_code) {
  put_in_order();
  ::_exit(exit_code);
}

void handle_ending_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = end_by_signal;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace strata
