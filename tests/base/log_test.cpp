// Each test logs in a child process, whose stderr is a pipe: the sink looks at stderr once, at its first message.
#include "base/log.h"

#include <cstdlib>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace strata {
namespace {

class LogDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(LogDeathTest, MessagesNameProgramAndLevelWithoutColourCodes) {
  const auto log_both = [] {
    log_warning("slot {} of {}", 3, 4);
    log_error("{}", "gone");
    std::exit(0);
  };
  EXPECT_EXIT(log_both(), testing::ExitedWithCode(0), "^strata: warning: slot 3 of 4\nstrata: error: gone\n$");
}

TEST_F(LogDeathTest, MessagesBelowTheLevelAreDropped) {
  const auto log_all = [] {
    log_info("dropped by default");
    set_log_level(LogLevel::kError);
    log_warning("dropped");
    set_log_level(LogLevel::kDebug);
    log_debug("shown {}", 1);
    std::exit(0);
  };
  EXPECT_EXIT(log_all(), testing::ExitedWithCode(0), "^strata: debug: shown 1\n$");
}

TEST_F(LogDeathTest, BracesInAFinishedMessageAreNotAFormat) {
  const auto log_braces = [] {
    log_message(LogLevel::kError, "{} {0} %v %");
    std::exit(0);
  };
  EXPECT_EXIT(log_braces(), testing::ExitedWithCode(0), "^strata: error: \\{\\} \\{0\\} %v %\n$");
}

TEST_F(LogDeathTest, ThreadsDoNotMixTheirLines) {
  const auto log_from_threads = [] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int n = 0; n < 50; ++n) log_error("one whole line");
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::exit(0);
  };
  EXPECT_EXIT(log_from_threads(), testing::ExitedWithCode(0), "^(strata: error: one whole line\n)+$");
}

TEST(LogTest, EnabledFollowsTheLevel) {
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  set_log_level(LogLevel::kInfo);
  EXPECT_TRUE(log_enabled(LogLevel::kInfo));
  EXPECT_FALSE(log_enabled(LogLevel::kDebug));
  set_log_level(LogLevel::kWarning);
}

}  // namespace
}  // namespace strata
