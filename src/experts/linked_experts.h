// The experts that a device can read where they lie in page-locked memory of the host, how many of those that its cache
// lacks it reads so, and the memory of the device that they come to.
#pragma once

#include <memory>
#include <vector>

#include "experts/dispatch.h"

namespace strata::experts {

// Tables on the device, written once. A source keeps the bytes where they are as long as it lives.
class LinkedExperts {
 public:
  // Of spec.link_shares; where they are empty, or the source has no expert in page-locked memory, none is linked.
  static Result<std::unique_ptr<LinkedExperts>> create(const DispatchSpec& spec);
  static DispatchBytes bytes_needed(const DispatchLimits& limits);

  bool empty() const { return memories_.empty(); }
  device::In<int64_t> addresses(int32_t layer) const;  // [1][n_experts], 0 where there is none
  device::In<int32_t> shares() const;                  // [1][n_experts + 1]

  // Queues the way of those that `places` says are linked into the device's memory, as far as there is room for them:
  // from then on, until the next call, slots() names where they are.
  void fetch(device::Stream& stream, int32_t layer, const device::In<int32_t>& places) const;
  // The slots of a cache, or none, with the linked experts beside them. For an operation of so many pairs, right behind
  // fetch() on the stream.
  device::ExpertSlots slots(int32_t layer, device::ExpertSlots cached, int64_t pairs) const;

 private:
  explicit LinkedExperts(const DispatchSpec& spec) : layout_(spec.layout), limits_(spec.limits) {}
  // Where each expert lies; finds the memories.
  std::vector<int64_t> find(const ExpertSource& source);

  device::In<int64_t> staged_at(int32_t layer) const;

  const ExpertLayout& layout_;
  DispatchLimits limits_;
  std::vector<const device::Memory*> memories_;  // of the host
  std::vector<const device::Memory*> all_;       // and of the stage
  std::unique_ptr<device::Buffer> tables_;  // int64 [layers][n_experts], [n_experts] staged; int32 [n_experts + 1]
  std::unique_ptr<device::Buffer> stage_;        // [places] of the largest expert each
};

}  // namespace strata::experts
