// Swaps with a failure at every point: queued work runs when somebody waits for it, so that the n-th point is always
// the same.
#include <gtest/gtest.h>

#include "experts/swap_rig.h"

namespace strata::test {
namespace {

using experts::Move;
using experts::SwapState;

constexpr uint64_t kSeeds = 4;  // each for other moves

// The n-th thing that can fail does, for every n until the whole batch goes through without meeting it. The moves end
// done or undone, and done when tried again.
class SwapFaults : public testing::TestWithParam<Beside> {};

TEST_P(SwapFaults, WhateverFailsEveryExpertIsReadable) {
  for (uint64_t seed = 1; seed <= kSeeds; seed++) {
    int undone = 0, given_up = 0, went_on = 0;
    for (uint64_t n = 1;; n++) {
      SCOPED_TRACE(format("seed {}, failure {}", seed, n));
      ASSERT_LT(n, 500u);
      SwapRig rig({.beside = GetParam(), .manual = true});
      const std::vector<Move> moves = rig.some_moves(seed, 2);
      const uint64_t before = rig.faults().failed();
      rig.faults().fail_at(n);
      const bool started = rig.swaps->begin(moves).ok();
      const int failures = run_to_the_end(rig) + !started;
      const bool met = rig.faults().failed() > before;
      rig.faults().clear();
      const bool done = rig.resident(moves[0].in);
      expect_done(rig, moves, done);
      EXPECT_TRUE(done || failures > 0);
      if (failures > 0 && done) went_on++;
      if (failures > 0 && !done) (rig.stats.get(Counter::kCacheSwapsUndone) > 0 ? undone : given_up)++;
      if (!done) {
        ASSERT_TRUE(rig.swaps->begin(moves).ok());
        EXPECT_EQ(run_to_the_end(rig), 0);
        expect_done(rig, moves, true);
      }
      EXPECT_EQ(rig.races(), std::vector<std::string>());
      if (testing::Test::HasFailure()) return;
      if (!met) break;
    }
    EXPECT_GT(undone, 0) << "uploads failed";
    EXPECT_GT(given_up, 0) << "saving or withdrawing failed";
    EXPECT_GT(went_on, 0) << "the last telling of the cache failed";
  }
}

// An upload fails, and then whatever can fail on the way back does.
class SwapWayBack : public testing::TestWithParam<Beside> {};

TEST_P(SwapWayBack, GoesOnUntilAllIsAsItWas) {
  for (uint64_t seed = 1; seed <= kSeeds; seed++) {
    int repeated = 0;
    for (uint64_t n = 1;; n++) {
      SCOPED_TRACE(format("seed {}, failure {}", seed, n));
      ASSERT_LT(n, 500u);
      SwapRig rig({.beside = GetParam(), .manual = true});
      const std::vector<Move> moves = rig.some_moves(seed, 2);
      rig.source->unreadable.insert(moves[1].in);
      static_cast<void>(rig.swaps->begin(moves));
      while (rig.swaps->state() != SwapState::kRestoring) static_cast<void>(rig.swaps->advance());
      rig.faults().fail_at(n);
      repeated += run_to_the_end(rig);
      const bool met = rig.faults().failed() > 0;
      rig.faults().clear();
      expect_done(rig, moves, false);
      EXPECT_EQ(rig.stats.get(Counter::kCacheSwapsUndone), 2);
      EXPECT_EQ(rig.races(), std::vector<std::string>());
      if (testing::Test::HasFailure()) return;
      if (!met) break;
    }
    EXPECT_GE(repeated, 3) << "copies of the way back, and telling the cache, failed";
  }
}

INSTANTIATE_TEST_SUITE_P(Places, SwapFaults,
                         testing::Values(Beside::kTheOthers, Beside::kLendRegionToo, Beside::kAll, Beside::kRealCopy),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });
INSTANTIATE_TEST_SUITE_P(Places, SwapWayBack,
                         testing::Values(Beside::kTheOthers, Beside::kLendRegionToo, Beside::kAll),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace strata::test
