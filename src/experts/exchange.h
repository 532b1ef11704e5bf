// What a swap between a device's cache and RAM (swap.h) asks of whoever keeps experts in RAM.
#pragma once

#include "device/memory.h"
#include "experts/expert.h"

namespace strata::experts {

// The host's memory of experts, as far as it changes when experts change places: a source that keeps those in RAM which
// no cache holds. Called between steps, while no lease of the experts named is held and no copy out of one is queued.
class ResidentExchange {
 public:
  virtual ~ResidentExchange() = default;
  // Whether the expert's bytes are in RAM.
  virtual bool holds(ExpertKey key) const = 0;
  // Leases of `out`, which RAM does not hold, are served from a host buffer from here on: its parts lie at
  // LayerLayout::part_offset from `offset` on. `in`, of the same layer, is in RAM and is to make place for it.
  virtual void begin_exchange(ExpertKey out, ExpertKey in, const device::HostBuffer& bytes, size_t offset) = 0;
  // `out` is in a cache again; all is as before begin_exchange().
  virtual void cancel_exchange(ExpertKey out) = 0;
  // `in` is in a cache: the place of its bytes takes those of `out`, and the buffer is not read any more.
  virtual void commit_exchange(ExpertKey out) = 0;
};

}  // namespace strata::experts
