// The experts that lie in a device's own memory: slots, the table that says which expert is in which slot, and the
// lending of slots.
//
// The table exists twice: on the host, and on the device, where operations read it. It changes between steps only. Each
// change is queued on the stream whose operations read the slots, a slot's bytes before the entry that names it, and is
// complete when the call that makes it returns; so a reader never meets an entry whose bytes are not there. A step that
// needs to know on the host what its operations saw copies its layer's row of the device's table out, in stream order.
#pragma once

#include <memory>
#include <vector>

#include "base/stats.h"
#include "device/ops/moe.h"
#include "device/uploader.h"
#include "experts/slot_plan.h"
#include "experts/source.h"

namespace strata::experts {

// An expert and the slot that it is in.
struct SlotExpert {
  int32_t slot = -1;
  ExpertKey key;
};

// What a cache is made from; all of it outlives the cache.
struct CacheSpec {
  device::Device& device;
  device::Stream& stream;  // whose operations read the slots
  ExpertSource& source;
  const ExpertLayout& layout;
  Stats& stats;
  int64_t min_slots = 0;  // that stay when slots are lent
};

struct CacheBytes {
  uint64_t device = 0;  // slots and table
  uint64_t host = 0;    // pinned buffers that uploads go through
};

// Memory of lent slots.
struct Loan {
  device::Memory* memory = nullptr;
  size_t offset = 0;
  size_t bytes = 0;
  int64_t n_slots = 0;
};

// Used by the thread that queues the steps. Its memory is allocated once.
class ExpertCache {
 public:
  // `plan` has slots. kNoMemory when they don't fit the device. No expert is resident yet.
  static Result<std::unique_ptr<ExpertCache>> create(const CacheSpec& spec, SlotPlan plan);
  // What create() allocates.
  static CacheBytes bytes_needed(const ExpertLayout& layout, const SlotPlan& plan);
  // What it allocates at most beside its slots, whatever the plan.
  static CacheBytes overhead(const ExpertLayout& layout);

  // Puts every expert of the plan into its slot. On failure none is resident.
  Status fill();

  // Hands out the memory of the highest slots, at least `bytes`; their experts are not resident until restore().
  // Returns when everything that reads them is done. On failure nothing has changed: kNoMemory says how much there is
  // when all but min_slots are too small. One loan at a time.
  Result<Loan> lend(uint64_t bytes);
  // Ends the loan: puts the same experts back, and only then are they resident. Whoever used the memory is done with
  // it. On failure (an expert cannot be read) the loan goes on, but its memory is not to be used any more; restore()
  // may be called again.
  Status restore();
  bool lent() const { return loan_.n_slots > 0; }

  // For exchanging experts (swap.h); not while slots are lent, and none are lent while slots are withdrawn. The experts
  // of these slots are not resident from here on. Returns when everything that reads the slots is done. On failure
  // nothing has changed.
  Status withdraw(std::span<const int32_t> slots);
  // The withdrawn slots hold the bytes of these experts, of the same layers as those before, and they are resident from
  // here on. On failure the slots stay withdrawn.
  Status place(std::span<const SlotExpert> experts);
  bool withdrawn() const { return n_withdrawn_ > 0; }

  const SlotPlan& plan() const { return plan_; }
  // Slot of an expert that is resident, else -1.
  int32_t slot(ExpertKey key) const;
  int64_t n_resident() const;
  // How many times the table was replaced.
  int64_t version() const { return version_; }

  // For operations: the slots, and the table's row of a layer, [1][n_experts].
  device::ExpertSlots slots() const;
  device::In<int32_t> slot_of(int32_t layer) const;

 private:
  ExpertCache(const CacheSpec& spec, SlotPlan plan) : spec_(spec), plan_(std::move(plan)) {}
  Status allocate();
  Status upload_offsets();
  // Puts the experts of the slots from `first` on into them.
  Status upload(int64_t first);
  Status upload_slot(const Slot& slot);
  // Sets the entries of the slots from `first` on.
  void mark(int64_t first, bool resident);
  int32_t& entry(ExpertKey key) { return table_[static_cast<size_t>(key.layer * n_experts_ + key.expert)]; }
  // Replaces the device's table by the host's; returns when all queued before and this is done.
  Status publish();

  CacheSpec spec_;
  SlotPlan plan_;
  int64_t n_experts_ = 0;                          // of the layer that has most
  std::vector<int32_t> table_;                     // [layers][n_experts_] slot or -1
  std::unique_ptr<device::Buffer> memory_;         // the slots
  std::unique_ptr<device::Buffer> offsets_;        // int64 [n_slots]
  std::unique_ptr<device::Buffer> device_table_;   // int32 [layers][n_experts_]
  std::unique_ptr<device::HostBuffer> staged_table_;
  std::unique_ptr<device::Uploader> uploader_;
  Loan loan_;
  int64_t n_withdrawn_ = 0;  // slots
  int64_t version_ = 0;
};

}  // namespace strata::experts
