// Tells people when a step waits for the drive: without a word a stalled drive looks like a hang.
#pragma once

#include <condition_variable>
#include <memory>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/sync.h"
#include "experts/source.h"

namespace strata::engine {

class SourceWatch {
 public:
  // Looks every `period_ns` of real time, on a thread of its own, and logs a warning when the source begins to say that
  // it waits for something, once for each time. The source outlives the watch.
  explicit SourceWatch(const experts::ExpertSource& source, int64_t period_ns = 500'000'000);
  ~SourceWatch();

 private:
  void run(int64_t period_ns);

  const experts::ExpertSource& source_;
  Mutex mutex_;
  std::condition_variable_any stopped_;
  bool stop_ = false;
  Thread thread_;
};

}  // namespace strata::engine
