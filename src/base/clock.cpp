#include "base/clock.h"

#include <cerrno>
#include <ctime>

namespace strata {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

class RealClock final : public Clock {
 public:
  int64_t now_ns() override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * kNsPerSecond + now.tv_nsec;
  }

  // Sleeps until a point in time, so that interruptions by signals don't add up.
  void sleep_ns(int64_t duration_ns) override {
    if (duration_ns <= 0) return;
    int64_t end_ns;
    if (__builtin_add_overflow(now_ns(), duration_ns, &end_ns)) end_ns = INT64_MAX;
    const timespec end{static_cast<time_t>(end_ns / kNsPerSecond), static_cast<long>(end_ns % kNsPerSecond)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) == EINTR) {
    }
  }
};

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

}  // namespace strata
