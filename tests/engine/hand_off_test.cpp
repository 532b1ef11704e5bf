// Rows on their way from a device to another one arrive as they were sent, in their order, however the two streams are
// delayed, while the sender is a step ahead.
#include <gtest/gtest.h>

#include "base/format.h"
#include "device/sim/machine.h"
#include "engine/hand_off_steps.h"

namespace strata::test {
namespace {

TEST(HandOff, RowsArriveAsTheyWereSent) {
  for (const char* peer : {"1GiBps", "off"}) {
    for (int seed = 1; seed <= 20; seed++) {
      SCOPED_TRACE(format("peer={}, seed {}", peer, seed));
      const HandOffRun run = hand_over(format("sim:2x1MiB/peer={}/seed={}", peer, seed));
      EXPECT_EQ(run.error, "");
      EXPECT_EQ(run.arrived, run.sent);
      EXPECT_EQ(run.races, 0u);
    }
  }
}

TEST(HandOff, TakesWhatItSays) {
  for (const bool peers : {true, false}) {
    const auto machine = device::sim::make_sim("sim:2x1MiB").value();
    const auto from = machine->device(0).make_stream("a"), to = machine->device(1).make_stream("b");
    const engine::HandOffBytes bytes = engine::HandOff::bytes_needed(16, 32, peers);
    const auto hand_off =
        engine::HandOff::create({.from = *from, .to = *to, .max_rows = 16, .dim = 32, .peers = peers}).value();
    EXPECT_EQ(machine->device(1).used_bytes(), bytes.device);
    EXPECT_EQ(machine->host_bytes(), bytes.host);
    EXPECT_EQ(machine->device(0).used_bytes(), 0u);
    EXPECT_EQ(bytes.device + bytes.host, 2u * 16 * 32 * sizeof(float));
  }
}

}  // namespace
}  // namespace strata::test
