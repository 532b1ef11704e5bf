#include "text/processor_time.h"

#include <algorithm>
#include <ctime>

#include <gtest/gtest.h>

namespace strata::text::test {

namespace {

constexpr size_t kSmallBytes = 16 << 10, kLargeBytes = 16 * kSmallBytes;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double best_seconds(const std::string& unit, size_t bytes, const std::function<void(const std::string&)>& work) {
  std::string text;
  while (text.size() < bytes) text += unit;
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = thread_seconds();
    work(text);
    best = std::min(best, thread_seconds() - start);
  }
  return best;
}

}  // namespace

void expect_linear_work(const std::string& what, const std::string& unit,
                        const std::function<void(const std::string& text)>& work) {
  const double small = best_seconds(unit, kSmallBytes, work), large = best_seconds(unit, kLargeBytes, work);
  EXPECT_LT(large, 80 * small) << what << ", a run of \"" << unit << "\"";
}

}  // namespace strata::text::test
