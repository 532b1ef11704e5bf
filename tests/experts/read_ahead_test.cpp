// When mapped experts are asked for: once, and again after the process had to wait for the drive.
#include "experts/read_ahead.h"

#include "experts/support.h"

namespace strata::test {
namespace {

using experts::ReadAhead;

TEST(ReadAheadTest, AsksOnce) {
  const ExpertModel m({.n_layers = 2, .n_experts = 4}, numbered_parts());
  ReadAhead ahead(m.layout);
  ahead.note_faults(7);
  EXPECT_TRUE(ahead.wanted({0, 3}));
  EXPECT_TRUE(ahead.wanted({1, 3}));
  EXPECT_TRUE(ahead.wanted({1, 0}));
  ahead.note_faults(7);
  EXPECT_FALSE(ahead.wanted({0, 3}));
  EXPECT_FALSE(ahead.wanted({1, 3}));
  EXPECT_TRUE(ahead.wanted({0, 2}));
}

TEST(ReadAheadTest, AsksAgainAfterFaults) {
  const ExpertModel m({.n_layers = 2, .n_experts = 4}, numbered_parts());
  ReadAhead ahead(m.layout);
  ahead.note_faults(7);
  EXPECT_TRUE(ahead.wanted({1, 2}));
  ahead.note_faults(8);
  EXPECT_TRUE(ahead.wanted({1, 2}));
  EXPECT_FALSE(ahead.wanted({1, 2}));
}

}  // namespace
}  // namespace strata::test
