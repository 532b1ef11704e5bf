// The page-locking of an arena: copies out of it then run at the speed of the link, beside whoever queued them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "device/device.h"
#include "experts/expert.h"

namespace strata::experts {

struct ArenaLockSpec {
  device::Device& device;  // one of those that copy: what it locks is locked for all
  const ExpertLayout& layout;
  std::span<const std::byte> arena;  // every expert at its packed_offset()
  device::MappedAs mapped;
  Clock& clock;
  uint64_t slice_bytes = kGiB;  // at most, if an expert is not larger
};

// Locks the arena as one range; where that is refused, in slices that end where an expert ends, until one of those is
// refused too. What is not locked stays pageable. Dies before the arena, after all copies out of it.
class ArenaLocks {
 public:
  ArenaLocks() = default;  // nothing is locked, and nothing was to be
  explicit ArenaLocks(const ArenaLockSpec& spec);

  // What the expert lies in; null where it is not page-locked.
  const device::HostBuffer* slice_of(size_t expert) const {
    return slices_of_.empty() ? nullptr : slices_of_[expert];
  }
  uint64_t bytes() const { return bytes_; }
  // How much was locked, and how long that took: a clause for people, empty where nothing was to be locked.
  std::string report() const;
  // Why not all was, and what to do about it; empty where all was.
  const std::string& warning() const { return warning_; }

 private:
  // `borders` are where the experts begin, one behind the other, and where the last one ends.
  Status lock_slices(const ArenaLockSpec& spec, std::span<const uint64_t> borders);
  // The experts [first, last) as one.
  Status lock(const ArenaLockSpec& spec, std::span<const uint64_t> borders, size_t first, size_t last);

  std::vector<std::unique_ptr<const device::HostBuffer>> slices_;
  std::vector<const device::HostBuffer*> slices_of_;  // [all experts]
  uint64_t bytes_ = 0, all_bytes_ = 0;
  int64_t took_ns_ = 0;
  std::string warning_;
};

}  // namespace strata::experts
