// Control: an expert that leaves its slot before its bytes are kept elsewhere is noticed by the steps that need it.
#include <gtest/gtest.h>

#include "base/mutation.h"
#include "experts/swap_rig.h"

namespace strata::test {
namespace {

// Whether every step along a batch of moves is right.
bool steps_are_right(Beside beside) {
  SwapRig rig({.beside = beside});
  bool right = rig.swaps->begin(rig.some_moves(1, 2)).ok();
  for (int i = 0; i < 10 && rig.swaps->state() != experts::SwapState::kIdle; i++) {
    right = !rig.step() && rig.swaps->advance().ok() && right;
  }
  return !rig.step() && right;
}

TEST(Control, LeavingASlotUnsavedFailsTheSwapCheck) {
  for (const Beside beside : {Beside::kTheOthers, Beside::kRealCopy}) {
    EXPECT_TRUE(steps_are_right(beside));
    g_mutation = Mutation::kSwapWithoutSaving;
    EXPECT_FALSE(steps_are_right(beside));
    g_mutation = Mutation::kNone;
  }
}

}  // namespace
}  // namespace strata::test
