#include "experts/host_experts.h"

#include <algorithm>

#include "experts/blob.h"

namespace strata::experts {

using device::MemoryKind;
using device::host::PairGroups;

// Group g is computed from lease g.
class HostExperts::LeasePlaces final : public device::host::ExpertPlaces {
 public:
  LeasePlaces(const LayerLayout& layer, std::span<const Lease> leases) : layer_(layer), leases_(leases) {}
  device::host::PlacedExpert expert(int64_t group) const override {
    return placed_blob(layer_, leases_[static_cast<size_t>(group)]);
  }

 private:
  const LayerLayout& layer_;
  std::span<const Lease> leases_;
};

Result<std::unique_ptr<HostExperts>> HostExperts::create(device::Device& device, device::host::Compute& compute,
                                                         ExpertSource& source, const ExpertLayout& layout,
                                                         const DispatchLimits& limits, Stats& stats) {
  std::unique_ptr<HostExperts> experts(new HostExperts(compute, source, layout, limits, stats));
  RETURN_IF_ERROR(experts->allocate(device));
  return experts;
}

uint64_t HostExperts::bytes_needed(const DispatchLimits& limits) {
  return static_cast<uint64_t>(limits.pairs() * (limits.input_cols() + limits.ffn)) * sizeof(float);
}

Status HostExperts::allocate(device::Device& device) {
  const auto bytes = [&](int64_t cols) { return static_cast<size_t>(limits_.pairs() * cols) * sizeof(float); };
  ASSIGN_OR_RETURN(inputs_, device.allocate_host(bytes(limits_.input_cols()), MemoryKind::kPageable, "expert inputs"));
  ASSIGN_OR_RETURN(hidden_, device.allocate_host(bytes(limits_.ffn), MemoryKind::kPageable, "expert hidden rows"));
  group_ints_.resize(static_cast<size_t>(device::expert_group_ints(limits_.pairs(), limits_.n_experts)));
  keys_.reserve(static_cast<size_t>(limits_.n_experts));
  leases_.resize(static_cast<size_t>(limits_.n_experts));
  return compute_.reserve_scratch(device::host::expert_scratch(limits_.dim, limits_.ffn));
}

Status HostExperts::compute(const Step& step) {
  ASSERT(step.n_rows <= limits_.max_rows);
  const LayerLayout& layer = layout_.layer(step.layer);
  ASSERT(layer.n_experts <= limits_.n_experts);
  PairGroups groups(group_ints_.data(), limits_.pairs(), layer.n_experts);
  groups.sort(step.ids, step.n_rows, layer.n_experts, step.slot_of, false);
  keys_.clear();
  for (int64_t g = 0; g < groups.n; g++) keys_.push_back({step.layer, groups.experts[g]});
  const std::span<Lease> leases(leases_.data(), keys_.size());
  RETURN_IF_ERROR(source_.fetch(keys_, leases));
  [[maybe_unused]] const auto inputs = inputs_->write<float>(0, inputs_->bytes() / sizeof(float));
  [[maybe_unused]] const auto hidden = hidden_->write<float>(0, hidden_->bytes() / sizeof(float));
  const LeasePlaces places(layer, leases);
  device::host::compute_experts(compute_,
                                {.groups = groups,
                                 .places = places,
                                 .formula = step.formula,
                                 .k = limits_.n_used,
                                 .ffn = limits_.ffn,
                                 .x = step.x,
                                 .inputs = device::view_of<float>(*inputs_, limits_.pairs(), limits_.input_cols()),
                                 .hidden = device::view_of<float>(*hidden_, limits_.pairs(), limits_.ffn),
                                 .y = step.y});
  for (Lease& lease : leases) lease.release();
  stats_.add(Counter::kExpertsComputed, groups.n);
  stats_.add(Counter::kExpertRows, groups.n_pairs());
  return source_.health();
}

}  // namespace strata::experts
