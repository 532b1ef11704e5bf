// Whether a process's memory grows, from samples of it.
#pragma once

#include <vector>

namespace strata::test {

// A moment of a process's memory.
struct MemorySample {
  double minutes;
  double bytes;
};

// Of the line that fits best, per minute and as a share of the mean; from `begin_minutes` on.
double growth_per_minute(const std::vector<MemorySample>& samples, double begin_minutes);

}  // namespace strata::test
