// When queued work runs: each lane (a stream, or the host tasks of a stream) is a thread with seeded random delays, or
// all of them stand still until a test runs their jobs by hand.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "device/sim/order.h"

namespace strata::device::sim {

class Lane;
class MemoryRecord;
class Schedule;

// Something that will have been reached. The members are guarded by the mutex of the schedule.
struct Completion {
  explicit Completion(Lane* its_lane) : lane(its_lane) {}
  Lane* lane;  // that will complete it; alive until then
  bool done = false;
  Stamp stamp;  // what waiting for it orders before the one who waited
  std::condition_variable changed;
};

struct Job {
  std::string name;                       // for those who run jobs by hand
  std::shared_ptr<Completion> waits_for;  // has to be done first, unless the lane drains; null for most
  std::function<void()> run;
  std::vector<MemoryRecord*> uses;  // stay alive until it has run
  bool indirect = false;            // may use any memory of a device, through tables
  bool can_block = false;           // a host task: its end may depend on other threads
};

// A queue of jobs that run in order. Jobs that are still queued when it dies are run first.
class Lane {
 public:
  Lane(Schedule& schedule, std::string name);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& name() const { return name_; }
  void push(Job job);
  // A draining lane waits for nothing. The jobs themselves see to it that they do nothing.
  void set_draining(bool draining);
  bool draining() const { return draining_.load(std::memory_order_acquire); }

 private:
  friend class Schedule;
  void work();
  void run_front(std::unique_lock<std::mutex>& lock);
  void delay();

  Schedule& schedule_;
  const std::string name_;
  std::deque<Job> jobs_;
  std::condition_variable arrived_;
  Completion* blocked_on_ = nullptr;
  bool stop_ = false;
  std::atomic<bool> draining_{false};  // written under the mutex
  Random random_;
  std::thread thread_;  // started by the first job
};

class Schedule {
 public:
  Schedule(bool manual, uint64_t seed) : manual_(manual), seed_(seed) {}

  bool manual() const { return manual_; }
  std::mutex& mutex() { return mutex_; }

  void complete(Completion& completion, Stamp stamp);
  // Returns once it is done: blocks, or runs by hand the jobs it takes.
  void wait(Completion& completion);
  // Returns once no queued job uses the memory, or might.
  void wait_unused(const MemoryRecord& memory);
  // Returns once no operation or copy is at work on the memory.
  void wait_untouched(const MemoryRecord& memory);

  // By hand: runs the next job of the lane, which has to have that name. kNotFound says what there is instead,
  // kUnsupported that the job waits for something that has not been run.
  Status run_next(const std::string& lane, const std::string& job);
  // "lane: job" for the next job of each lane.
  std::vector<std::string> next_jobs();

 private:
  friend class Lane;
  void drive(Lane& lane, std::unique_lock<std::mutex>& lock);
  bool unused(const MemoryRecord& memory) const;

  const bool manual_;
  const uint64_t seed_;
  std::mutex mutex_;
  std::condition_variable memory_changed_;
  int n_indirect_ = 0;  // indirect jobs that have not run
  std::vector<Lane*> lanes_;
  uint64_t n_lanes_made_ = 0;
};

}  // namespace strata::device::sim
