// Failures on demand: everything of a machine that can fail passes a point here, and the n-th one does fail.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace strata::device::sim {

enum class FaultPoint {
  kAllocation,  // device or host memory, or the workspace of a capture: kNoMemory
  kOperation,
  kCopy,  // copies and fills
  kRecord,
  kTask,  // a host task fails before it runs: kIo
};
inline constexpr size_t kFaultPoints = 5;
const char* fault_point_name(FaultPoint point);

// Any thread. Points are counted as they are reached: by allocations when they are asked for, by queued work when it
// runs; work that drains reaches none.
class Faults {
 public:
  // The n-th point from here on (1: the next one; 0: none), of any kind or of one, fails once. Replaces what was
  // planned before.
  void fail_at(uint64_t n);
  void fail_at(FaultPoint point, uint64_t n);
  void clear();

  // Points reached since the machine was made, and how many of them failed.
  uint64_t visited() const;
  uint64_t visited(FaultPoint point) const;
  uint64_t failed() const;

  // Called by the machine at each point: the failure, if it is this one's turn.
  std::optional<Error> visit(FaultPoint point, std::string_view what);

 private:
  mutable std::mutex mutex_;
  std::array<uint64_t, kFaultPoints> visited_{};
  uint64_t failed_ = 0;
  uint64_t countdown_ = 0;          // points until the failure; 0: none is planned
  std::optional<FaultPoint> only_;  // which points count
};

}  // namespace strata::device::sim
