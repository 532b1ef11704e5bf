// The checker of access orders on whole programs: silent on each as it stands and loud on each of its flaws, whatever
// the seed makes of the timing.
#include "device/sim/programs.h"

namespace strata::test {
namespace {

// STRATA_SIM_SEEDS: how many; the slow form of this test has more.
constexpr uint64_t kSeeds = STRATA_SIM_SEEDS;

TEST(SimPrograms, RightOnesAreSilentWithEverySeed) {
  for (const Program& program : programs()) {
    for (uint64_t seed = 0; seed < kSeeds; seed++) {
      const auto machine = machine_of(program_spec(seed));
      const Outcome outcome = program.run(*machine, Flaw::kNone);
      ASSERT_TRUE(outcome.status.ok()) << program.name << ", seed " << seed << ": " << outcome.status.error().message;
      EXPECT_TRUE(outcome.right) << program.name << ", seed " << seed;
      ASSERT_TRUE(machine->health().ok()) << program.name << ", seed " << seed << ": " << machine->races()[0];
    }
  }
}

TEST(SimPrograms, EveryFlawIsFoundWithEverySeed) {
  size_t n_flaws = 0;
  for (const Program& program : programs()) {
    for (const auto& [flaw, memory] : program.races) {
      n_flaws++;
      uint64_t found = 0;
      for (uint64_t seed = 0; seed < kSeeds; seed++) {
        const auto machine = machine_of(program_spec(seed));
        static_cast<void>(program.run(*machine, flaw));
        const std::vector<std::string> races = machine->races();
        if (!races.empty() && races[0].starts_with(std::string("race on '") + memory + "'")) found++;
      }
      EXPECT_EQ(found, kSeeds) << program.name << ": " << flaw_name(flaw);
    }
  }
  EXPECT_GE(n_flaws, 8u);
}

// Control: it is the checker that finds them.
TEST(SimPrograms, NothingIsFoundWithoutTheChecker) {
  for (const Program& program : programs()) {
    const auto machine = machine_of(program_spec(1) + "/check=off");
    EXPECT_TRUE(program.run(*machine, Flaw::kNone).right) << program.name;
    EXPECT_TRUE(machine->races().empty());
  }
}

}  // namespace
}  // namespace strata::test
