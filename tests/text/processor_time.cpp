#include "text/processor_time.h"

#include <algorithm>
#include <ctime>

#include <gtest/gtest.h>

namespace strata::text::test {

namespace {

constexpr size_t kSmallBytes = 16 << 10, kLargeBytes = 16 * kSmallBytes;
constexpr int kFewest = 3, kMost = 50;  // measurements of each length; the least counts
constexpr double kBound = 80;           // 16 if the work is linear, 256 if it is quadratic

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string run_of(const std::string& unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

double seconds_of(const std::string& text, const std::function<void(const std::string&)>& work) {
  const double start = thread_seconds();
  work(text);
  return thread_seconds() - start;
}

}  // namespace

void expect_linear_work(const std::string& what, const std::string& unit,
                        const std::function<void(const std::string& text)>& work) {
  const std::string small_text = run_of(unit, kSmallBytes), large_text = run_of(unit, kLargeBytes);
  double small = 1e9, large = 1e9;
  // What else the machine does can slow a few measurements down in a row; work that grows too fast stays slow.
  for (int i = 0; i < kFewest || (i < kMost && large >= kBound * small); ++i) {
    small = std::min(small, seconds_of(small_text, work));
    large = std::min(large, seconds_of(large_text, work));
  }
  EXPECT_LT(large, kBound * small) << what << ", a run of \"" << unit << "\"";
}

}  // namespace strata::text::test
