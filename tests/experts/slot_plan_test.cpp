// Which experts get slots, where the slots lie, and what can be lent of them.
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "experts/mixed_model.h"
#include "experts/slot_plan.h"

namespace strata::test {
namespace {

using experts::ExpertKey;
using experts::Slot;
using experts::SlotPlan;

constexpr int64_t kMany = 1000000;
// Blobs of layer 0 take 5 units, those of layer 1 take 3.
constexpr uint64_t kUnit = 512;

MixedModel five_and_three() {
  ExpertSpec five{.dim = 16, .ffn = 16, .n_experts = 2};
  five.down_type = quant::Type::F16;
  ExpertSpec three = five;
  three.gate_up_type = quant::Type::F16;
  return MixedModel({five, three}, numbered_parts());
}

std::vector<uint64_t> sizes(const SlotPlan& plan) {
  std::vector<uint64_t> out;
  for (const Slot& slot : plan.slots()) out.push_back(slot.bytes / kUnit);
  return out;
}

SlotPlan plan_of(const MixedModel& model, const std::vector<ExpertKey>& ranking, uint64_t units,
                 int64_t max_slots = kMany) {
  return SlotPlan::make(model.layout, ranking, {.budget_bytes = units * kUnit, .max_slots = max_slots}).value();
}

TEST(SlotPlan, SlotsAreNumberedByAddressInOrderOfTheRanking) {
  const MixedModel model = five_and_three();
  const std::vector<ExpertKey> ranking = {{0, 1}, {1, 0}, {1, 1}, {0, 0}};
  const SlotPlan plan = plan_of(model, ranking, 100);
  EXPECT_EQ(sizes(plan), (std::vector<uint64_t>{5, 3, 3, 5}));
  EXPECT_EQ(plan.bytes(), 16 * kUnit);
  EXPECT_EQ(plan.largest_slot_bytes(), 5 * kUnit);
  uint64_t at = 0;
  for (size_t i = 0; i < ranking.size(); i++) {
    EXPECT_EQ(plan.slots()[i].key, ranking[i]);
    EXPECT_EQ(plan.slots()[i].offset, at);
    at = plan.slots()[i].end();
  }
}

TEST(SlotPlan, APairThatDoesNotFitIsPassedOverAndSmallerOnesGoIn) {
  const MixedModel model = five_and_three();
  const std::vector<ExpertKey> ranking = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(sizes(plan_of(model, ranking, 2)), std::vector<uint64_t>());
  EXPECT_EQ(sizes(plan_of(model, ranking, 4)), (std::vector<uint64_t>{3}));
  EXPECT_EQ(sizes(plan_of(model, ranking, 8)), (std::vector<uint64_t>{5, 3}));
  EXPECT_EQ(sizes(plan_of(model, ranking, 9)), (std::vector<uint64_t>{5, 3}));
  EXPECT_EQ(sizes(plan_of(model, ranking, 10)), (std::vector<uint64_t>{5, 5}));
  EXPECT_EQ(sizes(plan_of(model, ranking, 15)), (std::vector<uint64_t>{5, 5, 3}));
  EXPECT_EQ(sizes(plan_of(model, ranking, 16)), (std::vector<uint64_t>{5, 5, 3, 3}));
}

TEST(SlotPlan, TheNumberOfSlotsIsALimitToo) {
  const MixedModel model = five_and_three();
  const std::vector<ExpertKey> ranking = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(plan_of(model, ranking, 100, 0).n_slots(), 0);
  EXPECT_EQ(plan_of(model, ranking, 100, 0).bytes(), 0u);
  EXPECT_EQ(sizes(plan_of(model, ranking, 100, 3)), (std::vector<uint64_t>{5, 5, 3}));
  EXPECT_EQ(sizes(plan_of(model, ranking, 8, 2)), (std::vector<uint64_t>{5, 3}));
}

TEST(SlotPlan, SlotsStartAligned) {
  const ExpertModel model({.dim = 3, .ffn = 5}, numbered_parts());
  const SlotPlan plan =
      SlotPlan::make(model.layout, experts::even_ranking(model.layout), {.budget_bytes = kMiB, .max_slots = kMany})
          .value();
  ASSERT_EQ(plan.n_slots(), 4);
  for (const Slot& slot : plan.slots()) EXPECT_EQ(slot.offset % experts::kSlotAlignment, 0u);
  EXPECT_GE(plan.slots()[0].bytes, model.layout.layer(0).blob_bytes());
}

TEST(SlotPlan, RankingsThatCannotBeAreRefused) {
  const MixedModel model = five_and_three();
  const auto make = [&](std::vector<ExpertKey> ranking) {
    return SlotPlan::make(model.layout, ranking, {.budget_bytes = kMiB, .max_slots = kMany});
  };
  expect_error(make({{0, 0}, {1, 1}, {0, 0}}), ErrorCode::kBadInput, {"expert 0 of layer 0", "twice"});
  expect_error(make({{0, 2}}), ErrorCode::kBadInput, {"expert 2 of layer 0"});
  expect_error(make({{0, -1}}), ErrorCode::kBadInput, {"expert -1"});
  expect_error(make({{2, 0}}), ErrorCode::kBadInput, {"layer 2"});
  expect_error(make({{-1, 0}}), ErrorCode::kBadInput, {"layer -1"});
  // Also behind the last one that fits.
  expect_error(SlotPlan::make(model.layout, std::vector<ExpertKey>{{0, 0}, {7, 0}}, {}), ErrorCode::kBadInput, {"7"});
}

TEST(SlotPlan, LendsTheFewestHighestSlots) {
  const MixedModel model = five_and_three();
  const SlotPlan plan = plan_of(model, {{0, 0}, {1, 0}, {1, 1}, {0, 1}}, 100);  // 5, 3, 3, 5
  const auto lend = [&](uint64_t bytes, int64_t keep) { return plan.slots_to_lend(bytes, keep); };
  EXPECT_EQ(lend(1, 0), 1);
  EXPECT_EQ(lend(5 * kUnit, 0), 1);
  EXPECT_EQ(lend(5 * kUnit + 1, 0), 2);
  EXPECT_EQ(lend(8 * kUnit, 0), 2);
  EXPECT_EQ(lend(11 * kUnit, 0), 3);
  EXPECT_EQ(lend(11 * kUnit + 1, 0), 4);
  EXPECT_EQ(lend(16 * kUnit, 0), 4);
  EXPECT_EQ(lend(16 * kUnit + 1, 0), std::nullopt);
  EXPECT_EQ(lend(8 * kUnit, 2), 2);
  EXPECT_EQ(lend(8 * kUnit + 1, 2), std::nullopt);
  EXPECT_EQ(lend(1, 4), std::nullopt);
  EXPECT_EQ(lend(1, 128), std::nullopt);
  EXPECT_EQ(plan.lendable_bytes(3), 5 * kUnit);
  EXPECT_EQ(plan.lendable_bytes(128), 0u);
}

TEST(SlotPlan, TheEvenRankingGivesEveryLayerItsShare) {
  const ExpertSpec three{.n_experts = 3};
  const MixedModel model({three, kDenseLayer, three}, numbered_parts());
  EXPECT_EQ(experts::even_ranking(model.layout),
            (std::vector<ExpertKey>{{0, 0}, {2, 0}, {0, 1}, {2, 1}, {0, 2}, {2, 2}}));
}

RC_GTEST_PROP(SlotPlan, NoSlotsOverlapNoExpertHasTwoAndNoRoomIsLeftForOneThatHasNone, ()) {
  const MixedModel model = five_and_three();
  std::vector<ExpertKey> ranking = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  std::vector<ExpertKey> shuffled;
  while (!ranking.empty()) {
    const auto at = *rc::gen::inRange<size_t>(0, ranking.size());
    shuffled.push_back(ranking[at]);
    ranking.erase(ranking.begin() + static_cast<int64_t>(at));
  }
  shuffled.resize(*rc::gen::inRange<size_t>(0, 5));
  const auto budget = *rc::gen::inRange<uint64_t>(0, 20 * kUnit);
  const auto most = *rc::gen::inRange<int64_t>(0, 6);
  const SlotPlan plan = SlotPlan::make(model.layout, shuffled, {budget, most}).value();
  std::set<ExpertKey> seen;
  uint64_t at = 0;
  for (const Slot& slot : plan.slots()) {
    RC_ASSERT(slot.offset == at);
    RC_ASSERT(slot.bytes >= model.layout.layer(slot.key.layer).blob_bytes());
    RC_ASSERT(seen.insert(slot.key).second);
    at = slot.end();
  }
  RC_ASSERT(plan.bytes() == at);
  RC_ASSERT(at <= budget);
  RC_ASSERT(plan.n_slots() <= most);
  for (const ExpertKey& key : shuffled) {
    const bool fits = at + (key.layer == 0 ? 5 : 3) * kUnit <= budget && plan.n_slots() < most;
    RC_ASSERT(seen.count(key) > 0 || !fits);
  }
  const auto keep = *rc::gen::inRange<int64_t>(0, 6);
  const auto bytes = *rc::gen::inRange<uint64_t>(1, 20 * kUnit);
  if (const auto n = plan.slots_to_lend(bytes, keep)) {
    const auto lent_from = [&](int64_t slots) {
      return plan.bytes() - plan.slots()[static_cast<size_t>(plan.n_slots() - slots)].offset;
    };
    RC_ASSERT(*n >= 1);
    RC_ASSERT(plan.n_slots() - *n >= keep);
    RC_ASSERT(lent_from(*n) >= bytes);
    if (*n > 1) RC_ASSERT(lent_from(*n - 1) < bytes);  // RC_ASSERT evaluates both sides of ||
  } else {
    RC_ASSERT(plan.lendable_bytes(keep) < bytes);
  }
}

}  // namespace
}  // namespace strata::test
