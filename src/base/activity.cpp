#include "base/activity.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <unistd.h>

#include "base/format.h"

namespace strata {
namespace {

struct Record;

// The records of living threads, in a list through them, so that entering one allocates nothing.
struct Records {
  std::mutex mutex;  // guards the list and the names; below every Mutex
  Record* first = nullptr;
  Record* last = nullptr;
};
Records& records() {
  static Records& all = *new Records;  // outlives every thread
  return all;
}

struct Record {
  Record() : thread(::gettid()) {
    Records& all = records();
    const std::lock_guard<std::mutex> lock(all.mutex);
    before = all.last;
    (before != nullptr ? before->next : all.first) = this;
    all.last = this;
  }
  ~Record() {
    Records& all = records();
    const std::lock_guard<std::mutex> lock(all.mutex);
    (before != nullptr ? before->next : all.first) = next;
    (next != nullptr ? next->before : all.last) = before;
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  // `what` is taken away while `count` changes, so that no reader pairs one with another's.
  void say(const char* new_what, int64_t new_count) {
    what.store(nullptr, std::memory_order_relaxed);
    count.store(new_count, std::memory_order_release);
    what.store(new_what, std::memory_order_release);
  }
  ThreadActivity read() const {
    ThreadActivity seen{thread, name.empty() ? format("thread {}", thread) : name, nullptr, 0};
    const char* now = what.load(std::memory_order_acquire);
    do {
      seen.what = now;
      seen.count = count.load(std::memory_order_acquire);
      now = what.load(std::memory_order_relaxed);
    } while (now != seen.what);
    return seen;
  }

  std::atomic<const char*> what{nullptr};
  std::atomic<int64_t> count{0};
  const int64_t thread;
  std::string name;
  Record* before = nullptr;
  Record* next = nullptr;
};

Record& this_thread() {
  thread_local Record record;
  return record;
}

}  // namespace

Activity::Activity(const char* what, int64_t count) {
  Record& record = this_thread();
  outer_what_ = record.what.load(std::memory_order_relaxed);
  outer_count_ = record.count.load(std::memory_order_relaxed);
  record.say(what, count);
}

Activity::~Activity() { this_thread().say(outer_what_, outer_count_); }

void name_this_thread(std::string name) {
  Record& record = this_thread();
  const std::lock_guard<std::mutex> lock(records().mutex);
  record.name = std::move(name);
}

std::vector<ThreadActivity> thread_activities() {
  std::vector<ThreadActivity> told;
  Records& all = records();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const Record* record = all.first; record != nullptr; record = record->next) {
    ThreadActivity seen = record->read();
    if (seen.what == nullptr && record->name.empty()) continue;
    if (seen.what == nullptr) seen.what = kRunning;
    told.push_back(std::move(seen));
  }
  return told;
}

}  // namespace strata
