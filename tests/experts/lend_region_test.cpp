// What a cache keeps when it lends, and which experts a loan takes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "experts/lend_region.h"
#include "experts/support.h"

namespace strata::test {
namespace {

using experts::ExpertKey;
using experts::lend_region;
using experts::slots_kept;
using experts::SlotPlan;

TEST(LendRegion, ACacheKeepsItsMinimum) {
  EXPECT_EQ(slots_kept(1000, {.min_slots = 400, .n_experts = 2000}), 400);
  EXPECT_EQ(slots_kept(100, {.min_slots = 128, .n_experts = 2000}), 100);
  EXPECT_EQ(slots_kept(0, {.min_slots = 128, .n_experts = 2000}), 0);
}

TEST(LendRegion, AtMost85In100AreLentAnd90WhenNineInTenExpertsArePinned) {
  EXPECT_EQ(slots_kept(1000, {.min_slots = 1, .n_pinned = 0, .n_experts = 2000}), 150);
  EXPECT_EQ(slots_kept(1000, {.min_slots = 1, .n_pinned = 1799, .n_experts = 2000}), 150);
  EXPECT_EQ(slots_kept(1000, {.min_slots = 1, .n_pinned = 1800, .n_experts = 2000}), 100);
  // Part of a slot is not lent.
  EXPECT_EQ(slots_kept(9, {.min_slots = 1, .n_experts = 9}), 2);
  EXPECT_EQ(slots_kept(1, {.min_slots = 0, .n_experts = 9}), 1);
}

// Ten experts of one layer, the first in the lowest slot.
struct TenSlots {
  ExpertModel model{{.n_layers = 1, .n_experts = 10}, numbered_parts()};
  SlotPlan plan = SlotPlan::make(model.layout, experts::even_ranking(model.layout),
                                 {.budget_bytes = 100 * kMiB, .max_slots = 10}).value();
  uint64_t slot = plan.slots()[0].bytes;
};

TEST(LendRegion, TakesTheHighestSlotsFirst) {
  const TenSlots ten;
  const auto region = [&](uint64_t bytes, int64_t keep) {
    return lend_region(ten.plan, bytes, {.min_slots = keep, .n_experts = 10});
  };
  EXPECT_EQ(region(0, 1), std::vector<ExpertKey>());
  EXPECT_EQ(region(1, 1), (std::vector<ExpertKey>{{0, 9}}));
  EXPECT_EQ(region(2 * ten.slot + 1, 1), (std::vector<ExpertKey>{{0, 9}, {0, 8}, {0, 7}}));
  EXPECT_EQ(region(8 * ten.slot, 1).size(), 8u);
}

TEST(LendRegion, ALoanThatTheCacheRefusesHasNone) {
  const TenSlots ten;
  EXPECT_TRUE(lend_region(ten.plan, 8 * ten.slot + 1, {.min_slots = 1, .n_experts = 10}).empty());
  EXPECT_EQ(lend_region(ten.plan, 9 * ten.slot, {.min_slots = 1, .n_pinned = 9, .n_experts = 10}).size(), 9u);
  EXPECT_TRUE(lend_region(ten.plan, 2 * ten.slot, {.min_slots = 9, .n_experts = 10}).empty());
}

RC_GTEST_PROP(LendRegion, IsWhatTheLoanItselfTakes, ()) {
  static const TenSlots ten;
  const experts::LoanRule rule{.min_slots = *rc::gen::inRange<int64_t>(0, 12),
                               .n_pinned = *rc::gen::inRange<int64_t>(0, 11), .n_experts = 10};
  const auto bytes = *rc::gen::inRange<uint64_t>(1, 12 * ten.slot);
  const auto region = lend_region(ten.plan, bytes, rule);
  const auto loan = ten.plan.slots_to_lend(bytes, slots_kept(ten.plan.n_slots(), rule));
  RC_ASSERT(static_cast<int64_t>(region.size()) == loan.value_or(0));
  RC_ASSERT(ten.plan.n_slots() - static_cast<int64_t>(region.size()) >= slots_kept(ten.plan.n_slots(), rule));
  for (size_t i = 0; i < region.size(); i++) RC_ASSERT(region[i] == ten.plan.slots()[9 - i].key);
}

}  // namespace
}  // namespace strata::test
