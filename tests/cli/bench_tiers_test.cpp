// Where the bytes of a test came from and how fast they could have come, worked out by hand.
#include <gtest/gtest.h>

#include "cli/bench/tier_use.h"

namespace strata::cli {
namespace {

constexpr TierRates kRates{.device = 1000, .cpu = 100, .link = 50};

TEST(TierUse, IsTheDifferenceOfCounters) {
  Stats stats;
  stats.add(Counter::kCacheHits, 3);
  stats.add(Counter::kLinkedBytes, 5);
  const TierUse before = TierUse::now(stats);
  stats.add(Counter::kCacheHits, 6);
  stats.add(Counter::kCacheMisses, 2);
  stats.add(Counter::kExpertBytes, 100);
  stats.add(Counter::kLinkedBytes, 10);
  stats.add(Counter::kStreamedBytes, 20);
  stats.add(Counter::kCacheUploadBytes, 30);
  stats.add(Counter::kGraphNodes, 12);
  TierUse use = TierUse::now(stats) - before;
  use += use;
  use = use / 4;
  EXPECT_DOUBLE_EQ(use.hits, 3);
  EXPECT_DOUBLE_EQ(use.pairs, 4);
  EXPECT_DOUBLE_EQ(use.cpu_bytes, 50);
  EXPECT_DOUBLE_EQ(use.link_bytes(), 30);
  EXPECT_DOUBLE_EQ(use.nodes, 6);
}

TEST(TierUse, TheLeastTimeIsThatOfTheSlowestSideAfterTheDenseWeights) {
  // 300 bytes are neither dense nor elsewhere; the CPU and the link share 600 others.
  const TierUse shared{.cpu_bytes = 400, .linked_bytes = 200};
  EXPECT_DOUBLE_EQ(least_seconds(shared, 1000, 100, kRates), 0.1 + 600.0 / 150);
  EXPECT_DOUBLE_EQ(least_seconds({}, 1000, 100, kRates), 1);
  // What streams crosses the link alone.
  EXPECT_DOUBLE_EQ(least_seconds({.streamed_bytes = 500}, 1000, 100, kRates), 0.1 + 10);
  // Each node of a graph takes its time beside that.
  EXPECT_DOUBLE_EQ(least_seconds({.nodes = 50}, 1000, 100, {.device = 1000, .cpu = 100, .node_seconds = 0.01}), 1.5);
  // Moves of the adaptation need not be.
  EXPECT_DOUBLE_EQ(least_seconds({.moved_bytes = 500}, 1000, 100, kRates), 1);
}

TEST(TierUse, UnknownRatesSayNothing) {
  EXPECT_DOUBLE_EQ(least_seconds({}, 1000, 100, {}), 0);
  EXPECT_DOUBLE_EQ(least_seconds({.linked_bytes = 1}, 1000, 100, {.device = 1, .cpu = 1}), 0);
  EXPECT_GT(least_seconds({.cpu_bytes = 1}, 1000, 100, {.device = 1, .cpu = 1}), 0);
  EXPECT_DOUBLE_EQ(link_busy({.linked_bytes = 1}, 1, {}), 0);
}

TEST(TierUse, TheLinkIsBusyWithAllThatCrossesIt) {
  const TierUse use{.linked_bytes = 10, .streamed_bytes = 20, .moved_bytes = 10};
  EXPECT_DOUBLE_EQ(link_busy(use, 1, kRates), 0.8);
}

}  // namespace
}  // namespace strata::cli
