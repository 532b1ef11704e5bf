#include "base/stats.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(StatsTest, PrintsCountersThatAreNotZeroInTableOrder) {
  Stats stats;
  EXPECT_EQ(stats.to_text(), "");
  stats.add(Counter::kSteps);
  stats.add(Counter::kFileReads, 3);
  stats.add(Counter::kKvBlocksUsed, 5);
  stats.add(Counter::kKvBlocksUsed, -5);
  EXPECT_EQ(stats.to_text(), "file_reads 3\nsteps 1\n");
  stats.reset();
  EXPECT_EQ(stats.get(Counter::kFileReads), 0);
  EXPECT_EQ(stats.to_text(), "");
}

TEST(StatsTest, NamesAreUnique) {
  std::set<std::string> names;
  const int n_counters = static_cast<int>(Counter::kCount);
  for (int i = 0; i < n_counters; ++i) names.insert(counter_name(static_cast<Counter>(i)));
  EXPECT_EQ(static_cast<int>(names.size()), n_counters);
}

TEST(StatsTest, AddingFromThreadsLosesNothing) {
  Stats stats;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10000; ++n) stats.add(Counter::kSteps);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stats.get(Counter::kSteps), 40000);
}

}  // namespace
}  // namespace strata
