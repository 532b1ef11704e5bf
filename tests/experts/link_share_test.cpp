// How missing experts are shared out between the link and the CPU.
#include "experts/link_share.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::test {
namespace {

using experts::link_shares;
using testing::ElementsAre;

TEST(LinkShare, BothSidesEndTogether) {
  // The CPU is twice as fast: every third one is the link's, as soon as that is no later than the CPU alone.
  EXPECT_THAT(link_shares(9, 1, {.link = 50, .cpu = 100}, std::nullopt), ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, 3));
  EXPECT_THAT(link_shares(4, 1, {.link = 100, .cpu = 100}, std::nullopt), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(link_shares(3, 1, {.link = 100, .cpu = 1}, std::nullopt), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(link_shares(3, 1, {.link = 1, .cpu = 100}, std::nullopt), ElementsAre(0, 0, 0, 0));
}

// What comes over the link is late by two blobs' time of it: one of it pays from where the CPU takes longer than three.
TEST(LinkShare, TheLinkBeginsWhereItsDelayPays) {
  EXPECT_THAT(link_shares(9, 10, {.link = 100, .cpu = 100, .link_s = 0.2}, std::nullopt),
              ElementsAre(0, 0, 0, 0, 1, 1, 2, 2, 3, 3));
}

// No other share of any number ends earlier.
TEST(LinkShare, NoShareEndsEarlier) {
  for (const double link : {10.0, 47.5, 54.0, 200.0}) {
    const double cpu = 90;
    const std::vector<int32_t> shares = link_shares(128, 1, {link, cpu}, std::nullopt);
    for (int32_t m = 1; m <= 128; m++) {
      const auto end = [&](int32_t n) { return std::max(n / link, (m - n) / cpu); };
      double earliest = end(0);
      for (int32_t n = 1; n <= m; n++) earliest = std::min(earliest, end(n));
      EXPECT_DOUBLE_EQ(end(shares[static_cast<size_t>(m)]), earliest) << m << " at " << link;
    }
  }
}

TEST(LinkShare, AFractionIsKept) {
  EXPECT_THAT(link_shares(4, 1, {}, 0.0), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(link_shares(4, 1, {}, 1.0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(link_shares(5, 1, {}, 0.3), ElementsAre(0, 0, 1, 1, 1, 2));
}

}  // namespace
}  // namespace strata::test
