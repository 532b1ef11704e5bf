// Control: with one event a buffer the refill overtakes the slow copy, and the checker tells it with every seed.
#include <gtest/gtest.h>

#include "base/mutation.h"
#include "device/sim/machine.h"
#include "experts/stage_race.h"

namespace strata::test {
namespace {

TEST(StageRaceControl, OneEventABufferIsFoundWithEverySeed) {
  for (uint64_t seed = 0; seed < STRATA_STAGE_SEEDS; seed++) {
    const auto machine = device::sim::make_sim("sim:1MiB/seed=" + std::to_string(seed)).value();
    g_mutation = Mutation::kOneFencePerBuffer;
    const StageRaceOutcome outcome = run_stage_race(machine->device(0));
    g_mutation = Mutation::kNone;
    EXPECT_TRUE(outcome.refill.ok()) << "seed " << seed;
    EXPECT_EQ(outcome.fence_waits, 0) << "seed " << seed;
    EXPECT_FALSE(outcome.copies_right) << "seed " << seed;
    ASSERT_FALSE(machine->races().empty()) << "seed " << seed;
    EXPECT_EQ(machine->races()[0].find("race on 'stage buffer'"), 0u) << machine->races()[0];
  }
}

TEST(StageRaceControl, TheSameLibrariesPassWithoutTheFault) {
  const auto machine = device::sim::make_sim("sim:1MiB/seed=1").value();
  EXPECT_TRUE(run_stage_race(machine->device(0)).copies_right);
  EXPECT_TRUE(machine->races().empty());
}

}  // namespace
}  // namespace strata::test
