#include "experts/linked_experts.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "experts/slot_plan.h"

namespace strata::experts {
namespace {

// Of the device, for linked experts on their way; those that find no room are read where they are.
constexpr int64_t kStageBytes = 160 << 20;

int64_t place_bytes(const DispatchLimits& limits) {
  return static_cast<int64_t>(align_up(static_cast<uint64_t>(limits.blob_bytes), kSlotAlignment));
}
int64_t n_places(const DispatchLimits& limits) {
  return std::clamp<int64_t>(kStageBytes / std::max<int64_t>(place_bytes(limits), 1), 1, limits.n_experts);
}

size_t addresses_bytes(const DispatchLimits& limits) {
  return static_cast<size_t>(limits.n_layers * limits.n_experts) * sizeof(int64_t);
}
size_t staged_bytes(const DispatchLimits& limits) { return static_cast<size_t>(limits.n_experts) * sizeof(int64_t); }
size_t shares_bytes(const DispatchLimits& limits) {
  return static_cast<size_t>(limits.n_experts + 1) * sizeof(int32_t);
}
size_t shares_offset(const DispatchLimits& limits) { return addresses_bytes(limits) + staged_bytes(limits); }

}  // namespace

DispatchBytes LinkedExperts::bytes_needed(const DispatchLimits& limits) {
  const auto stage = static_cast<uint64_t>(n_places(limits) * place_bytes(limits));
  return {.device = shares_offset(limits) + shares_bytes(limits) + stage};
}

Result<std::unique_ptr<LinkedExperts>> LinkedExperts::create(const DispatchSpec& spec) {
  ASSERT(spec.limits.n_layers == static_cast<int64_t>(spec.layout.layers().size()));
  std::unique_ptr<LinkedExperts> linked(new LinkedExperts(spec));
  ASSERT(spec.limits.blob_bytes >= static_cast<int64_t>(spec.layout.largest_blob_bytes()));
  const size_t bytes = shares_offset(spec.limits) + shares_bytes(spec.limits);
  ASSIGN_OR_RETURN(linked->tables_, spec.device.allocate(bytes, "the table of linked experts"));
  const auto stage = static_cast<size_t>(n_places(spec.limits) * place_bytes(spec.limits));
  ASSIGN_OR_RETURN(linked->stage_, spec.device.allocate(stage, "linked experts"));
  if (spec.link_shares.empty()) return linked;
  ASSERT(static_cast<int64_t>(spec.link_shares.size()) == spec.limits.n_experts + 1);
  const std::vector<int64_t> found = linked->find(spec.source);
  if (linked->empty()) return linked;
  ASSIGN_OR_RETURN(const auto staged, spec.device.allocate_host(bytes, device::MemoryKind::kPinned,
                                                                "the table of linked experts"));
  {
    const auto to = staged->write<std::byte>(0, bytes);
    std::memcpy(to.span().data(), found.data(), addresses_bytes(spec.limits));
    std::memset(to.span().data() + addresses_bytes(spec.limits), 0, staged_bytes(spec.limits));
    std::memcpy(to.span().data() + shares_offset(spec.limits), spec.link_shares.data(), shares_bytes(spec.limits));
  }
  linked->all_ = linked->memories_;
  linked->all_.push_back(linked->stage_.get());
  const auto stream = spec.device.make_stream("linked experts");
  stream->copy(*linked->tables_, 0, *staged, 0, bytes);
  RETURN_IF_ERROR(stream->synchronize());
  return linked;
}

std::vector<int64_t> LinkedExperts::find(const ExpertSource& source) {
  std::vector<int64_t> found(static_cast<size_t>(limits_.n_layers * limits_.n_experts), 0);
  for (int32_t l = 0; l < static_cast<int32_t>(limits_.n_layers); l++) {
    for (int32_t e = 0; e < layout_.layer(l).n_experts; e++) {
      const Lease::HostPlace place = source.pinned_place({l, e});
      if (place.buffer == nullptr) continue;
      found[static_cast<size_t>(l * limits_.n_experts + e)] =
          reinterpret_cast<int64_t>(place.buffer->address() + place.offset);
      if (std::find(memories_.begin(), memories_.end(), place.buffer) == memories_.end()) {
        memories_.push_back(place.buffer);
      }
    }
  }
  return found;
}

device::In<int64_t> LinkedExperts::addresses(int32_t layer) const {
  const auto offset = static_cast<size_t>(layer * limits_.n_experts) * sizeof(int64_t);
  return device::view_of<int64_t>(*tables_, 1, layout_.layer(layer).n_experts, offset);
}

device::In<int32_t> LinkedExperts::shares() const {
  return device::view_of<int32_t>(*tables_, 1, limits_.n_experts + 1, shares_offset(limits_));
}

device::In<int64_t> LinkedExperts::staged_at(int32_t layer) const {
  return device::view_of<int64_t>(*tables_, 1, layout_.layer(layer).n_experts, addresses_bytes(limits_));
}

void LinkedExperts::fetch(device::Stream& stream, int32_t layer, const device::In<int32_t>& places) const {
  if (empty()) return;
  stream.enqueue(
      device::FetchExperts{.place_of = places,
                           .linked = memories_,
                           .linked_at = addresses(layer),
                           .blob_bytes = static_cast<int64_t>(layout_.layer(layer).blob_bytes()),
                           .stage = device::view_of<uint8_t>(*stage_, n_places(limits_), place_bytes(limits_)),
                           .staged_at = staged_at(layer)});
}

device::ExpertSlots LinkedExperts::slots(int32_t layer, device::ExpertSlots cached, int64_t pairs) const {
  if (empty()) return cached;
  cached.linked = all_;
  cached.linked_at = staged_at(layer);
  cached.fetched = std::min<int64_t>(pairs, layout_.layer(layer).n_experts) <= n_places(limits_);
  return cached;
}

}  // namespace strata::experts
