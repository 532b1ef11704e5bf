// Goal: every item exactly once, no worker twice at the same time, nobody lost asleep, and no thread that still looks
// at a job after for_each has returned. With spin_us = 0 workers sleep between any two jobs, which is where wake-ups
// get lost; a rendezvous inside a job hangs if one does. Run under ThreadSanitizer as well.
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include <sched.h>

#include "base/random.h"
#include "base/topology.h"

namespace strata {
namespace {

// Runs one job and checks all that for_each promises about it.
void check_job(ThreadPool& pool, int64_t n_items, int64_t grain) {
  std::vector<int> visits(static_cast<size_t>(n_items));  // plain: a double visit is a race as well
  std::vector<std::atomic<int>> inside(static_cast<size_t>(pool.n_threads()));
  std::atomic<int> broken{0};
  pool.for_each(n_items, grain, [&](int64_t begin, int64_t end, int worker) {
    if (worker < 0 || worker >= pool.n_threads() || begin >= end || end - begin > grain) {
      ++broken;
      return;
    }
    if (inside[static_cast<size_t>(worker)].fetch_add(1) != 0) ++broken;
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    inside[static_cast<size_t>(worker)].fetch_sub(1);
  });
  ASSERT_EQ(broken, 0);
  for (size_t i = 0; i < visits.size(); ++i) ASSERT_EQ(visits[i], 1) << i;
}

TEST(ThreadPoolTest, RandomJobsCoverEveryItemOnce) {
  Random random(1);
  for (int pools = 0; pools < 40; ++pools) {
    ThreadPool pool({.n_threads = static_cast<int>(1 + random.below(6)), .spin_us = random.below(2) ? 20 : 0});
    for (int jobs = 0; jobs < 20; ++jobs) {
      const auto n_items = static_cast<int64_t>(random.below(3000));
      const auto grain = static_cast<int64_t>(1 + random.below(random.below(2) ? 8 : 4000));
      ASSERT_NO_FATAL_FAILURE(check_job(pool, n_items, grain)) << n_items << " items, grain " << grain;
    }
  }
}

TEST(ThreadPoolTest, MorePiecesThanAClaimWordCountsAreStillCoveredOnce) {
  ThreadPool pool({.n_threads = 3});
  for (const int64_t n_items : {65534, 65535, 65536, 2 * 65535, 2 * 65535 + 1}) {
    ASSERT_NO_FATAL_FAILURE(check_job(pool, n_items, 1)) << n_items;
  }
  ASSERT_NO_FATAL_FAILURE(check_job(pool, 65536 * 3 + 1, 3));
}

TEST(ThreadPoolTest, ItemCountsUpToTheTypesLimitDoNotOverflow) {
  ThreadPool pool({.n_threads = 3});
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t grain : {kMax, kMax - 1, kMax / 2, kMax / 5, kMax / 65535, kMax / 65536, kMax / 70000}) {
    std::atomic<int64_t> covered{0};
    std::atomic<int> broken{0};
    pool.for_each(kMax, grain, [&](int64_t begin, int64_t end, int) {
      if (begin < 0 || end <= begin || end - begin > grain) ++broken;
      covered += end - begin;
    });
    EXPECT_EQ(covered, kMax) << grain;
    EXPECT_EQ(broken, 0) << grain;
  }
}

TEST(ThreadPoolTest, NoItemsMeansNoCalls) {
  ThreadPool pool({.n_threads = 2});
  pool.for_each(0, 10, [](int64_t, int64_t, int) { FAIL(); });
  pool.for_each_shrinking(0, 10, [](int64_t, int64_t, int) { FAIL(); });
  pool.for_each_share(0, [](int64_t, int64_t, int) { FAIL(); });
}

struct Piece {
  int64_t begin, end;
  bool operator<(const Piece& other) const { return begin < other.begin; }
};

// The pieces of a job in order of their items.
std::vector<Piece> shrinking_pieces(ThreadPool& pool, int64_t n_items, int64_t least) {
  std::vector<Piece> pieces(4096);
  std::atomic<size_t> n{0};
  pool.for_each_shrinking(n_items, least, [&](int64_t begin, int64_t end, int) { pieces[n++] = {begin, end}; });
  pieces.resize(n);
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

TEST(ThreadPoolTest, ShrinkingPiecesCoverEveryItemOnceInFallingSizes) {
  Random random(3);
  for (int pools = 0; pools < 30; ++pools) {
    ThreadPool pool({.n_threads = static_cast<int>(2 + random.below(5)), .spin_us = random.below(2) ? 20 : 0});
    for (int jobs = 0; jobs < 40; ++jobs) {
      const auto n_items = static_cast<int64_t>(1 + random.below(random.below(2) ? 100 : 100000));
      const auto least = static_cast<int64_t>(1 + random.below(random.below(2) ? 4 : 300));
      const std::vector<Piece> pieces = shrinking_pieces(pool, n_items, least);
      int64_t next = 0, length = n_items;
      for (const Piece& piece : pieces) {
        ASSERT_EQ(piece.begin, next) << n_items << " items, least " << least;
        ASSERT_LE(piece.end - piece.begin, length) << n_items << " items, least " << least;
        length = piece.end - piece.begin;
        ASSERT_TRUE(piece.end == n_items || length % least == 0) << n_items << " items, least " << least;
        next = piece.end;
      }
      ASSERT_EQ(next, n_items);
    }
  }
}

TEST(ThreadPoolTest, ShrinkingPiecesAreHalvesOfAShareThenQuartersAndSoOn) {
  ThreadPool pool({.n_threads = 2});
  std::vector<int64_t> lengths;
  for (const Piece& piece : shrinking_pieces(pool, 6400, 10)) lengths.push_back(piece.end - piece.begin);
  EXPECT_EQ(lengths, (std::vector<int64_t>{1600, 1600, 800, 800, 400, 400, 200, 200, 100, 100, 100, 100}));
}

TEST(ThreadPoolTest, ShrinkingPiecesOfAsManyItemsAsTheTypeCountsDoNotOverflow) {
  ThreadPool pool({.n_threads = 3});
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t least : {int64_t{1}, int64_t{1000}, kMax / 70000, kMax / 5, kMax / 2, kMax - 1, kMax}) {
    int64_t next = 0;
    for (const Piece& piece : shrinking_pieces(pool, kMax, least)) {
      ASSERT_EQ(piece.begin, next) << least;
      next = piece.end;
    }
    EXPECT_EQ(next, kMax) << least;
  }
}

TEST(ThreadPoolTest, OneThreadOrOnePieceRunsOnTheCaller) {
  ThreadPool one({.n_threads = 1});
  ThreadPool three({.n_threads = 3});
  EXPECT_EQ(one.n_threads(), 1);
  EXPECT_EQ(three.n_threads(), 3);
  int calls = 0;
  const auto on_caller = [&, caller = std::this_thread::get_id()](int64_t, int64_t, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(worker, 0);
    ++calls;
  };
  one.for_each(10, 3, on_caller);
  EXPECT_EQ(calls, 4);
  three.for_each(10, 10, on_caller);
  EXPECT_EQ(calls, 5);
  one.for_each_shrinking(10, 3, on_caller);
  EXPECT_EQ(calls, 6);
  three.for_each_shrinking(10, 10, on_caller);
  EXPECT_EQ(calls, 7);
}

TEST(ThreadPoolTest, EveryShareOfEveryRoundIsComputedOnce) {
  Random random(4);
  for (int pools = 0; pools < 40; ++pools) {
    ThreadPool pool({.n_threads = static_cast<int>(1 + random.below(6)), .spin_us = random.below(2) ? 20 : 0});
    const auto n_shares = static_cast<size_t>(pool.n_threads());
    for (int jobs = 0; jobs < 40; ++jobs) {
      const auto n_rounds = static_cast<size_t>(random.below(random.below(2) ? 4 : 300));
      std::vector<int> visits(n_rounds * n_shares);  // plain: a double visit is a race as well
      std::vector<std::atomic<int>> inside(n_shares);
      std::atomic<int> broken{0};
      pool.for_each_share(static_cast<int64_t>(n_rounds), [&](int64_t round, int64_t share, int worker) {
        if (inside[static_cast<size_t>(worker)].fetch_add(1) != 0) ++broken;
        ++visits[static_cast<size_t>(round) * n_shares + static_cast<size_t>(share)];
        inside[static_cast<size_t>(worker)].fetch_sub(1);
      });
      EXPECT_EQ(broken, 0);
      EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), std::ssize(visits));
    }
  }
}

// While every worker is in its own share of a round, it can be in no other.
TEST(ThreadPoolTest, WorkersThatComeTakeTheirOwnShares) {
  ThreadPool pool({.n_threads = 3, .spin_us = 0});
  for (int job = 0; job < 2000; ++job) {
    std::atomic<int> arrived{0}, strangers{0};
    pool.for_each_share(1, [&](int64_t, int64_t share, int worker) {
      if (share != worker) ++strangers;
      ++arrived;
      while (arrived < 3) std::this_thread::yield();
    });
    ASSERT_EQ(arrived, 3);
    ASSERT_EQ(strangers, 0);
  }
}

// Worker 1 stays in its first share until all other shares are computed, which others have to do.
TEST(ThreadPoolTest, OthersTakeTheSharesOfAWorkerThatIsHeldUp) {
  ThreadPool pool({.n_threads = 3, .spin_us = 20});
  constexpr int64_t kRounds = 5;
  for (int job = 0; job < 200; ++job) {
    std::atomic<int64_t> computed{0};
    std::atomic<bool> held{false};
    pool.for_each_share(kRounds, [&](int64_t, int64_t, int worker) {
      if (worker == 1 && !held.exchange(true)) {
        while (computed < kRounds * 3 - 1) std::this_thread::yield();
      }
      ++computed;
    });
    ASSERT_EQ(computed, kRounds * 3);
  }
}

// first() of all shares of a round comes before second() of any, whatever jobs are between.
TEST(ThreadPoolTest, SharesGoneThroughTwiceFollowTheirRound) {
  Random random(5);
  for (int pools = 0; pools < 40; ++pools) {
    ThreadPool pool({.n_threads = static_cast<int>(1 + random.below(6)), .spin_us = random.below(2) ? 20 : 0});
    const auto n_shares = static_cast<size_t>(pool.n_threads());
    for (int jobs = 0; jobs < 100; ++jobs) {
      const auto n_rounds = static_cast<size_t>(random.below(random.below(2) ? 4 : ThreadPool::kRoundsTwiceMax + 1));
      const size_t n = n_rounds * n_shares;
      std::vector<int> firsts(n), seconds(n);  // plain: what is not ordered is a race as well
      std::atomic<int> broken{0};
      const auto at = [&](int64_t round, size_t share) { return static_cast<size_t>(round) * n_shares + share; };
      pool.for_each_share_twice(
          static_cast<int64_t>(n_rounds),
          [&](int64_t round, int64_t share, int) { ++firsts[at(round, static_cast<size_t>(share))]; },
          [&](int64_t round, int64_t share, int) {
            for (size_t other = 0; other < n_shares; other++) broken += firsts[at(round, other)] != 1;
            ++seconds[at(round, static_cast<size_t>(share))];
          });
      EXPECT_EQ(broken, 0);
      EXPECT_EQ(std::count(firsts.begin(), firsts.end(), 1), std::ssize(firsts));
      EXPECT_EQ(std::count(seconds.begin(), seconds.end(), 1), std::ssize(seconds));
      if (random.below(2)) pool.for_each_share(1, [](int64_t, int64_t, int) {});
      if (random.below(4) == 0) pool.for_each(10, 1, [](int64_t, int64_t, int) {});
    }
  }
}

// Worker 1 stays in its first share until all others are computed once.
TEST(ThreadPoolTest, OthersTakeTheSharesOfAWorkerThatIsHeldUpBeforeTheyWaitForIt) {
  ThreadPool pool({.n_threads = 3, .spin_us = 20});
  constexpr int64_t kRounds = 5;
  for (int job = 0; job < 200; ++job) {
    std::atomic<int64_t> computed{0}, again{0};
    std::atomic<bool> held{false};
    pool.for_each_share_twice(
        kRounds,
        [&](int64_t, int64_t, int worker) {
          if (worker == 1 && !held.exchange(true)) {
            while (computed < kRounds * 3 - 1) std::this_thread::yield();
          }
          ++computed;
        },
        [&](int64_t, int64_t, int) { ++again; });
    ASSERT_EQ(computed, kRounds * 3);
    ASSERT_EQ(again, kRounds * 3);
  }
}

// A07. Each body waits for the others, so the job ends only if all workers come, however soundly they slept.
// The pauses between jobs let them meet workers at every point of falling asleep.
void rendezvous(ThreadPool& pool, int jobs) {
  Random random(2);
  for (int job = 0; job < jobs; ++job) {
    for (uint64_t pause = random.below(300); pause > 0; --pause) __builtin_ia32_pause();
    std::atomic<int> arrived{0};
    pool.for_each(pool.n_threads(), 1, [&](int64_t, int64_t, int) {
      ++arrived;
      while (arrived < pool.n_threads()) std::this_thread::yield();
    });
    ASSERT_EQ(arrived, pool.n_threads());
  }
}

TEST(ThreadPoolTest, SleepingWorkersAreWokenForEveryJob) {
  for (const int n_threads : {2, 4}) {
    ThreadPool pool({.n_threads = n_threads, .spin_us = 0});
    rendezvous(pool, 10000);
  }
}

TEST(ThreadPoolTest, SpinningWorkersComeToEveryJob) {
  ThreadPool pool({.n_threads = 2, .spin_us = 1000});
  rendezvous(pool, 300);
}

// The context lives on the stack of one turn of the loop: a worker that comes late and touches it is seen by the
// sanitizers, and one that computes a piece of another job breaks the sum. The caller sleeps now and then, as long as
// workers take to fall asleep.
void tiny_jobs(int64_t spin_us) {
  ThreadPool pool({.n_threads = 4, .spin_us = spin_us});
  Random random(3);
  for (int64_t job = 0; job < 20000; ++job) {
    if (random.below(100) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(100)));
    int64_t results[3] = {};
    pool.for_each(3, 1, [&results, job](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) results[i] += job + i;
    });
    ASSERT_EQ(results[0], job);
    ASSERT_EQ(results[1], job + 1);
    ASSERT_EQ(results[2], job + 2);
  }
}

// The same with shares, in turns with other jobs.
void tiny_shares(int64_t spin_us) {
  ThreadPool pool({.n_threads = 4, .spin_us = spin_us});
  for (int64_t job = 0; job < 20000; ++job) {
    int64_t results[4] = {};
    const auto add = [&results, job](int64_t i) { results[i] += job + i; };
    if (job % 3 == 2) {
      pool.for_each(4, 1, [&add](int64_t i, int64_t, int) { add(i); });
    } else {
      pool.for_each_share(1, [&add](int64_t, int64_t share, int) { add(share); });
    }
    for (int64_t i = 0; i < 4; i++) ASSERT_EQ(results[i], job + i);
  }
}

TEST(ThreadPoolTest, LateWorkersNeverTouchTheNextTinyShares) { tiny_shares(50); }
TEST(ThreadPoolTest, LateWorkersThatSleptNeverTouchTheNextTinyShares) { tiny_shares(0); }

TEST(ThreadPoolTest, LateWorkersNeverTouchTheNextTinyJob) { tiny_jobs(50); }
TEST(ThreadPoolTest, LateWorkersThatSleptNeverTouchTheNextTinyJob) { tiny_jobs(0); }

TEST(ThreadPoolTest, TheCallerSleepsUntilASlowWorkerIsDone) {
  ThreadPool pool({.n_threads = 2, .spin_us = 0});
  for (int job = 0; job < 100; ++job) {
    int64_t results[2] = {};
    pool.for_each(2, 1, [&](int64_t begin, int64_t, int worker) {
      if (worker == 1) {
        for (int turns = 0; turns < 200; ++turns) std::this_thread::yield();
      }
      results[begin] = begin + 1;
    });
    ASSERT_EQ(results[0] + results[1], 3);
  }
}

TEST(ThreadPoolTest, PoolsComeAndGoWithoutWork) {
  for (int i = 0; i < 200; ++i) ThreadPool pool({.n_threads = 3, .spin_us = i % 2 ? 50 : 0});
}

// Any worker may run on any of the cores: a worker that has one of its own shares it with the caller when that comes to
// run there, and the system can move neither.
TEST(ThreadPoolTest, WorkersStayOnTheCoresAndTheCallerIsNotMoved) {
  std::vector<int> cpus = read_topology().cpus;
  if (cpus.size() > 2) cpus.pop_back();  // so that the cores are not all that a thread may run on anyway
  cpu_set_t before, after, wanted;
  CPU_ZERO(&wanted);
  for (const int cpu : cpus) CPU_SET(cpu, &wanted);
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  ThreadPool pool({.n_threads = 3, .cpus = cpus});
  std::atomic<int> arrived{0};
  std::atomic<int> wrong{0};
  pool.for_each(3, 1, [&](int64_t, int64_t, int worker) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof(mine), &mine) != 0) ++wrong;
    if (worker > 0 && !CPU_EQUAL(&mine, &wanted)) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPoolTest, ACoreThatDoesNotExistCostsAWarningOnly) {
  testing::internal::CaptureStderr();
  {
    ThreadPool pool({.n_threads = 2, .cpus = {4095}});
    rendezvous(pool, 1);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cannot keep computing thread 1 on the cores given (first 4095)"), std::string::npos) << text;
}

TEST(ThreadPoolDeathTest, AJobInsideAJobIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int n_threads : {1, 2}) {
    const auto nest = [n_threads] {
      ThreadPool pool({.n_threads = n_threads});
      pool.for_each(4, 1, [&](int64_t, int64_t, int) { pool.for_each(1, 1, [](int64_t, int64_t, int) {}); });
    };
    EXPECT_DEATH(nest(), "overlaps");
  }
}

}  // namespace
}  // namespace strata
