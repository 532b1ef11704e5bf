#include "experts/placement_parts.h"

#include <algorithm>

#include "base/format.h"
#include "experts/lend_region.h"

namespace strata::experts {
namespace {

std::vector<ExpertKey> ranking_of(const PlacementInput& input, const PartNeeds& needs) {
  std::vector<ExpertKey> ranking;
  for (const ExpertKey& key : input.ranking) {
    if (key.layer >= needs.first_layer && key.layer < needs.last_layer) ranking.push_back(key);
  }
  return ranking;
}

std::string needs_text(const PartNeeds& needs) {
  return format("weights {} + context of {} tokens {} + step buffers {}", format_bytes(needs.weights_bytes),
                needs.context_tokens, format_bytes(needs.state_bytes), format_bytes(needs.step_bytes));
}

// Slots in what `others` leave of the budget.
Result<SlotPlan> slots_beside(const PlacementInput& input, std::span<const ExpertKey> ranking, uint64_t budget,
                              uint64_t others, int64_t wanted) {
  return SlotPlan::make(input.layout, ranking,
                        {.budget_bytes = budget - std::min(budget, others), .max_slots = wanted});
}

// The ring through which prompts stream what the cache lacks: in slots that the cache lends, or in memory of its own
// where that is left over or no slots may be lent; then it comes before slots that were not asked for. Where there is
// no room for one, the part stays as it is.
Status add_ring(const PlacementInput& input, const PartNeeds& needs, std::span<const ExpertKey> ranking,
                uint64_t others, PartPlacement& part) {
  const PlacementOptions& options = input.options;
  const auto n_experts = static_cast<int64_t>(ranking.size());
  const int64_t wanted = std::min(n_experts, options.cache_slots.value_or(n_experts));
  if (part.slots.n_slots() == n_experts) return {};
  // A device that can pay for all of it beside the slots that were asked for lends nothing.
  const RingPlan largest = RingPlan::make(input.layout, UINT64_MAX);
  const bool can_pay = largest.bytes() <= needs.budget_bytes - others - part.slots.bytes();
  if (options.prefill_borrow && wanted > 0 && !can_pay) {
    const LoanRule rule{.min_slots = options.cache_min_slots};
    const uint64_t lendable = part.slots.lendable_bytes(slots_kept(part.slots.n_slots(), rule));
    part.ring = RingPlan::make(input.layout, lendable);
    part.borrowed = !part.ring.empty();
    part.lent_slots = static_cast<int64_t>(lend_region(part.slots, part.ring.bytes(), rule).size());
    return {};
  }
  const uint64_t room = needs.budget_bytes - others;
  const uint64_t asked_for = options.cache_slots ? part.slots.bytes() : 0;
  const RingPlan ring = RingPlan::make(input.layout, room - std::min(room, asked_for));
  ASSIGN_OR_RETURN(SlotPlan slots, slots_beside(input, ranking, needs.budget_bytes, others + ring.bytes(), wanted));
  part.ring = ring;
  part.slots = std::move(slots);
  return {};
}

}  // namespace

Result<PartPlacement> place_part(const PlacementInput& input, const PartNeeds& needs) {
  const uint64_t budget = needs.on_host ? input.ram_bytes : needs.budget_bytes;
  if (needs.device_bytes() > budget) {
    return Error{ErrorCode::kNoMemory,
                 format("{}: {} do not fit into the {} of {}; lower --ctx or --prefill{}", input.model,
                        needs_text(needs), format_bytes(budget), needs.on_host ? "RAM that may be used" : needs.device,
                        needs.on_host ? ", or set --ram-gib or --ram-headroom-gib" : ", or give it more memory")};
  }
  const std::vector<ExpertKey> ranking = ranking_of(input, needs);
  const auto n_experts = static_cast<int64_t>(ranking.size());
  const std::optional<int64_t>& asked = input.options.cache_slots;
  const int64_t wanted = std::min(n_experts, asked.value_or(needs.on_host ? 0 : n_experts));
  const CacheBytes overhead = wanted > 0 ? ExpertCache::overhead(input.layout) : CacheBytes{};
  const uint64_t others = needs.device_bytes() + overhead.device + (needs.on_host ? overhead.host : 0);

  PartPlacement part;
  ASSIGN_OR_RETURN(part.slots, slots_beside(input, ranking, budget, others, wanted));
  if (asked && part.slots.n_slots() < wanted) {
    return Error{ErrorCode::kNoMemory,
                 format("--expert-cache {}: {} has room for {} slots beside {}; lower it or --ctx", *asked,
                        needs.device, part.slots.n_slots(), needs_text(needs))};
  }
  if (!needs.on_host) RETURN_IF_ERROR(add_ring(input, needs, ranking, std::min(others, budget), part));
  part.cache = ExpertCache::bytes_needed(input.layout, part.slots);
  return part;
}

}  // namespace strata::experts
