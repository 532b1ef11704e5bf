// What every operation computes on the host: against plain doubles, with the bytes around its outputs watched, and the
// same bits whatever the number of threads and the way a prompt is cut.
#include <set>

#include <gtest/gtest.h>

#include "device/combine_check.h"
#include "device/op_checks.h"

namespace strata::test {
namespace {

using device::Stream;
using device::host::HostDevice;

// Runs the case once, after a capture that reserves its scratch.
void run_once(HostDevice& device, const OpCase& c) {
  ASSERT_TRUE(device.capture(c.enqueue).ok());
  const auto stream = device.make_stream("test");
  c.enqueue(*stream);
  ASSERT_TRUE(stream->synchronize().ok());
}

TEST(Ops, EveryOperationHasACase) {
  HostDevice device(host_options());
  std::set<int> seen;
  OpCases cases = all_op_cases(device);
  add_linked_cases(device, cases);
  for (const auto& c : cases) seen.insert(c->op());
  EXPECT_EQ(seen.size(), static_cast<size_t>(device::AllOps::kCount));
}

TEST(Ops, ComputeTheFormulaAndWriteNothingElse) {
  HostDevice device(host_options());
  for (const auto& c : all_op_cases(device)) {
    for (const uint64_t seed : {1, 2, 3}) {
      Random random(seed);
      c->fill(random);
      const std::vector<Want> wants = c->expect();
      ASSERT_FALSE(wants.empty());
      const auto before = c->snapshot();
      run_once(device, *c);
      expect_values(*c, wants);
      expect_rest_untouched(*c, wants, before);
    }
  }
}

TEST(Ops, ExpertsAreReadWhereTheyLieOutsideTheSlots) {
  HostDevice device(host_options());
  OpCases cases;
  add_linked_cases(device, cases);
  for (const auto& c : cases) {
    Random random(5);
    c->fill(random);
    const std::vector<Want> wants = c->expect();
    const auto before = c->snapshot();
    run_once(device, *c);
    expect_values(*c, wants);
    expect_rest_untouched(*c, wants, before);
  }
}

TEST(Ops, NoLiveRowsMeansNothingIsTouched) {
  HostDevice device(host_options());
  for (const auto& c : all_op_cases(device)) {
    Random random(1);
    if (c->op() == device::op_index<device::ShareExperts>()) continue;  // tells the host so
    c->fill(random);
    c->set_empty();
    const auto before = c->snapshot();
    run_once(device, *c);
    EXPECT_EQ(c->snapshot(), before) << c->name();
  }
}

TEST(Ops, BitsDoNotDependOnTheNumberOfThreads) {
  HostDevice one(host_options(1));
  HostDevice three(host_options(3));
  const OpCases a = all_op_cases(one), b = all_op_cases(three);
  for (size_t i = 0; i < a.size(); i++) {
    Random random_a(7), random_b(7);
    a[i]->fill(random_a);
    b[i]->fill(random_b);
    ASSERT_EQ(a[i]->snapshot(), b[i]->snapshot()) << a[i]->name();
    run_once(one, *a[i]);
    run_once(three, *b[i]);
    EXPECT_EQ(a[i]->snapshot(), b[i]->snapshot()) << a[i]->name();
  }
}

TEST(Ops, CombineSumsInRankOrder) { EXPECT_TRUE(combine_sums_in_rank_order()); }

// Bits of a column of the check must change when the ranks are summed in any other order, or it would prove nothing.
TEST(Ops, EveryOtherOrderOfRanksShowsInTheCombineCheck) {
  std::array<int, kCombineRanks> order;
  std::iota(order.begin(), order.end(), 0);
  const std::vector<float> in_order = combine_reference(order);
  while (std::next_permutation(order.begin(), order.end())) {
    // Which of the first two comes first makes no difference to a sum.
    if (order[0] == 1 && order[1] == 0 && std::is_sorted(order.begin() + 2, order.end())) continue;
    EXPECT_NE(combine_reference(order), in_order) << order[0] << order[1] << order[2] << order[3];
  }
}

}  // namespace
}  // namespace strata::test
