// Which experts a device's cache has room for, and where: arithmetic only, no device.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "experts/expert.h"

namespace strata::experts {

// Room for one blob. Slots are numbered by address, whatever their size.
struct Slot {
  ExpertKey key;  // the expert that it is for
  uint64_t offset = 0;
  uint64_t bytes = 0;  // the blob's, rounded up to kSlotAlignment

  uint64_t end() const { return offset + bytes; }
};
inline constexpr uint64_t kSlotAlignment = 256;

struct SlotLimits {
  uint64_t budget_bytes = 0;
  int64_t max_slots = 0;
};

class SlotPlan {
 public:
  // One slot after another for the pairs of `ranking`, the hottest first: the coldest have the highest addresses. A
  // pair that does not fit is passed over, and smaller ones behind it may still go in. kBadInput for a pair that no
  // layer has or that is ranked twice.
  static Result<SlotPlan> make(const ExpertLayout& layout, std::span<const ExpertKey> ranking,
                               const SlotLimits& limits);

  const std::vector<Slot>& slots() const { return slots_; }
  int64_t n_slots() const { return static_cast<int64_t>(slots_.size()); }
  uint64_t bytes() const { return slots_.empty() ? 0 : slots_.back().end(); }
  uint64_t largest_slot_bytes() const;
  // Another expert of the same layer takes the slot.
  void set_expert(int32_t slot, ExpertKey key) { slots_[static_cast<size_t>(slot)].key = key; }

  // How many of the highest slots it takes to lend `bytes` in one piece, when at least `min_slots` are to stay; nullopt
  // when those that may go are too small.
  std::optional<int64_t> slots_to_lend(uint64_t bytes, int64_t min_slots) const;
  // Bytes of the highest slots, all but `min_slots`.
  uint64_t lendable_bytes(int64_t min_slots) const;

 private:
  std::vector<Slot> slots_;
};

// The ranking where nothing is known of the experts' use: the first expert of every layer, then the second of every
// layer, so that each layer gets its share.
std::vector<ExpertKey> even_ranking(const ExpertLayout& layout);

}  // namespace strata::experts
