#include "engine/source_watch.h"

#include <chrono>
#include <mutex>

#include "base/log.h"

namespace strata::engine {

SourceWatch::SourceWatch(const experts::ExpertSource& source, int64_t period_ns)
    : source_(source), thread_([this, period_ns] { run(period_ns); }) {}

SourceWatch::~SourceWatch() {
  {
    const LockGuard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void SourceWatch::run(int64_t period_ns) {
  bool told = false;
  std::unique_lock<Mutex> lock(mutex_);
  while (!stopped_.wait_for(lock, std::chrono::nanoseconds(period_ns), [&] { return stop_; })) {
    const char* what = source_.waiting_for();
    if (what != nullptr && !told) log_warning("waiting for {}", what);
    told = what != nullptr;
  }
}

}  // namespace strata::engine
