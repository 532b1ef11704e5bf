// The ring of buffers through which experts stream to a device while a prompt runs: arithmetic only, no device.
#pragma once

#include "experts/slot_plan.h"

namespace strata::experts {

// Banks of equal places, one bank behind the other. A bank is filled while the device computes from others.
struct RingPlan {
  int64_t n_banks = 0;      // at least two, or 0: there is no ring
  int64_t bank_places = 0;  // experts of a bank
  uint64_t place_bytes = 0;

  bool empty() const { return n_banks == 0; }
  int64_t n_places() const { return n_banks * bank_places; }
  uint64_t bytes() const { return static_cast<uint64_t>(n_places()) * place_bytes; }
  // Of a place, from the start of the ring.
  uint64_t offset(int64_t bank, int64_t place) const {
    return static_cast<uint64_t>(bank * bank_places + place) * place_bytes;
  }
  bool operator==(const RingPlan&) const = default;

  // The largest ring within `budget_bytes` of those worth having: four banks, each of a quarter of a layer's
  // experts or of kBankBytes, whichever is less (but of one expert at least): long enough to fill the link, short
  // enough to hide behind computing. With less room banks become smaller, then fewer; there is none when not even two
  // experts fit.
  static RingPlan make(const ExpertLayout& layout, uint64_t budget_bytes);
  static constexpr uint64_t kBankBytes = uint64_t{64} << 20;
};

// From how many rows on a step streams the experts that the cache lacks when nothing else is said: from where an even
// routing gives every expert twelve rows, ceil(12 n_experts / n_used). With fewer the CPU, which computes some while
// others cross the link, ends earlier than the link alone would (bench/results/hybrid.md).
int64_t auto_stream_rows(int64_t n_experts, int64_t n_used);

}  // namespace strata::experts
