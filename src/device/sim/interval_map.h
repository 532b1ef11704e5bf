// The last accesses to the bytes of a memory, as far as a later access could still race with them: for each byte its
// last write, and the reads since that no other read is ordered after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "device/sim/order.h"

namespace strata::device::sim {

struct AccessSite;

struct Access {
  uint32_t slot = 0;  // of the strand
  uint64_t step = 0;  // of the strand, or the number of an open access; 0: there was none
  const AccessSite* site = nullptr;

  bool operator==(const Access&) const = default;
};

// An access that has not ended is numbered downwards from here instead of by its step: nothing is ordered after it.
inline constexpr uint64_t kOpenAccess = UINT64_MAX;
inline constexpr bool is_open(const Access& access) { return access.step > UINT64_MAX / 2; }

// Whether `access` is ordered before what `strand` does next.
inline bool ordered_before(const Access& access, const Strand& strand) {
  return access.slot == strand.slot || strand.now.of(access.slot) >= access.step;
}

struct Conflict {
  size_t begin = 0, end = 0;  // bytes
  Access earlier;             // was noted first; nothing says which one came first
  bool earlier_writes = false;
};

class IntervalMap {
 public:
  // Notes an access of `strand` to [begin, end) and returns whether one that is not ordered before it conflicts with
  // it; `conflict` is the first such.
  bool note(size_t begin, size_t end, const Access& access, bool write, const Strand& strand, Conflict& conflict);
  // The open access `open`, to [begin, end), has ended at `step` of its strand.
  void close(size_t begin, size_t end, uint64_t open, uint64_t step);

  size_t size() const { return cells_.size(); }

 private:
  struct Cell {
    size_t end;
    Access write;
    std::vector<Access> reads;
    bool same(const Cell& other) const { return write == other.write && reads == other.reads; }
  };
  using Cells = std::map<size_t, Cell>;  // by first byte; apart

  static bool note_in(Cell& cell, const Access& access, bool write, const Strand& strand, size_t begin,
                      Conflict& conflict);
  void split(size_t at);
  void merge(size_t begin, size_t end);

  Cells cells_;
};

}  // namespace strata::device::sim
