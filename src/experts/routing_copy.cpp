#include "experts/routing_copy.h"

#include <algorithm>

#include "experts/cache.h"
#include "experts/routing.h"

namespace strata::experts {
namespace {

size_t int_bytes(int64_t n) { return static_cast<size_t>(n) * sizeof(int32_t); }

}  // namespace

Result<std::unique_ptr<RoutingCopy>> RoutingCopy::create(const DispatchSpec& spec) {
  std::unique_ptr<RoutingCopy> copy(new RoutingCopy(spec));
  const DispatchLimits& limits = spec.limits;
  constexpr auto kPinned = device::MemoryKind::kPinned;
  ASSIGN_OR_RETURN(copy->live_, spec.device.allocate_host(int_bytes(1), kPinned, "live rows"));
  ASSIGN_OR_RETURN(copy->ids_, spec.device.allocate_host(int_bytes(limits.pairs()), kPinned, "expert ids"));
  ASSIGN_OR_RETURN(copy->slot_of_, spec.device.allocate_host(int_bytes(limits.n_experts), kPinned, "cached experts"));
  if (spec.cache != nullptr) return copy;
  const auto slot_of = copy->slot_of_->write<int32_t>(0, static_cast<size_t>(limits.n_experts));
  for (int32_t& slot : slot_of.span()) slot = -1;
  return copy;
}

uint64_t RoutingCopy::bytes_needed(const DispatchLimits& limits) {
  return int_bytes(1 + limits.pairs() + limits.n_experts);
}

void RoutingCopy::copy_out(device::Stream& stream, int32_t layer, const device::In<int32_t>& ids,
                           const device::In<int32_t>& live) const {
  stream.copy(*live_, 0, *live.memory, live.offset, int_bytes(1));
  stream.copy(*ids_, 0, *ids.memory, ids.offset, int_bytes(ids.rows * ids.cols));
  if (spec_.cache == nullptr) return;
  const device::In<int32_t> slot_of = spec_.cache->slot_of(layer);
  stream.copy(*slot_of_, 0, *slot_of.memory, slot_of.offset, int_bytes(slot_of.cols));
}

std::vector<device::Range> RoutingCopy::ranges() const {
  const auto whole = [](const device::HostBuffer& b) { return device::Range{&b, 0, b.bytes(), 1, b.bytes(), false}; };
  return {whole(*live_), whole(*ids_), whole(*slot_of_)};
}

RoutingCopy::Reading::Reading(const RoutingCopy& copy, int32_t layer)
    : copy_(copy),
      layer_(layer),
      live_(copy.live_->read<int32_t>(0, 1)),
      ids_(copy.ids_->read<int32_t>(0, static_cast<size_t>(live_[0] * copy.spec_.limits.n_used))),
      places_(copy.slot_of_->read<int32_t>(0, static_cast<size_t>(copy.spec_.layout.layer(layer).n_experts))) {}

device::View<int32_t> RoutingCopy::Reading::ids() const {
  return device::view_of<int32_t>(*copy_.ids_, n_rows(), copy_.spec_.limits.n_used);
}

int64_t RoutingCopy::Reading::count() const {
  int64_t hits = 0, linked = 0;
  for (const int32_t id : ids_.span()) {
    const int32_t place = places_[static_cast<size_t>(id)];
    if (place == device::kLinkedPlace) {
      linked++;
    } else if (place >= 0) {
      hits++;
    }
  }
  const int64_t misses = static_cast<int64_t>(ids_.span().size()) - hits;
  Stats& stats = copy_.spec_.stats;
  stats.add(Counter::kCacheHits, hits);
  stats.add(Counter::kCacheMisses, misses);
  if (linked > 0) {
    const auto n = std::count(places_.span().begin(), places_.span().end(), device::kLinkedPlace);
    const auto blob_bytes = static_cast<int64_t>(copy_.spec_.layout.layer(layer_).blob_bytes());
    stats.add(Counter::kLinkedExperts, n);
    stats.add(Counter::kLinkedBytes, n * blob_bytes);
    stats.add(Counter::kLinkedRows, linked);
  }
  if (copy_.spec_.observer != nullptr) copy_.spec_.observer->routed(layer_, ids());
  return misses;
}

}  // namespace strata::experts
