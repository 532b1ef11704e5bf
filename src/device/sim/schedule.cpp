#include "device/sim/schedule.h"

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "device/sim/memory_record.h"

namespace strata::device::sim {
namespace {

// Spreads neighbouring numbers over all seeds.
constexpr uint64_t kOddMultiplier = 0x9E3779B97F4A7C15;

}  // namespace

Lane::Lane(Schedule& schedule, std::string name) : schedule_(schedule), name_(std::move(name)), random_(0) {
  const std::lock_guard<std::mutex> lock(schedule_.mutex_);
  random_ = Random(schedule_.seed_ ^ (++schedule_.n_lanes_made_ * kOddMultiplier));
  schedule_.lanes_.push_back(this);
}

Lane::~Lane() {
  {
    std::unique_lock<std::mutex> lock(schedule_.mutex_);
    while (schedule_.manual_ && !jobs_.empty()) schedule_.drive(*this, lock);
    stop_ = true;
    arrived_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  const std::lock_guard<std::mutex> lock(schedule_.mutex_);
  auto& lanes = schedule_.lanes_;
  lanes.erase(std::remove(lanes.begin(), lanes.end(), this), lanes.end());
}

void Lane::push(Job job) {
  const std::lock_guard<std::mutex> lock(schedule_.mutex_);
  for (MemoryRecord* memory : job.uses) memory->n_queued++;
  if (job.indirect) schedule_.n_indirect_++;
  jobs_.push_back(std::move(job));
  if (!schedule_.manual_ && !thread_.joinable()) thread_ = std::thread([this] { work(); });
  arrived_.notify_one();
}

void Lane::set_draining(bool draining) {
  const std::lock_guard<std::mutex> lock(schedule_.mutex_);
  draining_.store(draining, std::memory_order_release);
  if (blocked_on_ != nullptr) blocked_on_->changed.notify_all();
}

void Lane::work() {
  std::unique_lock<std::mutex> lock(schedule_.mutex_);
  for (;;) {
    arrived_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    run_front(lock);
  }
}

// Called with the lock held, which is let go while the job waits and runs.
void Lane::run_front(std::unique_lock<std::mutex>& lock) {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  if (job.waits_for) {
    blocked_on_ = job.waits_for.get();
    job.waits_for->changed.wait(lock, [&] { return job.waits_for->done || draining(); });
    blocked_on_ = nullptr;
  }
  if (!job.can_block) {
    for (MemoryRecord* memory : job.uses) memory->n_at_work++;
  }
  lock.unlock();
  if (!schedule_.manual_) delay();
  job.run();
  lock.lock();
  for (MemoryRecord* memory : job.uses) {
    memory->n_queued--;
    if (!job.can_block) memory->n_at_work--;
  }
  if (job.indirect) schedule_.n_indirect_--;
  if (!job.uses.empty()) schedule_.memory_changed_.notify_all();
}

// Most jobs start at once, some after others had a chance, a few late.
void Lane::delay() {
  const uint64_t chance = random_.below(32);
  if (chance == 0) real_clock().sleep_ns(static_cast<int64_t>(10'000 + random_.below(90'000)));
  if (chance < 6) std::this_thread::yield();
}

void Schedule::complete(Completion& completion, Stamp stamp) {
  const std::lock_guard<std::mutex> lock(mutex_);
  completion.stamp = std::move(stamp);
  completion.done = true;
  completion.changed.notify_all();
}

// Runs the next job of the lane, and before it what that one waits for.
void Schedule::drive(Lane& lane, std::unique_lock<std::mutex>& lock) {
  ASSERT(!lane.jobs_.empty());  // else somebody waits for what was never queued
  const std::shared_ptr<Completion> waits_for = lane.jobs_.front().waits_for;
  while (waits_for && !waits_for->done && !lane.draining()) drive(*waits_for->lane, lock);
  lane.run_front(lock);
}

void Schedule::wait(Completion& completion) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (manual_ && !completion.done) drive(*completion.lane, lock);
  completion.changed.wait(lock, [&] { return completion.done; });
}

bool Schedule::unused(const MemoryRecord& memory) const {
  return memory.n_queued == 0 && (memory.memory().kind() != MemoryKind::kDevice || n_indirect_ == 0);
}

void Schedule::wait_unused(const MemoryRecord& memory) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (manual_ && !unused(memory)) {
    const auto busy = std::find_if(lanes_.begin(), lanes_.end(), [](const Lane* l) { return !l->jobs_.empty(); });
    ASSERT(busy != lanes_.end());  // else a job frees what it works on itself
    drive(**busy, lock);
  }
  memory_changed_.wait(lock, [&] { return unused(memory); });
}

void Schedule::wait_untouched(const MemoryRecord& memory) {
  std::unique_lock<std::mutex> lock(mutex_);
  memory_changed_.wait(lock, [&] { return memory.n_at_work == 0; });
}

Status Schedule::run_next(const std::string& name, const std::string& job) {
  ASSERT(manual_);
  std::unique_lock<std::mutex> lock(mutex_);
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane* l) { return l->name() == name; });
  if (lane == lanes_.end()) return Error{ErrorCode::kNotFound, format("there is no lane '{}'", name)};
  if ((*lane)->jobs_.empty()) {
    return Error{ErrorCode::kNotFound, format("nothing is queued on '{}', so not '{}' either", name, job)};
  }
  const Job& next = (*lane)->jobs_.front();
  if (next.name != job) {
    return Error{ErrorCode::kNotFound, format("the next job of '{}' is '{}', not '{}'", name, next.name, job)};
  }
  if (next.waits_for && !next.waits_for->done && !(*lane)->draining()) {
    return Error{ErrorCode::kUnsupported,
                 format("'{}' of '{}' waits for what '{}' has not reached", job, name, next.waits_for->lane->name())};
  }
  (*lane)->run_front(lock);
  return {};
}

std::vector<std::string> Schedule::next_jobs() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> jobs;
  for (const Lane* lane : lanes_) {
    if (!lane->jobs_.empty()) jobs.push_back(lane->name() + ": " + lane->jobs_.front().name);
  }
  return jobs;
}

}  // namespace strata::device::sim
