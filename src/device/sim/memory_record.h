// What the machine keeps beside each memory: how much queued work uses it, and who touched it last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

#include "device/memory.h"
#include "device/sim/interval_map.h"
#include "device/sim/order.h"

namespace strata::device::sim {

struct Core;

class MemoryRecord final : public AccessObserver {
 public:
  MemoryRecord(Core& core, const Memory& memory) : core_(core), memory_(memory) {}

  // Of a memory that belongs to this machine; null for others.
  static MemoryRecord* of(const Core& core, const Memory& memory);

  const Memory& memory() const { return memory_; }
  // The memory is about to die: waits for the work that uses it, as freeing does on real devices. That wait orders
  // nothing: a program that relies on it races. (A host task must not free what is used after it on its stream.)
  void before_free();

  uint64_t begin_access(size_t offset, size_t bytes, bool write, SourceSite site) override;
  void end_access(uint64_t access) override;
  uint64_t submit_read(size_t offset, size_t bytes, SourceSite site) override;
  void reap_read(uint64_t read) override;

  // Guarded by the mutex of the order.
  IntervalMap accesses;
  // Guarded by the mutex of the schedule.
  int n_queued = 0;   // uses by jobs that have not run
  int n_at_work = 0;  // of those, by operations and copies that run

 private:
  Range range(size_t offset, size_t bytes, bool write) const;

  Core& core_;
  const Memory& memory_;
};

// Pages of the host for the memory of devices and for host memory. They are poisoned (every byte 0xff: NaN as a float,
// -1 as an int) when they are handed out, and again when they come back; then they stay mapped for a while, so that
// whoever still reads them reads poison. Any thread.
class Pages {
 public:
  ~Pages();
  // Null when the system has none.
  std::byte* take(size_t bytes);
  void give_back(std::byte* pages, size_t bytes);
  // Poisoned pages that are still mapped.
  uint64_t quarantined_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::deque<std::span<std::byte>> quarantine_;  // oldest first
  uint64_t quarantined_bytes_ = 0;
};

}  // namespace strata::device::sim
