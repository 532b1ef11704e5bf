// Says who waits for what when nothing goes on: what a user whose program stands still can report, instead of "it
// hangs". Slow is not stalled: a job of the computing threads that ends, a piece of a weight that was loaded, whatever
// Stats counts (experts, reads and their bytes, steps) is progress.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/activity.h"
#include "base/mutex.h"
#include "base/stats.h"
#include "base/sync.h"

namespace strata {

// Decides from looks now and then whether there is something to say. Used by one thread.
class StallDetector {
 public:
  // The first notice comes after notice_ns (> 0) without progress, each further one after twice the time. Looks are
  // meant to come every look_ns. A look that comes much later counts as two: then it was the process that stood still.
  StallDetector(int64_t notice_ns, int64_t look_ns,
                std::function<std::vector<ThreadActivity>()> threads = thread_activities)
      : notice_ns_(notice_ns), look_ns_(look_ns), threads_(std::move(threads)) {}

  // What there is to say now, a line; mostly nothing. `doing`: static text on what ought to go on, null for nothing;
  // `progress` differs from that of the look before when something did.
  std::string look(int64_t now_ns, const char* doing, uint64_t progress);

 private:
  struct Seen {
    ThreadActivity activity;
    int64_t since_ns;  // of still_ns_; it was the same in each look since
  };
  std::string end_stall();
  void look_at_threads();
  std::string describe() const;

  const int64_t notice_ns_, look_ns_;
  const std::function<std::vector<ThreadActivity>()> threads_;
  bool looked_ = false;
  int64_t last_look_ns_ = 0;
  const char* doing_ = nullptr;
  uint64_t progress_ = 0;
  int64_t still_ns_ = 0;        // without progress
  int64_t next_notice_ns_ = 0;  // of still_ns_; 0: there was none yet
  std::vector<Seen> seen_;
};

// Looks by itself, on a thread of its own, and logs warnings. All threads of the process are told of: two engines in it
// see each other's.
class StallWatch {
 public:
  // `stats` outlives the watch.
  StallWatch(const Stats& stats, int64_t notice_ns);
  ~StallWatch();

  // While it lives, something ought to go on, by or through the calling thread. `doing` is static text. They nest; one
  // thread at a time has them. A null watch says nothing.
  class [[nodiscard]] Work {
   public:
    Work(StallWatch* watch, const char* doing);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    StallWatch* watch_;
    const char* outer_ = nullptr;
    Activity activity_{kRunning};
  };

 private:
  void run(int64_t notice_ns);
  uint64_t progress() const;

  const Stats& stats_;
  std::atomic<const char*> doing_{nullptr};
  Mutex mutex_;
  std::condition_variable_any stopped_;
  bool stop_ = false;
  Thread thread_;  // last: it uses the rest
};

}  // namespace strata
