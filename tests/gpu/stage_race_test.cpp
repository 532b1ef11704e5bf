// The race that stage buffers are fenced against, with real copies: see experts/stage_race.h.
#include "experts/stage_race.h"
#include "gpu/support.h"

namespace strata::test {
namespace {

TEST(GpuStageRace, ABufferIsRefilledOnlyAfterEveryCopyOutOfIt) {
  const auto device = open_gpu();
  for (int i = 0; i < 20; i++) {
    const StageRaceOutcome outcome = run_stage_race(*device);
    ASSERT_TRUE(outcome.refill.ok()) << outcome.refill.error().message;
    EXPECT_GT(outcome.fence_waits, 0);
    EXPECT_TRUE(outcome.copies_right);
  }
}

}  // namespace
}  // namespace strata::test
