// Simulated time: how long things take on the machine of a SimSpec. Nothing here looks at a real clock.
#pragma once

#include <cstdint>
#include <vector>

#include "device/launch.h"

namespace strata::device::sim {

// The time that `amount` takes at `per_s`, in nanoseconds, rounded up; at most kTimeMax.
inline constexpr int64_t kTimeMax = int64_t{1} << 62;
int64_t duration_ns(uint64_t amount, uint64_t per_s);
// a + b, at most kTimeMax.
int64_t later(int64_t a, int64_t b);

// Something that serves one transfer at a time: a link, a drive. Transfers ask in the order in which they run, which is
// not the order of simulated time; each gets the earliest gap that is long enough and not before it is ready.
class Link {
 public:
  // Takes [start, start + duration) and returns start >= ready_ns.
  int64_t reserve(int64_t ready_ns, int64_t duration_ns);

 private:
  struct Busy {
    int64_t begin, end;
  };
  std::vector<Busy> busy_;  // ascending, apart; the oldest gaps are given up when there are many
};

// What an operation costs: a device takes max(flops / compute, bytes / mem).
struct Cost {
  uint64_t flops = 0;
  uint64_t bytes = 0;
};
// What a launch touches: of what it reaches through tables, `bytes` has each byte once, `indirect_bytes` each as often
// as a row uses it.
struct Touched {
  uint64_t bytes = 0;
  uint64_t indirect_bytes = 0;
};
// Products count their multiplications and additions on the live rows; everything else counts as bound by memory. Reads
// the counts of live rows, so it is called when the operation runs.
Cost cost_of(const Launch& launch, const Touched& touched);

}  // namespace strata::device::sim
