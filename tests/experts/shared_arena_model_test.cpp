// Goal: whatever the order of their steps, and whichever of them die, engines that share an arena keep what
// experts/arena_model.h promises. Method: all interleavings of three processes over the rules that the engines follow;
// as a control, rules with one mistake each, which the checker must find.
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experts/arena_model.h"

namespace strata::test {
namespace {

using experts::shared_arena::next;
using experts::shared_arena::Seen;
using experts::shared_arena::Step;
using testing::HasSubstr;

constexpr std::array<int, 3> kOnePack = {0, 0, 0};
constexpr std::array<int, 3> kTwoPacks = {0, 0, 1};

TEST(ArenaProtocol, OneLoadsAndAllAttach) {
  const ModelReport report = check_model({.packs = kOnePack, .crashes = 2, .aborts = 1});
  EXPECT_EQ(report.violation, "");
  EXPECT_TRUE(report.any_attached);
  EXPECT_FALSE(report.any_failed) << "engines of one model have nothing to refuse";
  EXPECT_GT(report.n_states, 5000u);
}

TEST(ArenaProtocol, AnotherPackReplacesOnlyWhatNobodyUses) {
  const ModelReport report = check_model({.packs = kTwoPacks, .crashes = 2, .aborts = 1, .load_errors = 1});
  EXPECT_EQ(report.violation, "");
  EXPECT_TRUE(report.any_attached);
  EXPECT_TRUE(report.any_failed) << "a file that is in use has to be refused";
}

TEST(ArenaProtocol, ALoaderThatStandsStillEndsTheWait) {
  for (const auto& packs : {kOnePack, kTwoPacks}) {
    const ModelReport report = check_model({.packs = packs, .crashes = 1, .stops = 1, .load_errors = 1});
    EXPECT_EQ(report.violation, "");
    EXPECT_TRUE(report.any_failed);
  }
}

TEST(ArenaProtocol, AFileThatIsTakenAwayIsLoadedAnew) {
  const ModelReport one = check_model({.packs = kOnePack, .crashes = 1, .removals = 2});
  EXPECT_EQ(one.violation, "");
  EXPECT_FALSE(one.any_failed);
  EXPECT_EQ(check_model({.packs = kTwoPacks, .crashes = 1, .removals = 1}).violation, "");
}

// Rules in which one answer to one step leads elsewhere.
NextRule broken(Step at, Seen seen, Step to) {
  return [=](Step step, Seen found) { return step == at && found == seen ? to : next(step, found); };
}

std::string violation_of(const NextRule& rule, const ModelSpec& rest) {
  ModelSpec spec = rest;
  spec.next = rule;
  return check_model(spec).violation;
}

// Either lock alone keeps a second engine from loading: without FILL it is refused where it should wait.
TEST(ArenaProtocol, ControlLoadingWithoutTheLocks) {
  const NextRule no_fill = broken(Step::kLockFill, Seen::kBusy, Step::kCompare);
  EXPECT_TRUE(check_model({.packs = kOnePack, .next = no_fill}).any_failed);
  const NextRule neither = [=](Step step, Seen seen) {
    return step == Step::kClaimToLoad && seen == Seen::kBusy ? Step::kLoad : no_fill(step, seen);
  };
  EXPECT_THAT(violation_of(neither, {.packs = kOnePack}), HasSubstr("two processes load"));
}

TEST(ArenaProtocol, ControlAttachingToWhatIsNotPublished) {
  EXPECT_THAT(violation_of(broken(Step::kInspect, Seen::kUnfinished, Step::kShare), {.packs = kOnePack, .crashes = 1}),
              HasSubstr("not published"));
}

TEST(ArenaProtocol, ControlNotComparingAfterTheLock) {
  EXPECT_THAT(violation_of(broken(Step::kLockFill, Seen::kDone, Step::kInspect), {.packs = kTwoPacks, .crashes = 1}),
              HasSubstr("has not looked at"));
}

TEST(ArenaProtocol, ControlAttachingWithoutUser) {
  const NextRule no_user = broken(Step::kInspect, Seen::kPublished, Step::kRelease);
  EXPECT_THAT(violation_of(no_user, {.packs = kTwoPacks, .crashes = 1}), HasSubstr("lost its file"));
}

TEST(ArenaProtocol, ControlRemovingWithoutUser) {
  EXPECT_THAT(violation_of(broken(Step::kInspect, Seen::kForeign, Step::kRemove), {.packs = kTwoPacks}),
              HasSubstr("lost its file"));
}

TEST(ArenaProtocol, ControlWaitingWhateverHappens) {
  EXPECT_THAT(violation_of(broken(Step::kWait, Seen::kStuck, Step::kLockFill), {.packs = kOnePack, .stops = 1}),
              HasSubstr("waits for ever"));
}

TEST(ArenaProtocol, ControlOpeningAgainAndAgain) {
  EXPECT_THAT(violation_of(broken(Step::kCompare, Seen::kSame, Step::kOpen), {.packs = kOnePack}),
              HasSubstr("waits for ever"));
}

TEST(ArenaProtocol, StepsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Step::kFailed); i++) names.insert(step_name(static_cast<Step>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(Step::kFailed) + 1);
  EXPECT_EQ(next(Step::kAttached, Seen::kDone), Step::kFailed) << "what can't be seen leads to the end";
}

}  // namespace
}  // namespace strata::test
