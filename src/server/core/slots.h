// Which jobs are under way, how far they are, and whether more may come.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/mutex.h"

namespace strata::server {

// How far one job is. Written by the engine's thread, read by any.
struct JobProgress {
  std::atomic<int64_t> prompt_tokens{0};
  std::atomic<int64_t> prompt_done{0};
  std::atomic<int64_t> answer_tokens{0};
  int64_t started_ns = 0;  // set before it is put into a slot
};

struct SlotState {
  bool busy = false;
  int64_t prompt_tokens = 0, prompt_done = 0, answer_tokens = 0;
  int64_t running_ns = 0;
};

// Jobs are admitted while they wait or run; those that run have a slot. Any thread.
class Slots {
 public:
  Slots(int slots, int64_t max_waiting) : table_(static_cast<size_t>(slots)), limit_(slots + max_waiting) {}

  // All of them, or none when there is no room.
  bool admit(int64_t jobs) {
    if (admitted_.fetch_add(jobs) + jobs <= limit_) return true;
    admitted_.fetch_sub(jobs);
    return false;
  }
  void leave() { admitted_.fetch_sub(1); }
  // The most that can ever be admitted together.
  int64_t limit() const { return limit_; }
  int64_t admitted() const { return admitted_.load(); }

  // The first free slot; `job` stays until release().
  void occupy(const JobProgress& job) {
    const LockGuard lock(mutex_);
    for (const JobProgress*& slot : table_) {
      if (slot != nullptr) continue;
      slot = &job;
      return;
    }
  }
  void release(const JobProgress& job) {
    const LockGuard lock(mutex_);
    for (const JobProgress*& slot : table_) {
      if (slot == &job) slot = nullptr;
    }
  }
  std::vector<SlotState> states(int64_t now_ns) const {
    const LockGuard lock(mutex_);
    std::vector<SlotState> states;
    for (const JobProgress* job : table_) {
      if (job == nullptr) {
        states.push_back({});
        continue;
      }
      states.push_back({.busy = true,
                        .prompt_tokens = job->prompt_tokens.load(),
                        .prompt_done = job->prompt_done.load(),
                        .answer_tokens = job->answer_tokens.load(),
                        .running_ns = now_ns - job->started_ns});
    }
    return states;
  }
  int64_t running() const {
    const LockGuard lock(mutex_);
    int64_t n = 0;
    for (const JobProgress* job : table_) n += job != nullptr;
    return n;
  }

 private:
  mutable Mutex mutex_;
  std::vector<const JobProgress*> table_;
  const int64_t limit_;
  std::atomic<int64_t> admitted_{0};
};

}  // namespace strata::server
