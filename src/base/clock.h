// Time behind an interface: the real one, and one that tests move by hand.
#pragma once

#include <cstdint>

namespace strata {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic nanoseconds from an arbitrary start. Any thread.
  virtual int64_t now_ns() = 0;
  virtual void sleep_ns(int64_t duration_ns) = 0;
};

Clock& real_clock();

// Stands still until it is moved; sleeping moves it.
class ManualClock final : public Clock {
 public:
  int64_t now_ns() override { return __atomic_load_n(&now_ns_, __ATOMIC_ACQUIRE); }
  void sleep_ns(int64_t duration_ns) override { advance_ns(duration_ns); }
  void advance_ns(int64_t duration_ns) { __atomic_add_fetch(&now_ns_, duration_ns, __ATOMIC_ACQ_REL); }

 private:
  int64_t now_ns_ = 0;
};

}  // namespace strata
