// The policy of a cache: which experts change places.
#include "experts/adapt.h"

#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace strata::test {
namespace {

using experts::choose_moves;
using experts::ExpertKey;
using experts::ExpertProfile;
using experts::Move;
using experts::RoutedModel;
using experts::UseCounts;

constexpr double kHalfLife = 64;

void use(UseCounts& uses, ExpertKey key, int n, bool missed) {
  for (int i = 0; i < n; i++) uses.note(key, missed);
}

// One layer of four experts; the first two are resident.
struct OneLayer {
  UseCounts uses{{"m", 1, 4}, kHalfLife};
  std::vector<bool> resident{true, true, false, false};
  std::vector<Move> moves(int64_t max = 10) const { return choose_moves(uses, resident, max); }
};

TEST(Adapt, AMissedExpertReplacesTheLeastUsed) {
  OneLayer layer;
  use(layer.uses, {0, 0}, 1, false);
  use(layer.uses, {0, 1}, 3, false);
  use(layer.uses, {0, 3}, 2, true);
  EXPECT_EQ(layer.moves(), (std::vector<Move>{{{0, 3}, {0, 0}, 1}}));
}

TEST(Adapt, OneMissIsNotEnough) {
  OneLayer layer;
  use(layer.uses, {0, 2}, 1, true);
  EXPECT_TRUE(layer.moves().empty());
  use(layer.uses, {0, 2}, 1, true);
  EXPECT_EQ(layer.moves().size(), 1u);
}

TEST(Adapt, MissesAreRecentForTwoPeriods) {
  OneLayer layer;
  use(layer.uses, {0, 2}, 1, true);
  layer.uses.fade(4);
  use(layer.uses, {0, 2}, 1, true);
  EXPECT_EQ(layer.moves().size(), 1u);
  layer.uses.fade(4);
  EXPECT_TRUE(layer.moves().empty()) << "one of the two misses is long ago";
}

TEST(Adapt, TheAdvantageHasToBeLarge) {
  OneLayer layer;
  use(layer.uses, {0, 0}, 4, false);
  use(layer.uses, {0, 1}, 4, false);
  use(layer.uses, {0, 2}, 5, true);
  EXPECT_TRUE(layer.moves().empty());
  use(layer.uses, {0, 2}, 1, true);  // 6 = 1.5 x 4
  EXPECT_EQ(layer.moves(), (std::vector<Move>{{{0, 2}, {0, 0}, 2}}));
}

TEST(Adapt, UsesFadeWithTheRowsThatPass) {
  UseCounts uses({"m", 1, 2}, 8);
  use(uses, {0, 1}, 4, true);
  EXPECT_DOUBLE_EQ(uses.count({0, 1}), 4);
  uses.fade(0);
  EXPECT_DOUBLE_EQ(uses.count({0, 1}), 4);
  uses.fade(8);
  EXPECT_DOUBLE_EQ(uses.count({0, 1}), 2);
  uses.fade(2);
  uses.fade(6);
  EXPECT_DOUBLE_EQ(uses.count({0, 1}), 1);
}

// The same uses leave the same counts in one period as in many.
TEST(Adapt, ALongPeriodCountsAsManyShortOnes) {
  UseCounts whole({"m", 1, 2}, 64), cut({"m", 1, 2}, 64);
  use(whole, {0, 0}, 1024, true);
  use(whole, {0, 1}, 512, true);
  whole.fade(2048);
  for (int i = 0; i < 512; i++) {
    use(cut, {0, 0}, 2, true);
    use(cut, {0, 1}, 1, true);
    cut.fade(4);
  }
  EXPECT_NEAR(whole.count({0, 0}), cut.count({0, 0}), 1e-6 * cut.count({0, 0}));
  EXPECT_GT(whole.count({0, 0}), 40) << "half of the rows used it";
  EXPECT_NEAR(whole.count({0, 0}), 2 * whole.count({0, 1}), 1e-9);
}

TEST(Adapt, AProfileCountsUntilItFades) {
  ExpertProfile profile({"m", 1, 4});
  profile.add({0, 0}, 30);
  profile.add({0, 1}, 10);
  OneLayer layer;
  layer.uses.begin_with(profile, 10, 2);  // 20 uses
  EXPECT_DOUBLE_EQ(layer.uses.count({0, 0}), 15);
  EXPECT_DOUBLE_EQ(layer.uses.count({0, 1}), 5);
  use(layer.uses, {0, 3}, 6, true);
  EXPECT_TRUE(layer.moves().empty());
  for (int i = 0; i < 64; i++) {
    layer.uses.fade(4);
    use(layer.uses, {0, 3}, 1, true);
  }
  EXPECT_EQ(layer.moves().at(0).in, (ExpertKey{0, 3}));
}

TEST(Adapt, TheBestGainsComeFirst) {
  UseCounts uses({"m", 2, 4}, kHalfLife);
  const std::vector<bool> resident{true, true, false, false, true, true, false, false};
  use(uses, {0, 2}, 5, true);
  use(uses, {0, 3}, 3, true);
  use(uses, {1, 2}, 4, true);
  use(uses, {1, 0}, 1, false);
  const std::vector<Move> all = choose_moves(uses, resident, 10);
  EXPECT_EQ(all, (std::vector<Move>{{{0, 2}, {0, 0}, 5}, {{1, 2}, {1, 1}, 4}, {{0, 3}, {0, 1}, 3}}));
  EXPECT_EQ(choose_moves(uses, resident, 2), std::vector<Move>(all.begin(), all.begin() + 2));
  EXPECT_TRUE(choose_moves(uses, resident, 0).empty());
}

// Whatever was used: the rules hold for each move, none is left out that they allow, and the order is that of gains.
RC_GTEST_PROP(AdaptProperty, MovesKeepTheRules, ()) {
  const RoutedModel model{"m", *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 8)};
  UseCounts uses(model, 16);
  std::vector<bool> resident(model.n_keys());
  for (size_t i = 0; i < resident.size(); i++) resident[i] = *rc::gen::arbitrary<bool>();
  const int periods = *rc::gen::inRange(1, 4);
  for (int p = 0; p < periods; p++) {
    if (p > 0) uses.fade(*rc::gen::inRange(1, 40));
    const auto n_keys = static_cast<int>(resident.size());
    const auto notes = *rc::gen::container<std::vector<int>>(rc::gen::inRange<int>(0, n_keys));
    for (const int i : notes) uses.note({i / model.n_experts, i % model.n_experts}, !resident[static_cast<size_t>(i)]);
  }
  const auto max_moves = *rc::gen::inRange<int64_t>(0, 6);
  const std::vector<Move> all = choose_moves(uses, resident, 1000);
  const std::vector<Move> moves = choose_moves(uses, resident, max_moves);
  RC_ASSERT(moves == std::vector<Move>(all.begin(), all.begin() + std::min<int64_t>(max_moves, std::ssize(all))));
  std::vector<bool> after = resident;
  std::set<ExpertKey> named;
  for (size_t i = 0; i < all.size(); i++) {
    const Move& move = all[i];
    RC_ASSERT(move.in.layer == move.out.layer);
    RC_ASSERT(!resident[model.index(move.in)] && resident[model.index(move.out)]);
    RC_ASSERT(named.insert(move.in).second && named.insert(move.out).second);
    RC_ASSERT(uses.recent_misses(move.in) >= 2);
    RC_ASSERT(uses.count(move.in) >= 1.5 * uses.count(move.out));
    RC_ASSERT(move.gain == uses.count(move.in) - uses.count(move.out));
    if (i > 0) RC_ASSERT(move.gain <= all[i - 1].gain);
    after[model.index(move.in)] = true;
    after[model.index(move.out)] = false;
  }
  // Once they are carried out there is nothing left to do, but for what has just left.
  for (const Move& move : choose_moves(uses, after, 1000)) RC_ASSERT(named.count(move.in) > 0);
}

}  // namespace
}  // namespace strata::test
