#include "base/stall_watch.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <span>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"

namespace strata {
namespace {

constexpr int64_t kNsPerS = 1'000'000'000;
constexpr int64_t kLooksPerNotice = 8;
// More threads that are at the same are counted.
constexpr size_t kNamesMax = 4;

std::string joined(std::span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesMax); i++) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesMax) text += format(" and {} more", names.size() - kNamesMax);
  return text;
}

}  // namespace

std::string StallDetector::look(int64_t now_ns, const char* doing, uint64_t progress) {
  const int64_t passed_ns = looked_ ? std::min(now_ns - last_look_ns_, 2 * look_ns_) : 0;
  const bool moved = !looked_ || doing == nullptr || doing != doing_ || progress != progress_;
  looked_ = true;
  last_look_ns_ = now_ns;
  doing_ = doing;
  progress_ = progress;
  if (moved) return end_stall();
  still_ns_ += passed_ns;
  look_at_threads();
  if (still_ns_ < std::max(next_notice_ns_, notice_ns_)) return {};
  next_notice_ns_ = 2 * std::max(next_notice_ns_, notice_ns_);
  return describe();
}

std::string StallDetector::end_stall() {
  std::string text;
  if (next_notice_ns_ > 0) text = format("it goes on, after {} s without progress", still_ns_ / kNsPerS);
  still_ns_ = next_notice_ns_ = 0;
  seen_.clear();
  return text;
}

void StallDetector::look_at_threads() {
  std::vector<Seen> now;
  for (ThreadActivity& activity : threads_()) {
    const auto before =
        std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.activity.same_as(activity); });
    now.push_back({std::move(activity), before == seen_.end() ? still_ns_ : before->since_ns});
  }
  seen_ = std::move(now);
}

// Threads that are at the same for as long are one entry.
std::string StallDetector::describe() const {
  std::string text = format("no progress for {} s while {}", still_ns_ / kNsPerS, doing_);
  std::vector<bool> told(seen_.size());
  for (size_t i = 0; i < seen_.size(); i++) {
    if (told[i]) continue;
    const auto& [first, since_ns] = seen_[i];
    std::vector<std::string> names;
    for (size_t j = i; j < seen_.size(); j++) {
      const Seen& other = seen_[j];
      if (other.activity.what != first.what || other.activity.count != first.count || other.since_ns != since_ns)
        continue;
      names.push_back(other.activity.name);
      told[j] = true;
    }
    const std::string count = first.count > 0 ? format(" {}", first.count) : "";
    text += format("; {}: {}{} ({} s)", joined(names), first.what, count, (still_ns_ - since_ns) / kNsPerS);
  }
  return text;
}

StallWatch::StallWatch(const Stats& stats, int64_t notice_ns)
    : stats_(stats), thread_([this, notice_ns] { run(notice_ns); }) {}

StallWatch::~StallWatch() {
  {
    const LockGuard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void StallWatch::run(int64_t notice_ns) {
  const int64_t look_ns = std::min(notice_ns / kLooksPerNotice, kNsPerS);
  StallDetector detector(notice_ns, look_ns);
  std::unique_lock<Mutex> lock(mutex_);
  while (!stopped_.wait_for(lock, std::chrono::nanoseconds(look_ns), [this] { return stop_; })) {
    const std::string text = detector.look(real_clock().now_ns(), doing_.load(std::memory_order_acquire), progress());
    if (!text.empty()) log_warning("{}", text);
  }
}

// Only its changes say something. Gauges may go down, but not by as much as all else goes up, look after look.
uint64_t StallWatch::progress() const {
  uint64_t sum = n_ended_works.load(std::memory_order_relaxed);
  for (size_t i = 0; i < static_cast<size_t>(Counter::kCount); i++) {
    sum += static_cast<uint64_t>(stats_.get(static_cast<Counter>(i)));
  }
  return sum;
}

StallWatch::Work::Work(StallWatch* watch, const char* doing) : watch_(watch) {
  if (watch_ == nullptr) return;
  note_progress();
  outer_ = watch_->doing_.exchange(doing, std::memory_order_acq_rel);
}

StallWatch::Work::~Work() {
  if (watch_ != nullptr) watch_->doing_.store(outer_, std::memory_order_release);
}

}  // namespace strata
