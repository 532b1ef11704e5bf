#include "base/random.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace strata {
namespace {

// From a separate implementation, checked against the published vector of xoshiro256** (state 1, 2, 3, 4 gives 11520,
// 0, 1509978240, 1215971899390074240) and of SplitMix64 (seed 1234567 gives 6457827717110365317 first).
TEST(RandomTest, YieldsThePublishedSequence) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 3504822795582309479u);
  EXPECT_EQ(random.next(), 1819558768956484042u);
  EXPECT_EQ(random.next(), 1250851346055027673u);
  EXPECT_EQ(random.next(), 16940231675099994102u);
  EXPECT_EQ(Random(0).next(), 11091344671253066420u);
}

TEST(RandomTest, BelowReachesEveryValueAboutEquallyOften) {
  Random random(1);
  constexpr int kDraws = 70000;
  std::vector<int> counts(7);
  for (int i = 0; i < kDraws; ++i) ++counts.at(random.below(7));
  // Six standard deviations of a binomial count.
  const double expected = kDraws / 7.0;
  for (const int count : counts) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected * 6 / 7));
}

TEST(RandomTest, BelowHoldsItsBoundAtTheExtremes) {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(random.below(1), 0u);
    EXPECT_LT(random.below(UINT64_MAX), UINT64_MAX);
    EXPECT_LT(random.below((uint64_t{1} << 63) + 1), (uint64_t{1} << 63) + 1);
  }
}

TEST(RandomDeathTest, BelowNothingIsABug) {
  Random random(3);
  EXPECT_DEATH(random.below(0), "bound > 0");
}

TEST(RandomTest, UniformAndNormalHaveTheirMoments) {
  Random random(4);
  constexpr int kDraws = 100000;
  double uniform_sum = 0, normal_sum = 0, normal_squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double uniform = random.uniform();
    ASSERT_GE(uniform, 0.0);
    ASSERT_LT(uniform, 1.0);
    uniform_sum += uniform;
    const double normal = random.normal();
    ASSERT_TRUE(std::isfinite(normal));
    normal_sum += normal;
    normal_squares += normal * normal;
  }
  // Six standard errors: 1/sqrt(12 n), 1/sqrt(n), sqrt(2/n).
  EXPECT_NEAR(uniform_sum / kDraws, 0.5, 6 / std::sqrt(12.0 * kDraws));
  EXPECT_NEAR(normal_sum / kDraws, 0.0, 6 / std::sqrt(1.0 * kDraws));
  EXPECT_NEAR(normal_squares / kDraws, 1.0, 6 * std::sqrt(2.0 / kDraws));
}

}  // namespace
}  // namespace strata
