#include "base/clock.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(ClockTest, TheRealClockNeverRunsBackwardsAndSleepsAtLeastAsLongAsAsked) {
  Clock& clock = real_clock();
  const int64_t before = clock.now_ns();
  clock.sleep_ns(1'000'000);
  EXPECT_GE(clock.now_ns() - before, 1'000'000);
}

TEST(ClockTest, SleepingForNoTimeReturns) {
  real_clock().sleep_ns(0);
  real_clock().sleep_ns(-1);
  real_clock().sleep_ns(INT64_MIN);
}

TEST(ClockTest, TheManualClockMovesOnlyByHandOrBySleeping) {
  ManualClock clock;
  EXPECT_EQ(clock.now_ns(), 0);
  clock.advance_ns(5);
  clock.sleep_ns(7);
  EXPECT_EQ(clock.now_ns(), 12);
}

}  // namespace
}  // namespace strata
