#include "experts/slot_plan.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"

namespace strata::experts {
namespace {

Status check_ranking(const ExpertLayout& layout, std::span<const ExpertKey> ranking) {
  std::vector<std::vector<bool>> seen;
  for (const LayerLayout& layer : layout.layers()) seen.emplace_back(static_cast<size_t>(layer.n_experts));
  for (const ExpertKey& key : ranking) {
    const bool has_layer = key.layer >= 0 && static_cast<size_t>(key.layer) < seen.size();
    if (!has_layer || key.expert < 0 || key.expert >= layout.layer(key.layer).n_experts) {
      return Error{ErrorCode::kBadInput,
                   format("the ranking of experts names expert {} of layer {}, which the model does not have",
                          key.expert, key.layer)};
    }
    std::vector<bool>::reference ranked = seen[static_cast<size_t>(key.layer)][static_cast<size_t>(key.expert)];
    if (ranked) {
      return Error{ErrorCode::kBadInput,
                   format("the ranking of experts names expert {} of layer {} twice", key.expert, key.layer)};
    }
    ranked = true;
  }
  return {};
}

}  // namespace

Result<SlotPlan> SlotPlan::make(const ExpertLayout& layout, std::span<const ExpertKey> ranking,
                                const SlotLimits& limits) {
  RETURN_IF_ERROR(check_ranking(layout, ranking));
  SlotPlan plan;
  for (const ExpertKey& key : ranking) {
    if (plan.n_slots() >= limits.max_slots) break;
    const uint64_t bytes = align_up(layout.layer(key.layer).blob_bytes(), kSlotAlignment);
    if (bytes > limits.budget_bytes - plan.bytes()) continue;
    plan.slots_.push_back({key, plan.bytes(), bytes});
  }
  return plan;
}

uint64_t SlotPlan::largest_slot_bytes() const {
  uint64_t largest = 0;
  for (const Slot& slot : slots_) largest = std::max(largest, slot.bytes);
  return largest;
}

uint64_t SlotPlan::lendable_bytes(int64_t min_slots) const {
  if (min_slots >= n_slots()) return 0;
  return bytes() - slots_[static_cast<size_t>(std::max<int64_t>(min_slots, 0))].offset;
}

std::optional<int64_t> SlotPlan::slots_to_lend(uint64_t bytes, int64_t min_slots) const {
  if (bytes > lendable_bytes(min_slots)) return std::nullopt;
  int64_t n = 0;
  for (uint64_t lent = 0; lent < bytes; n++) lent += slots_[static_cast<size_t>(n_slots() - 1 - n)].bytes;
  return n;
}

std::vector<ExpertKey> even_ranking(const ExpertLayout& layout) {
  int32_t most = 0;
  for (const LayerLayout& layer : layout.layers()) most = std::max(most, layer.n_experts);
  std::vector<ExpertKey> ranking;
  for (int32_t expert = 0; expert < most; expert++) {
    for (int32_t layer = 0; layer < static_cast<int32_t>(layout.layers().size()); layer++) {
      if (expert < layout.layer(layer).n_experts) ranking.push_back({layer, expert});
    }
  }
  return ranking;
}

}  // namespace strata::experts
