// Experts change places between a cache and RAM while steps go on. Whatever fails, in every state every expert can be
// read somewhere and its bytes are right, a step meets no slot that is being written (the checker of access orders
// watches), and the next try works.
#include "experts/swap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experts/support.h"
#include "experts/swap_rig.h"

namespace strata::test {
namespace {

using experts::ExpertKey;
using experts::ExpertSwaps;
using experts::Move;
using experts::SwapState;

struct Case {
  bool sim;
  Beside beside;
};
class Swap : public testing::TestWithParam<Case> {
 protected:
  SwapRigOptions options(uint64_t seed = 1) const {
    return {.sim = GetParam().sim, .beside = GetParam().beside, .seed = seed};
  }
};

TEST_P(Swap, MovesArriveAndEveryStepIsRight) {
  for (uint64_t seed = 1; seed <= 4; seed++) {
    SwapRig rig(options(seed));
    for (uint64_t round = 0; round < 10; round++) {
      const std::vector<Move> moves = rig.some_moves(100 * seed + round, 1 + static_cast<int64_t>(round % 3));
      const std::set<ExpertKey> kept = rig.source->kept();
      ASSERT_TRUE(rig.swaps->begin(moves).ok());
      EXPECT_EQ(run_to_the_end(rig), 0);
      expect_done(rig, moves, true);
      EXPECT_EQ(rig.source->kept().size(), kept.size()) << "RAM neither grows nor shrinks";
    }
    EXPECT_EQ(rig.stats.get(Counter::kCacheSwaps), 1 + 2 + 3 + 1 + 2 + 3 + 1 + 2 + 3 + 1);
    EXPECT_EQ(rig.stats.get(Counter::kCacheSwapsUndone), 0);
    EXPECT_EQ(rig.races(), std::vector<std::string>());
  }
}

TEST_P(Swap, AnExpertThatCannotBeReadStaysWhereItIs) {
  SwapRig rig(options());
  const std::vector<Move> moves = rig.some_moves(3, 2);
  rig.source->unreadable.insert(moves[1].in);
  static_cast<void>(rig.swaps->begin(moves));
  EXPECT_EQ(run_to_the_end(rig), 1);
  expect_done(rig, moves, false);
  EXPECT_EQ(rig.stats.get(Counter::kCacheSwaps), 0);
  EXPECT_EQ(rig.stats.get(Counter::kCacheSwapsUndone), 2);
  rig.source->unreadable.clear();
  ASSERT_TRUE(rig.swaps->begin(moves).ok());
  EXPECT_EQ(run_to_the_end(rig), 0);
  expect_done(rig, moves, true);
  EXPECT_EQ(rig.races(), std::vector<std::string>());
}

TEST_P(Swap, SettledInOneGoForALoan) {
  SwapRig rig(options());
  const std::vector<Move> moves = rig.some_moves(4, 3);
  ASSERT_TRUE(rig.swaps->begin(moves).ok());
  ASSERT_TRUE(rig.swaps->settle().ok());
  expect_done(rig, moves, true);
  ASSERT_TRUE(rig.cache->lend(1).ok());
}

TEST_P(Swap, TakesTheMemoryItSays) {
  SwapRig rig(options());
  const uint64_t before = rig.used_host_bytes();
  const auto more = ExpertSwaps::create(rig.spec()).value();
  EXPECT_EQ(rig.used_host_bytes() - before,
            ExpertSwaps::bytes_needed(rig.layout(), 3, GetParam().beside != Beside::kAll));
}

INSTANTIATE_TEST_SUITE_P(Devices, Swap,
                         testing::Values(Case{true, Beside::kTheOthers}, Case{true, Beside::kLendRegionToo},
                                         Case{true, Beside::kAll}, Case{false, Beside::kTheOthers},
                                         Case{false, Beside::kAll}),
                         [](const auto& tested) {
                           return std::string(tested.param.sim ? "Sim" : "Host") + name_of(tested.param.beside);
                         });

TEST(SwapPlaces, AnExpertOfALendRegionStaysInRam) {
  SwapRig rig({.beside = Beside::kLendRegionToo});
  const ExpertKey out = rig.cache->plan().slots()[5].key;  // in RAM, too
  ExpertKey in{-1, -1};
  for (const ExpertKey& key : rig.keys()) {
    if (!rig.resident(key) && key.layer == out.layer) in = key;
  }
  const std::set<ExpertKey> kept = rig.source->kept();
  ASSERT_TRUE(rig.swaps->begin(std::vector<Move>{{in, out, 1}}).ok());
  EXPECT_EQ(rig.swaps->state(), SwapState::kUploading) << "nothing is to be saved";
  run_to_the_end(rig);
  EXPECT_TRUE(rig.resident(in));
  EXPECT_EQ(rig.source->kept(), kept) << "the slot's new expert is in RAM as its old one was";
}

TEST(SwapPlaces, TheExpertThatLeavesTakesThePlaceOfTheOneThatComes) {
  SwapRig rig({});
  const std::vector<Move> moves = rig.some_moves(1, 1);
  std::set<ExpertKey> expected = rig.source->kept();
  expected.erase(moves[0].in);
  expected.insert(moves[0].out);
  ASSERT_TRUE(rig.swaps->begin(moves).ok());
  EXPECT_EQ(rig.swaps->state(), SwapState::kSaving);
  EXPECT_TRUE(rig.resident(moves[0].out)) << "until its bytes are saved";
  ASSERT_TRUE(rig.swaps->advance().ok());
  EXPECT_EQ(rig.swaps->state(), SwapState::kUploading);
  EXPECT_FALSE(rig.resident(moves[0].out));
  EXPECT_FALSE(rig.resident(moves[0].in)) << "until its bytes have landed";
  ASSERT_TRUE(rig.swaps->advance().ok());
  EXPECT_EQ(rig.swaps->state(), SwapState::kIdle);
  EXPECT_EQ(rig.source->kept(), expected);
}

// The file behind the copy is asked for nothing: in RAM and the cache together lies every expert at any time.
TEST(SwapPlaces, TheResidentCopyKeepsWhatTheCacheDoesNot) {
  SwapRig rig({.beside = Beside::kRealCopy});
  for (uint64_t round = 0; round < 20; round++) {
    const std::vector<Move> moves = rig.some_moves(round, 1 + static_cast<int64_t>(round % 3));
    ASSERT_TRUE(rig.swaps->begin(moves).ok());
    EXPECT_EQ(rig.swaps->state(), SwapState::kSaving);
    EXPECT_EQ(run_to_the_end(rig), 0);
    expect_done(rig, moves, true);
    for (const ExpertKey& key : rig.keys()) EXPECT_EQ(rig.copy->holds(key), !rig.resident(key));
  }
  EXPECT_EQ(rig.copy->file_reads(), 0);
  EXPECT_EQ(rig.races(), std::vector<std::string>());
}

}  // namespace
}  // namespace strata::test
