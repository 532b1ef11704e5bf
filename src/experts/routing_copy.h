// What the host learns of a layer's routing: in pinned memory, the ids, the number of live rows and where each expert
// is computed, as the device saw them when it did: a slot of its cache, kLinkedPlace for one that it reads from the
// host's memory, or -1 for the host's own.
#pragma once

#include <memory>
#include <vector>

#include "experts/dispatch.h"

namespace strata::experts {

// The layers of a step use it one after another: a layer's readers are done before the next one copies.
class RoutingCopy {
 public:
  // Without a cache every expert is in no slot, and the table is not copied.
  static Result<std::unique_ptr<RoutingCopy>> create(const DispatchSpec& spec);
  // Of pinned host memory.
  static uint64_t bytes_needed(const DispatchLimits& limits);

  void copy_out(device::Stream& stream, int32_t layer, const device::In<int32_t>& ids,
                const device::In<int32_t>& live) const;
  // Where an operation puts them instead, for so many rows of a layer.
  device::Out<int32_t> live() const { return device::view_of<int32_t>(*live_, 1, 1); }
  device::Out<int32_t> ids(int64_t rows) const {
    return device::view_of<int32_t>(*ids_, rows, spec_.limits.n_used);
  }
  device::Out<int32_t> places(int32_t layer) const {
    return device::view_of<int32_t>(*slot_of_, 1, spec_.layout.layer(layer).n_experts);
  }
  // What a host task that reads them declares.
  std::vector<device::Range> ranges() const;

  // The copies while host code reads them.
  class Reading {
   public:
    Reading(const RoutingCopy& copy, int32_t layer);

    int64_t n_rows() const { return live_[0]; }
    device::View<int32_t> ids() const;  // [live rows][k]
    std::span<const int32_t> all_ids() const { return ids_.span(); }
    std::span<const int32_t> places() const { return places_.span(); }  // [n_experts]
    // Once a layer: adds the pairs whose expert was in a slot to the cache's hits, the others to its misses, counts
    // what was linked, and tells the observer of the routing. Returns the misses.
    int64_t count() const;

   private:
    const RoutingCopy& copy_;
    const int32_t layer_;
    device::HostBuffer::Guard<const int32_t> live_, ids_, places_;
  };

 private:
  explicit RoutingCopy(const DispatchSpec& spec) : spec_(spec) {}

  DispatchSpec spec_;
  std::unique_ptr<device::HostBuffer> live_;     // int32 [1]
  std::unique_ptr<device::HostBuffer> ids_;      // int32 [max_rows][k]
  std::unique_ptr<device::HostBuffer> slot_of_;  // int32 [n_experts]
};

}  // namespace strata::experts
