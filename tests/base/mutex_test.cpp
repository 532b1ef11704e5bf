#include "base/mutex.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(MutexTest, GuardedIncrementsAreNotLost) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5000; ++n) {
        const LockGuard lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 20000);
}

}  // namespace
}  // namespace strata
