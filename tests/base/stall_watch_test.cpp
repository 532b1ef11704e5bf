// Who waits for what, told when nothing goes on: fault A07 (a deadlock in the computing threads is no silent hang), and
// what must not be taken for one. Time is the test's own.
#include "base/stall_watch.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <semaphore>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/asking_files.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/file_sim.h"
#include "base/read_queue.h"
#include "base/thread_pool.h"

namespace strata::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kNsPerS = 1'000'000'000;
constexpr const char* kSteps = "computing steps";
constexpr const char* kWaits = "waits for a parcel";

// A detector that looks every second.
class Looks {
 public:
  explicit Looks(int64_t notice_s, std::function<std::vector<ThreadActivity>()> threads = thread_activities)
      : detector_(notice_s * kNsPerS, kNsPerS, std::move(threads)) {}

  std::string look(const char* doing, uint64_t progress, int64_t after_s = 1) {
    clock_.advance_ns(after_s * kNsPerS);
    return detector_.look(clock_.now_ns(), doing, progress);
  }
  // So many looks without progress that are to say nothing.
  void quiet(int n) {
    for (int i = 0; i < n; i++) EXPECT_THAT(look(kSteps, 7), IsEmpty()) << "look " << i;
  }

 private:
  ManualClock clock_;
  StallDetector detector_;
};

// What is told of the process's threads as they are now.
std::string stall_now() {
  Looks looks(2);
  looks.quiet(2);
  return looks.look(kSteps, 7);
}

// The same, once that is told of which `like` is a regular expression: a thread that looks around between two waits was
// not in the same one all the time.
void await_stall(const std::string& like) {
  const auto is_told = testing::Matches(testing::ContainsRegex(like));
  while (!is_told(stall_now())) std::this_thread::yield();
}

TEST(StallDetector, TellsAfterTheTimeAndThenAtTwiceTheTime) {
  Looks looks(30, [] { return std::vector<ThreadActivity>(); });
  looks.quiet(30);
  EXPECT_EQ(looks.look(kSteps, 7), "no progress for 30 s while computing steps");
  looks.quiet(29);
  EXPECT_EQ(looks.look(kSteps, 7), "no progress for 60 s while computing steps");
  looks.quiet(59);
  EXPECT_EQ(looks.look(kSteps, 7), "no progress for 120 s while computing steps");
  EXPECT_EQ(looks.look(kSteps, 8), "it goes on, after 120 s without progress");
  EXPECT_THAT(looks.look(kSteps, 7), IsEmpty());
  looks.quiet(29);
  EXPECT_EQ(looks.look(kSteps, 7), "no progress for 30 s while computing steps");
}

TEST(StallDetector, SlowIsNotStalled) {
  Looks looks(30, [] { return std::vector<ThreadActivity>(); });
  for (uint64_t i = 0; i < 20; i++) {
    for (int s = 0; s < 29; s++) EXPECT_THAT(looks.look(kSteps, i), IsEmpty());
  }
}

TEST(StallDetector, NothingToDoIsNoStall) {
  Looks looks(5, [] { return std::vector<ThreadActivity>(); });
  for (int s = 0; s < 100; s++) EXPECT_THAT(looks.look(nullptr, 7), IsEmpty());
  looks.quiet(5);  // what begins now has not stood still before
  EXPECT_THAT(looks.look(kSteps, 7), StartsWith("no progress for 5 s"));
  EXPECT_THAT(looks.look(nullptr, 7), StartsWith("it goes on"));
}

// Where the whole program was stopped for an hour, as by a debugger, its threads had no chance.
TEST(StallDetector, ATimeInWhichNobodyLookedIsNotCounted) {
  Looks looks(10, [] { return std::vector<ThreadActivity>(); });
  looks.quiet(2);
  EXPECT_THAT(looks.look(kSteps, 7, 3600), IsEmpty());
  looks.quiet(6);
  EXPECT_THAT(looks.look(kSteps, 7), StartsWith("no progress for 10 s"));
}

TEST(StallDetector, ThreadsAtTheSameAreOneEntryAndSaySinceWhen) {
  std::vector<ThreadActivity> threads;
  for (int i = 0; i < 6; i++) threads.push_back({i, std::string("w") + std::to_string(i), kIdle, 0});
  threads.push_back({9, "engine", kWaits, 0});
  Looks looks(10, [&] { return threads; });
  looks.quiet(5);
  threads[2].what = kRunning;
  threads.push_back({10, "reads", "waits, reads under way:", 4});
  looks.quiet(5);
  EXPECT_EQ(looks.look(kSteps, 7),
            "no progress for 10 s while computing steps; w0, w1, w3, w4 and 1 more: idle (9 s); "
            "w2: runs, or waits for pages of a mapped file (5 s); engine: waits for a parcel (9 s); "
            "reads: waits, reads under way: 4 (5 s)");
}

TEST(Activity, NestsAndIsForgottenWithItsThread) {
  const auto here = [] {
    for (const ThreadActivity& activity : thread_activities()) {
      if (activity.thread == ::gettid()) return std::string(activity.what) + "/" + std::to_string(activity.count);
    }
    return std::string("none");
  };
  EXPECT_EQ(here(), "none");
  {
    const Activity outer(kWaits, 3);
    {
      const Activity inner(kIdle);
      EXPECT_EQ(here(), "idle/0");
    }
    EXPECT_EQ(here(), "waits for a parcel/3");
  }
  EXPECT_EQ(here(), "none");
  std::thread([&] {
    name_this_thread("the postman");
    EXPECT_EQ(here(), std::string(kRunning) + "/0");
    EXPECT_THAT(stall_now(), HasSubstr("the postman"));
  }).join();
  EXPECT_THAT(stall_now(), Not(HasSubstr("the postman")));
}

// Threads that come, go and change what they are at, beside one that looks: for ThreadSanitizer, and no text is ever
// told with the count of another.
TEST(Activity, IsReadWhileItChanges) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) {
    threads.emplace_back([&] {
      while (!over) {
        std::thread([] {
          for (int n = 0; n < 100; n++) {
            const Activity outer("two:", 2);
            const Activity inner("five:", 5);
          }
        }).join();
      }
    });
  }
  int64_t n_seen = 0;
  while (n_seen < 200) {
    for (const ThreadActivity& seen : thread_activities()) {
      const std::string_view what = seen.what;
      EXPECT_TRUE(what != "two:" || seen.count == 2) << seen.count;
      EXPECT_TRUE(what != "five:" || seen.count == 5) << seen.count;
      n_seen++;
    }
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

// A07: one thread of three never ends its piece.
TEST(Stall, AJobThatDoesNotEndIsToldWithItsThreadAndWhoWaitsForIt) {
  ThreadPool pool({.n_threads = 3});
  std::binary_semaphore blocked{0}, release{0};
  std::atomic<bool> has_blocked{false};
  std::thread caller([&] {
    name_this_thread("the engine");
    pool.for_each(3, 1, [&](int64_t, int64_t, int worker) {
      // Nobody takes a second piece before a worker has blocked.
      if (worker != 0 && !has_blocked.exchange(true)) {
        blocked.release();
        release.acquire();
      }
      while (!has_blocked) std::this_thread::yield();
    });
  });
  blocked.acquire();
  await_stall("the engine: waits for the computing threads \\(1 s\\)");
  await_stall("computing thread strata-[12]: runs, or waits for pages of a mapped file \\(1 s\\)");
  await_stall("computing thread strata-[12]: idle \\(1 s\\)");
  const uint64_t n_before = n_ended_works;
  release.release();
  caller.join();
  EXPECT_GT(n_ended_works, n_before);
  EXPECT_THAT(stall_now(), Not(HasSubstr("waits for the computing threads")));
}

TEST(Stall, EveryJobIsProgressWithOneThreadToo) {
  for (const int n_threads : {1, 2}) {
    ThreadPool pool({.n_threads = n_threads});
    const uint64_t before = n_ended_works;
    pool.for_each(8, 1, [](int64_t, int64_t, int) {});
    pool.for_each_shrinking(8, 1, [](int64_t, int64_t, int) {});
    EXPECT_EQ(n_ended_works, before + 2);
  }
}

// Reads that do not come back are told with their file and number.
TEST(Stall, ReadsThatDoNotComeBackAreToldWithTheirFile) {
  MemoryFileSystem files;
  files.add_file("/m.gguf", std::vector<std::byte>(1 * kMiB));
  std::counting_semaphore<> arrived{0}, release{0};
  AskingFiles asking(files, [&](uint64_t, size_t) {
    arrived.release();
    release.acquire();
    return Status();
  });
  class Ended final : public ReadSink {
   public:
    void read_ended(uint64_t, const Status& status, bool) override {
      EXPECT_TRUE(status.ok());
      ended.release();
    }
    void read_released(uint64_t) override {}
    std::counting_semaphore<> ended{0};
  };
  Ended sink;
  Stats stats;
  auto queue = ReadQueue::open({"/m.gguf"}, {.files = asking, .clock = real_clock(), .stats = stats, .depth = 4}, sink);
  ASSERT_TRUE(queue.ok());
  await_stall("reads of /m.gguf: idle");
  std::vector<std::byte> memory(64 * 4096 + 4096);
  auto* to = reinterpret_cast<std::byte*>(align_up(reinterpret_cast<uintptr_t>(memory.data()), 4096));
  const BlockRead reads[] = {{.tag = 1, .file = 0, .offset = 0, .bytes = 4096, .blocks = to},
                             {.tag = 2, .file = 0, .offset = 512 * 1024, .bytes = 4096, .blocks = to + 8192}};
  (*queue)->submit(reads, ReadQueue::Urgency::kNeeded);
  arrived.acquire();
  arrived.acquire();
  await_stall("reads of /m.gguf: waits for the drive, reads under way: 2 \\(1 s\\)");
  release.release(2);
  sink.ended.acquire();
  sink.ended.acquire();
  await_stall("reads of /m.gguf: idle");
}

}  // namespace
}  // namespace strata::test
