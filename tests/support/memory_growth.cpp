#include "support/memory_growth.h"

namespace strata::test {

double growth_per_minute(const std::vector<MemorySample>& samples, double begin_minutes) {
  double n = 0, mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  for (const MemorySample& sample : samples) {
    if (sample.minutes < begin_minutes) continue;
    n++;
    const double dx = sample.minutes - mean_x;
    mean_x += dx / n;
    mean_y += (sample.bytes - mean_y) / n;
    xy += dx * (sample.bytes - mean_y);
    xx += dx * (sample.minutes - mean_x);
  }
  return n < 2 ? 0 : xy / xx / mean_y;
}

}  // namespace strata::test
