// What repeated measurements say.
#pragma once

#include <algorithm>
#include <vector>

#include "base/assert.h"

namespace strata::cli {

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// Of at least one value; of an even number of them the median is the mean of the middle two.
inline Spread spread_of(std::vector<double> values) {
  ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {.median = (values[(n - 1) / 2] + values[n / 2]) / 2, .min = values.front(), .max = values.back()};
}

inline double per_second(double amount, int64_t duration_ns) {
  return amount * 1e9 / static_cast<double>(std::max<int64_t>(duration_ns, 1));
}

}  // namespace strata::cli
