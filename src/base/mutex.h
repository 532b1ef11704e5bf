// The lock of host code. A type of our own, so that a checker of access orders can see every acquire and release; code
// outside base/ takes no std::mutex (but for that checker itself, which must not see its own).
#pragma once

#include <mutex>

#include "base/sync.h"

namespace strata {

class Mutex {
 public:
  Mutex() = default;
  ~Mutex() { sync_forgotten(this); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    mutex_.lock();
    sync_acquired(this);
  }
  void unlock() {
    sync_released(this);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};

// Holds the mutex while it lives.
class [[nodiscard]] LockGuard {
 public:
  explicit LockGuard(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~LockGuard() { mutex_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace strata
