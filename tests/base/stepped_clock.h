// A clock that stands still while others sleep by it, until a test moves it on.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace strata::test {

class SteppedClock final : public Clock {
 public:
  int64_t now_ns() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return now_ns_;
  }
  // Returns once the clock was moved past the end of the sleep.
  void sleep_ns(int64_t duration_ns) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t end_ns = now_ns_ + duration_ns;
    n_sleepers_++;
    changed_.notify_all();
    changed_.wait(lock, [&] { return now_ns_ >= end_ns; });
    n_sleepers_--;
    changed_.notify_all();
  }

  void advance_s(int64_t seconds) {
    const std::lock_guard<std::mutex> lock(mutex_);
    now_ns_ += seconds * 1'000'000'000;
    changed_.notify_all();
  }
  // Returns once exactly that many sleep.
  void wait_for_sleepers(int n) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return n_sleepers_ == n; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t now_ns_ = 0;
  int n_sleepers_ = 0;
};

}  // namespace strata::test
