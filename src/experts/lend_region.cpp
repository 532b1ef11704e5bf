#include "experts/lend_region.h"

#include <algorithm>

namespace strata::experts {

int64_t slots_kept(int64_t n_slots, const LoanRule& rule) {
  const bool mostly_pinned = rule.n_experts > 0 && rule.n_pinned * 10 >= rule.n_experts * 9;
  const int64_t lendable = n_slots * (mostly_pinned ? 90 : 85) / 100;
  return std::max(std::min(rule.min_slots, n_slots), n_slots - lendable);
}

std::vector<ExpertKey> lend_region(const SlotPlan& plan, uint64_t loan_bytes, const LoanRule& rule) {
  std::vector<ExpertKey> region;
  const int64_t n = plan.slots_to_lend(loan_bytes, slots_kept(plan.n_slots(), rule)).value_or(0);
  for (int64_t i = plan.n_slots() - 1; i >= plan.n_slots() - n; i--) {
    region.push_back(plan.slots()[static_cast<size_t>(i)].key);
  }
  return region;
}

}  // namespace strata::experts
