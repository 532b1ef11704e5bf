// The race of a refill with a copy, with many seeds of the simulated device's delays.
#include <gtest/gtest.h>

#include "device/sim/machine.h"
#include "experts/stage_race.h"

namespace strata::test {
namespace {

// STRATA_STAGE_SEEDS: how many; the slow form of this test has more.
TEST(StageRace, TheRefillWaitsForEveryCopyWithEverySeed) {
  for (uint64_t seed = 0; seed < STRATA_STAGE_SEEDS; seed++) {
    const auto machine = device::sim::make_sim("sim:1MiB/seed=" + std::to_string(seed)).value();
    const StageRaceOutcome outcome = run_stage_race(machine->device(0));
    ASSERT_TRUE(outcome.refill.ok()) << outcome.refill.error().message;
    EXPECT_GE(outcome.fence_waits, 1) << "seed " << seed;
    EXPECT_TRUE(outcome.copies_right) << "seed " << seed;
    ASSERT_TRUE(machine->health().ok()) << "seed " << seed << ": " << machine->races()[0];
  }
}

}  // namespace
}  // namespace strata::test
