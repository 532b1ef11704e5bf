// What threads are at, told to whoever wants to know why nothing goes on (base/stall_watch.h).
//
// A thread has a record of its own, of two atomics: to say what it waits for costs a few stores, and no lock, clock or
// allocation. (Its first word takes a lock once, to enter the record.) Where threads spin before they sleep, they say
// so only then.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace strata {

// Of a thread that has nothing to do.
inline constexpr const char* kIdle = "idle";
// Of one that says nothing more: it computes, or waits where nobody can say so.
inline constexpr const char* kRunning = "runs, or waits for pages of a mapped file";

// While it lives, the calling thread is at `what`: static text that goes on "the thread ...", as "waits for the drive".
// Activities of a thread nest; the innermost counts. Lives and dies on one thread.
class [[nodiscard]] Activity {
 public:
  // With `count` > 0, so many of what the text ends with: "waits for the drive, reads under way:".
  explicit Activity(const char* what, int64_t count = 0);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  const char* outer_what_;
  int64_t outer_count_;
};

// From now on the calling thread is told of by this name, whatever it does. One that was never named is called by its
// number, and told of only while it has an Activity.
void name_this_thread(std::string name);

// What one thread said last.
struct ThreadActivity {
  int64_t thread;    // the system's number
  std::string name;
  const char* what;
  int64_t count;

  bool same_as(const ThreadActivity& other) const {
    return thread == other.thread && what == other.what && count == other.count;
  }
};
// Of all threads of the process, those first that spoke first. Any thread.
std::vector<ThreadActivity> thread_activities();

// Counts work that comes to an end, of whatever kind: a stall is when it stands still.
inline std::atomic<uint64_t> n_ended_works{0};
inline void note_progress() { n_ended_works.fetch_add(1, std::memory_order_relaxed); }

}  // namespace strata
