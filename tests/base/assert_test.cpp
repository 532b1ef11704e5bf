#include "base/assert.h"

#include <gtest/gtest.h>

namespace {

int evaluations = 0;
[[maybe_unused]] bool count_and_fail() { return ++evaluations < 0; }

TEST(AssertTest, AHoldingConditionIsEvaluatedOnce) {
  int calls = 0;
  ASSERT(++calls == 1);
  EXPECT_EQ(calls, 1);
}

TEST(AssertDeathTest, AFailedConditionNamesItselfAndItsPlaceAndAborts) {
  EXPECT_EXIT(ASSERT(1 + 1 == 3), testing::KilledBySignal(SIGABRT), "1 \\+ 1 == 3 .*assert_test.cpp:[0-9]+");
}

#if defined(STRATA_DEBUG)
TEST(AssertDeathTest, DebugAssertsBiteInDebugBuilds) {
  EXPECT_EXIT(DASSERT(count_and_fail()), testing::KilledBySignal(SIGABRT), "count_and_fail");
}
#else
TEST(AssertTest, DebugAssertsAreNotEvaluatedInReleaseBuilds) {
  DASSERT(count_and_fail());
  EXPECT_EQ(evaluations, 0);
}
#endif

}  // namespace
