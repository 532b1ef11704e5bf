// The table of a placement, for people.
#include <algorithm>

#include "base/format.h"
#include "experts/placement.h"

namespace strata::experts {
namespace {

void add_row(std::string& text, const std::string& where, const std::string& what, uint64_t bytes,
             const std::string& experts) {
  text += format("| {} | {} | {} | {} |\n", where, what, format_bytes(bytes), experts);
}

uint64_t minus(uint64_t a, uint64_t b) { return a - std::min(a, b); }

int64_t count(const PlacementPlan& plan, Tier tier) {
  int64_t n = 0;
  for (const auto& layer : plan.tiers) n += std::count(layer.begin(), layer.end(), tier);
  return n;
}

std::string lent_text(const PartPlacement& part) {
  return format("the highest {} of the slots, {} of them in RAM too", part.lent_slots, part.lent_in_ram);
}

void add_part(std::string& text, const PlacementInput& input, size_t i) {
  const PartNeeds& needs = input.parts[i];
  const bool all = needs.first_layer == 0 && needs.last_layer == static_cast<int>(input.layout.layers().size());
  const std::string where =
      all ? needs.device : format("{}, layers {} to {}", needs.device, needs.first_layer, needs.last_layer - 1);
  add_row(text, where, "weights", needs.weights_bytes, "");
  add_row(text, where, "context", needs.state_bytes, "");
  add_row(text, where, "step buffers", needs.step_bytes, "");
}

void add_cache(std::string& text, const PlacementInput& input, const PlacementPlan& plan, size_t i) {
  const PartNeeds& needs = input.parts[i];
  const PartPlacement& part = plan.parts[i];
  if (part.slots.n_slots() > 0) {
    add_row(text, needs.device, "expert cache", part.cache.device, format("{}", part.slots.n_slots()));
  }
  if (!part.ring.empty() && !part.borrowed) {
    add_row(text, needs.device, "ring for prompts", part.ring.bytes(), "");
  }
  if (part.lent_slots > 0) add_row(text, needs.device, "lent to prompts", part.ring.bytes(), lent_text(part));
  if (needs.on_host) return;
  add_row(text, needs.device, "free", minus(needs.budget_bytes, needs.device_bytes() + part.device_bytes()), "");
}

void add_ram(std::string& text, const PlacementInput& input, const PlacementPlan& plan) {
  uint64_t for_devices = 0;
  for (size_t i = 0; i < input.parts.size(); i++) {
    for_devices += input.parts[i].host_bytes + plan.parts[i].cache.host;
  }
  if (for_devices > 0) add_row(text, "RAM", "buffers of devices", for_devices, "");
  if (plan.source == SourceKind::kArena) {
    add_row(text, "RAM", "arena", plan.experts_bytes, "all");
  } else if (plan.source == SourceKind::kResident) {
    add_row(text, "RAM", "resident copy", plan.experts_bytes, format("{}", plan.resident.blobs().size()));
  }
  if (plan.stage_bytes > 0) add_row(text, "RAM", "buffers of direct reads", plan.stage_bytes, "");
  if (plan.pinned_bytes > 0) add_row(text, "RAM", "of these page-locked", plan.pinned_bytes, "");
  add_row(text, "RAM", "free", minus(input.ram_bytes, plan.ram_bytes()), "");
}

}  // namespace

std::string placement_text(const PlacementInput& input, const PlacementPlan& plan) {
  std::string text = "| where | what | size | experts |\n| --- | --- | ---: | --- |\n";
  for (size_t i = 0; i < input.parts.size(); i++) {
    add_part(text, input, i);
    add_cache(text, input, plan, i);
  }
  add_ram(text, input, plan);
  if (const int64_t n = count(plan, Tier::kFile); n > 0) {
    uint64_t bytes = 0;
    for (size_t l = 0; l < plan.tiers.size(); l++) {
      const auto in_layer = std::count(plan.tiers[l].begin(), plan.tiers[l].end(), Tier::kFile);
      bytes += static_cast<uint64_t>(in_layer) * input.layout.layers()[l].blob_bytes();
    }
    const SourceKind kind = plan.source == SourceKind::kResident ? plan.below : plan.source;
    add_row(text, "files", kind == SourceKind::kDirect ? "direct reads" : "mapped", bytes, format("{}", n));
  }
  for (const std::string& reason : plan.reasons) text += reason + "\n";
  return text;
}

}  // namespace strata::experts
