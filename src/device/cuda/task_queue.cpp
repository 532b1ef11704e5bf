#include "device/cuda/task_queue.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace strata::device::cuda {
namespace {

// How long the thread watches before it sleeps: for the next push a little, since a step follows the last one soon; for
// a request as long as a layer of a few rows takes, since each sleep costs tens of microseconds.
constexpr int64_t kIdleSpinNs = 100'000;
constexpr int64_t kRequestSpinNs = 2'000'000;
constexpr int64_t kSleepNs = 50'000;
constexpr std::chrono::milliseconds kProbeEvery{20};

void pause() { __builtin_ia32_pause(); }

// Watches until `seen()` or the time is over.
template <class Seen>
bool spin(int64_t duration_ns, const Seen& seen) {
  constexpr int kLooksPerClockRead = 32;
  const int64_t end = real_clock().now_ns() + duration_ns;
  do {
    for (int i = 0; i < kLooksPerClockRead; i++) {
      if (seen()) return true;
      pause();
    }
  } while (real_clock().now_ns() < end);
  return false;
}

}  // namespace

TaskQueue::TaskQueue(TaskUser& user) : user_(user), thread_([this] { run(); }) {}

TaskQueue::~TaskQueue() {
  {
    const LockGuard lock(mutex_);
    ASSERT(n_pushed_.load() == n_popped_.load());
    stopping_.store(true);
  }
  pushed_.notify_one();
  thread_.join();
}

void TaskQueue::push(const TaskRequest& request) {
  {
    std::unique_lock lock(mutex_);
    wait_for_pop(lock, [&] { return n_pushed_.load() - n_popped_.load() < kCapacity; });
    at(n_pushed_.load()) = request;
    n_pushed_.store(n_pushed_.load() + 1, std::memory_order_release);
  }
  pushed_.notify_one();
}

std::optional<Error> TaskQueue::await(uint32_t number) {
  const LockGuard lock(mutex_);
  const uint64_t first = n_popped_.load() + (answered_ ? 1 : 0);
  for (uint64_t i = n_pushed_.load(); i > first; i--) {
    TaskRequest& request = at(i - 1);
    if (request.of_graph || request.number != number) continue;
    request.awaited = true;
    return std::nullopt;
  }
  const auto failed =
      std::find_if(failures_.begin(), failures_.end(), [&](const Failure& f) { return f.number == number; });
  if (failed == failures_.end()) return std::nullopt;
  return failed->error;
}

void TaskQueue::forget_failures() {
  const LockGuard lock(mutex_);
  failures_.clear();
}

void TaskQueue::wait_idle() {
  std::unique_lock lock(mutex_);
  wait_for_pop(lock, [&] { return n_pushed_.load() == n_popped_.load(); });
}

template <class Seen>
void TaskQueue::wait_for_pop(std::unique_lock<Mutex>& lock, const Seen& seen) {
  n_waiting_++;
  while (!popped_.wait_for(lock, kProbeEvery, seen)) {
    lock.unlock();  // the probe may take as long as a task
    user_.probe();
    lock.lock();
  }
  n_waiting_--;
}

void TaskQueue::run() {
  while (TaskRequest* request = next()) {
    await_request(*request);
    answer(*request, user_.draining() ? Status() : run_task(*request->task, [this] { return next_requested(); }));
    pop();
  }
}

TaskRequest* TaskQueue::next() {
  const auto has_work = [&] { return stopping_.load() || n_pushed_.load() != n_popped_.load(); };
  if (!spin(kIdleSpinNs, has_work)) {
    std::unique_lock lock(mutex_);
    pushed_.wait(lock, has_work);
  }
  // What was pushed is seen, and ordered, under the mutex.
  const LockGuard lock(mutex_);
  return stopping_.load() ? nullptr : &at(n_popped_.load());
}

// What was pushed stands until it is popped, which only the thread that waits for the task does.
bool TaskQueue::next_requested() {
  const uint64_t next = n_popped_.load(std::memory_order_relaxed) + 1;
  if (next >= n_pushed_.load(std::memory_order_acquire)) return false;
  const TaskRequest& request = at(next);
  return reached(request.words->requested.load(std::memory_order_relaxed), request.number);
}

void TaskQueue::await_request(const TaskRequest& request) {
  const auto seen = [&] {
    return reached(request.words->requested.load(std::memory_order_acquire), request.number) || user_.lost();
  };
  if (spin(kRequestSpinNs, seen)) return;
  while (!seen()) real_clock().sleep_ns(kSleepNs);
}

// The stream fails before it can go on.
void TaskQueue::answer(TaskRequest& request, Status status) {
  bool fails = false;
  {
    const LockGuard lock(mutex_);
    answered_ = true;
    fails = !status.ok() && request.awaited;
    if (!status.ok() && !request.awaited && !request.of_graph) failures_.push_back({request.number, status.error()});
  }
  if (fails) user_.task_failed(std::move(status).error());
  if (request.last) request.words->requested.store(0, std::memory_order_relaxed);
  request.words->done.store(request.number, std::memory_order_release);
}

void TaskQueue::pop() {
  bool awaited = false;
  {
    const LockGuard lock(mutex_);
    answered_ = false;
    n_popped_.store(n_popped_.load() + 1);
    awaited = n_waiting_ > 0;
  }
  if (awaited) popped_.notify_all();
}

}  // namespace strata::device::cuda
