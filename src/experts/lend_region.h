// How much of an expert cache prompts may borrow, and which experts that concerns: one arithmetic for the plan of the
// resident copy, which keeps those experts in RAM too, and for the loans themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "experts/slot_plan.h"

namespace strata::experts {

// What limits a loan beside the size of the cache.
struct LoanRule {
  int64_t min_slots = 0;  // that the cache keeps in any case (--cache-min-slots)
  int64_t n_pinned = 0;   // experts of the model that lie in page-locked RAM
  int64_t n_experts = 0;  // of the model
};

// Slots that a cache of `n_slots` keeps when it lends: at least rule.min_slots, and 15 of 100; 10 of 100 where nine in
// ten experts are pinned, for then what a loan drives out comes back over the link at its full speed.
int64_t slots_kept(int64_t n_slots, const LoanRule& rule);

// The experts that a loan of `loan_bytes` takes from the cache, from the highest slot downward. Empty for a loan of no
// bytes, and for one that the cache refuses because what it may lend is too small.
std::vector<ExpertKey> lend_region(const SlotPlan& plan, uint64_t loan_bytes, const LoanRule& rule);

}  // namespace strata::experts
