#include "experts/placement.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "base/mutation.h"
#include "experts/lend_region.h"
#include "experts/placement_parts.h"
#include "experts/sources/shared_arena.h"

namespace strata::experts {
namespace {

uint64_t minus(uint64_t a, uint64_t b) { return a - std::min(a, b); }

// The plan as it is being made.
class Planner {
 public:
  explicit Planner(const PlacementInput& input) : input_(input), options_(input.options) {}

  Result<PlacementPlan> run() {
    for (const PartNeeds& needs : input_.parts) {
      ASSIGN_OR_RETURN(PartPlacement part, place_part(input_, needs));
      plan_.parts.push_back(std::move(part));
    }
    if (!input_.split.empty()) plan_.reasons.push_back(input_.split);
    RETURN_IF_ERROR(count_needs());
    RETURN_IF_ERROR(choose_source());
    explain_loans();
    fill_tiers();
    count_pinned();
    return std::move(plan_);
  }

 private:
  Status count_needs();
  Status choose_source();
  Status choose_arena();
  Status choose_copy(SourceKind below);
  Status choose_files(SourceKind kind);
  // A copy of `budget_bytes` at most, lend regions included.
  Result<ResidentPlan> copy_of(uint64_t budget_bytes);
  bool nothing_left_to_files(const ResidentPlan& copy) const;
  void explain_loans();
  void fill_tiers();
  void count_pinned();
  Error too_large(const char* what, uint64_t bytes, const char* advice) const;
  Error stage_too_large() const {
    return too_large("buffers for direct reads", options_.stage_bytes, "use --experts mapped");
  }

  // RAM that experts and stage buffers can have.
  uint64_t room() const { return minus(input_.ram_bytes, plan_.needs_bytes); }
  uint64_t copy_limit() const { return options_.resident_budget_bytes.value_or(UINT64_MAX); }
  template <class... Args>
  void because(fmt::format_string<Args...> text, Args&&... args) {
    plan_.reasons.push_back(strata::vformat(text, fmt::make_format_args(args...)));
  }

  const PlacementInput& input_;
  const PlacementOptions& options_;
  PlacementPlan plan_;
  std::vector<CachedKeys> caches_;
  std::vector<std::vector<ExpertKey>> regions_;
};

Status Planner::count_needs() {
  for (size_t i = 0; i < plan_.parts.size(); i++) {
    const PartNeeds& needs = input_.parts[i];
    const PartPlacement& part = plan_.parts[i];
    plan_.needs_bytes += needs.host_bytes + part.cache.host;
    if (needs.on_host) plan_.needs_bytes += needs.device_bytes() + part.device_bytes();
    CachedKeys& keys = caches_.emplace_back();
    for (const Slot& slot : part.slots.slots()) keys.push_back(slot.key);
    std::vector<ExpertKey>& region = regions_.emplace_back();
    for (int64_t n = 0; n < part.lent_slots; n++) region.push_back(keys[keys.size() - 1 - static_cast<size_t>(n)]);
  }
  if (plan_.needs_bytes <= input_.ram_bytes) return {};
  return Error{ErrorCode::kNoMemory,
               format("{}: {} of RAM that it needs beside its experts do not fit into the {} that may be used; lower "
                      "--ctx or --prefill, or set --ram-gib or --ram-headroom-gib",
                      input_.model, format_bytes(plan_.needs_bytes), format_bytes(input_.ram_bytes))};
}

Error Planner::too_large(const char* what, uint64_t bytes, const char* advice) const {
  return {ErrorCode::kNoMemory, format("{}: {} of {} do not fit into the {} of RAM that may be used beside {} for the "
                                       "rest; {}",
                                       input_.model, what, format_bytes(bytes), format_bytes(input_.ram_bytes),
                                       format_bytes(plan_.needs_bytes), advice)};
}

// All in RAM where that fits; else as much as fits, over reads past the system's cache where the drive has them.
Status Planner::choose_source() {
  if (input_.layout.n_experts() == 0) {
    because("the model has no experts");
    return choose_files(SourceKind::kMapped);
  }
  const SourceKind files = options_.direct_reads ? SourceKind::kDirect : SourceKind::kMapped;
  if (!options_.source) {
    const uint64_t all = input_.layout.total_bytes();
    if (all <= std::min(room(), copy_limit())) {
      because("all {} of experts fit into RAM", format_bytes(all));
      return choose_arena();
    }
    because("{} of experts do not fit into the {} of RAM that are left for them", format_bytes(all),
            format_bytes(std::min(room(), copy_limit())));
    return choose_copy(files);
  }
  switch (*options_.source) {
    case SourceKind::kArena:
      return choose_arena();
    case SourceKind::kResident:
      return choose_copy(files);
    default:
      return options_.resident_budget_bytes ? choose_copy(*options_.source) : choose_files(*options_.source);
  }
}

Status Planner::choose_arena() {
  const bool shared = !options_.shared_arena.empty();
  const uint64_t all = shared ? shared_arena_bytes(input_.layout) : input_.layout.total_bytes();
  if (shared) {
    because("the arena is the file {}, which all engines share that name it: its {} count once",
            printable(options_.shared_arena), format_bytes(all));
  }
  if (all > room()) {
    return too_large("experts", all, "use --experts resident, or set --ram-gib or --ram-headroom-gib");
  }
  plan_.source = SourceKind::kArena;
  plan_.experts_bytes = all;
  for (PartPlacement& part : plan_.parts) part.lent_in_ram = part.lent_slots;
  return {};
}

Result<ResidentPlan> Planner::copy_of(uint64_t budget_bytes) {
  const std::vector<LayerBlobs> layers = blobs_of(input_.layout);
  Result<ResidentPlan> copy = ResidentPlan::complement(layers, caches_, budget_bytes);
  if (!copy.ok() && copy.error().code == ErrorCode::kNoMemory) {
    copy = ResidentPlan::hottest(layers, caches_, input_.ranking, budget_bytes);
  }
  if (!copy.ok()) return copy;
  if (!options_.lend_regions || mutated(Mutation::kLentNotKept)) return copy;
  for (size_t i = 0; i < regions_.size(); i++) {
    ASSIGN_OR_RETURN(plan_.parts[i].lent_in_ram, copy->keep_lent(regions_[i]));
  }
  return copy;
}

// Whether steps read no file: every expert lies in the copy or in a slot that is not lent, and none in both.
bool Planner::nothing_left_to_files(const ResidentPlan& copy) const {
  size_t elsewhere = copy.blobs().size();
  for (size_t i = 0; i < caches_.size(); i++) elsewhere += caches_[i].size() - regions_[i].size();
  size_t all = 0;
  for (const LayerLayout& layer : input_.layout.layers()) all += static_cast<size_t>(layer.n_experts);
  return elsewhere == all;
}

Status Planner::choose_copy(SourceKind below) {
  const bool asked_for = options_.source == below;
  const bool direct = below == SourceKind::kDirect;
  ASSIGN_OR_RETURN(ResidentPlan copy, copy_of(std::min(room(), copy_limit())));
  if (nothing_left_to_files(copy) && !asked_for) {
    because("RAM holds all experts that device caches lack or lend, so the files are mapped for the start alone");
    below = SourceKind::kMapped;
  } else if (direct && options_.stage_bytes > room() && !asked_for) {
    because("{} of buffers for direct reads do not fit, so the files are mapped", format_bytes(options_.stage_bytes));
    below = SourceKind::kMapped;
  } else if (direct) {
    if (options_.stage_bytes > room()) return stage_too_large();
    plan_.stage_bytes = options_.stage_bytes;
    ASSIGN_OR_RETURN(copy, copy_of(std::min(room() - plan_.stage_bytes, copy_limit())));
  }
  if (copy.blobs().empty()) return choose_files(below);
  if (!nothing_left_to_files(copy)) {
    because("the hottest experts stay in {} of RAM, the others are read from the files ({})",
            format_bytes(copy.bytes()), source_name(below));
  }
  plan_.source = SourceKind::kResident;
  plan_.below = below;
  plan_.experts_bytes = copy.bytes();
  plan_.resident = std::move(copy);
  return {};
}

Status Planner::choose_files(SourceKind kind) {
  plan_.source = plan_.below = kind;
  plan_.stage_bytes = kind == SourceKind::kDirect ? options_.stage_bytes : 0;
  for (PartPlacement& part : plan_.parts) part.lent_in_ram = 0;
  if (plan_.stage_bytes <= room()) return {};
  return stage_too_large();
}

void Planner::explain_loans() {
  int64_t lent = 0, in_ram = 0;
  for (const PartPlacement& part : plan_.parts) {
    lent += part.lent_slots;
    in_ram += part.lent_in_ram;
  }
  if (lent == 0 || plan_.source == SourceKind::kArena) return;
  std::string rest;
  if (in_ram < lent) {
    rest = format("; while one runs, {} % of them are read from the files", 100 * (lent - in_ram) / lent);
  }
  because("the split lends {} slots to the prompt path: {} keep their experts in RAM too{}", lent, in_ram, rest);
  if (in_ram < lent && plan_.source == SourceKind::kResident) plan_.warning = plan_.reasons.back();
}

void Planner::fill_tiers() {
  for (size_t l = 0; l < input_.layout.layers().size(); l++) {
    const LayerLayout& layer = input_.layout.layers()[l];
    std::vector<Tier>& tiers = plan_.tiers.emplace_back(static_cast<size_t>(layer.n_experts), Tier::kFile);
    for (int32_t e = 0; e < layer.n_experts; e++) {
      const bool copied = plan_.source == SourceKind::kResident && plan_.resident.has({static_cast<int32_t>(l), e});
      if (copied || plan_.source == SourceKind::kArena) tiers[static_cast<size_t>(e)] = Tier::kRam;
    }
  }
  for (const CachedKeys& keys : caches_) {
    for (const ExpertKey& key : keys) {
      plan_.tiers[static_cast<size_t>(key.layer)][static_cast<size_t>(key.expert)] = Tier::kDevice;
    }
  }
}

// What devices with memory of their own copy out of, or into.
void Planner::count_pinned() {
  bool streams = false, apart = false;
  for (size_t i = 0; i < plan_.parts.size(); i++) {
    if (input_.parts[i].on_host) continue;
    apart = true;
    streams = streams || !plan_.parts[i].ring.empty();
    plan_.pinned_bytes += input_.parts[i].host_bytes + plan_.parts[i].cache.host;
  }
  if (apart) plan_.pinned_bytes += plan_.stage_bytes + plan_.resident.bytes();
  if (streams && plan_.source == SourceKind::kArena) plan_.pinned_bytes += plan_.experts_bytes;
}

}  // namespace

const char* source_name(SourceKind kind) {
  switch (kind) {
    case SourceKind::kArena:
      return "arena";
    case SourceKind::kResident:
      return "resident";
    case SourceKind::kMapped:
      return "mapped";
    case SourceKind::kDirect:
      return "direct";
  }
  return "";
}

Result<PlacementPlan> plan_placement(const PlacementInput& input) { return Planner(input).run(); }

}  // namespace strata::experts
