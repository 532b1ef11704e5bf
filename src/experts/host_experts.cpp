#include "experts/host_experts.h"

#include <algorithm>

#include "base/clock.h"
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

Result<std::unique_ptr<HostExperts>> HostExperts::create(const DispatchSpec& spec) {
  std::unique_ptr<HostExperts> experts(new HostExperts(spec));
  RETURN_IF_ERROR(experts->allocate(spec.device));
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
  missing_.reserve(static_cast<size_t>(limits_.n_experts));
  leases_.resize(static_cast<size_t>(limits_.n_experts));
  in_round_.resize(static_cast<size_t>(limits_.n_experts));
  const LockGuard turn(compute_.turn());  // parts of a model are made at the same time
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
  [[maybe_unused]] const auto inputs = inputs_->write<float>(0, inputs_->bytes() / sizeof(float));
  [[maybe_unused]] const auto hidden = hidden_->write<float>(0, hidden_->bytes() / sizeof(float));
  RETURN_IF_ERROR(lease_limit_ == INT64_MAX ? fetch_and_compute(step, groups, keys_)
                                            : compute_in_rounds(step, lease_limit_));
  return source_.health();
}

Status HostExperts::fetch_and_compute(const Step& step, const PairGroups& groups, std::span<const ExpertKey> keys) {
  const std::span<Lease> leases(leases_.data(), keys.size());
  RETURN_IF_ERROR(source_.fetch(keys, leases));
  compute_leased(step, groups, leases);
  return {};
}

// What is there is computed while the others are read; those come some at a time, the next ones on their way.
Status HostExperts::compute_in_rounds(const Step& step, int64_t lease_limit) {
  missing_.clear();
  size_t n_ready = 0;
  for (const ExpertKey key : keys_) {
    std::optional<Lease> lease = source_.try_lease(key);
    if (lease) {
      leases_[n_ready++] = std::move(*lease);
    } else {
      missing_.push_back(key);
    }
  }
  source_.hint(missing_, HintKind::kCertain);
  if (n_ready > 0) {
    const std::span<Lease> ready(leases_.data(), n_ready);
    begin_round();
    for (const Lease& lease : ready) add_to_round(lease.key());
    compute_leased(step, round_groups(step), ready);
  }
  const auto most = static_cast<size_t>(std::max<int64_t>(lease_limit / 2, 1));
  for (std::span<const ExpertKey> left = missing_; !left.empty();) {
    const std::span<const ExpertKey> round = left.first(std::min(most, left.size()));
    left = left.subspan(round.size());
    begin_round();
    for (const ExpertKey key : round) add_to_round(key);
    source_.hint(left, HintKind::kCertain);
    RETURN_IF_ERROR(fetch_and_compute(step, round_groups(step), round));
  }
  return {};
}

void HostExperts::begin_round() { std::fill(in_round_.begin(), in_round_.end(), -1); }
void HostExperts::add_to_round(ExpertKey key) { in_round_[static_cast<size_t>(key.expert)] = 0; }

PairGroups HostExperts::round_groups(const Step& step) {
  const int32_t n_experts = layout_.layer(step.layer).n_experts;
  PairGroups groups(group_ints_.data(), limits_.pairs(), n_experts);
  groups.sort(step.ids, step.n_rows, n_experts, in_round_.data(), true);
  return groups;
}

void HostExperts::compute_leased(const Step& step, const PairGroups& groups, std::span<Lease> leases) {
  ASSERT(groups.n == static_cast<int64_t>(leases.size()));
  const LayerLayout& layer = layout_.layer(step.layer);
  const LeasePlaces places(layer, leases);
  const int64_t begin_ns = real_clock().now_ns();
  {
    const LockGuard turn(compute_.turn());
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
  }
  for (Lease& lease : leases) lease.release();
  stats_.add(Counter::kExpertsComputed, groups.n);
  stats_.add(Counter::kExpertRows, groups.n_pairs());
  stats_.add(Counter::kExpertBytes, groups.n * static_cast<int64_t>(layer.blob_bytes()));
  stats_.add(Counter::kExpertNs, real_clock().now_ns() - begin_ns);
}

}  // namespace strata::experts
