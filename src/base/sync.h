// How threads of the host order each other, told to whoever watches (a checker of access orders). Without a watcher
// each of these calls is one load of a counter.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace strata {

// Called on the thread that it is about. Calls come from any thread and don't overlap; they must not take a
// strata::Mutex.
class SyncObserver {
 public:
  virtual ~SyncObserver() = default;
  // What the calling thread has done is ordered before what any thread does after it acquires `object` from now on.
  virtual void released(const void* object) = 0;
  virtual void acquired(const void* object) = 0;
  // `object` is dead; another one may come to lie at its address.
  virtual void forgotten(const void* object) = 0;
  // The calling thread does nothing any more.
  virtual void thread_ended() = 0;
};

namespace detail {

struct SyncObservers {
  std::mutex mutex;  // also keeps an observer alive while it is called
  std::vector<SyncObserver*> list;
};
inline std::atomic<int> n_sync_observers{0};
inline SyncObservers& sync_observers() {
  static SyncObservers& all = *new SyncObservers;  // outlives every static object that has a lock
  return all;
}

inline void tell_sync_observers(void (SyncObserver::*what)(const void*), const void* object) {
  SyncObservers& all = sync_observers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (SyncObserver* observer : all.list) (observer->*what)(object);
}

}  // namespace detail

inline void add_sync_observer(SyncObserver* observer) {
  detail::SyncObservers& all = detail::sync_observers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.list.push_back(observer);
  detail::n_sync_observers.store(static_cast<int>(all.list.size()));
}
// Once this returns, the observer is not called any more.
inline void remove_sync_observer(SyncObserver* observer) {
  detail::SyncObservers& all = detail::sync_observers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.list.erase(std::remove(all.list.begin(), all.list.end(), observer), all.list.end());
  detail::n_sync_observers.store(static_cast<int>(all.list.size()));
}

// For whatever orders threads without a strata::Mutex: call sync_released before the other thread can go on, and
// sync_acquired after it could.
inline void sync_released(const void* object) {
  if (detail::n_sync_observers.load(std::memory_order_relaxed) != 0)
    detail::tell_sync_observers(&SyncObserver::released, object);
}
inline void sync_acquired(const void* object) {
  if (detail::n_sync_observers.load(std::memory_order_relaxed) != 0)
    detail::tell_sync_observers(&SyncObserver::acquired, object);
}
inline void sync_forgotten(const void* object) {
  if (detail::n_sync_observers.load(std::memory_order_relaxed) != 0)
    detail::tell_sync_observers(&SyncObserver::forgotten, object);
}

inline void sync_thread_ended() {
  if (detail::n_sync_observers.load(std::memory_order_relaxed) == 0) return;
  detail::SyncObservers& all = detail::sync_observers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (SyncObserver* observer : all.list) observer->thread_ended();
}

// A thread whose start and join are seen. Joined by its destructor.
class Thread {
 public:
  template <class Body>
  explicit Thread(Body body) {
    sync_released(&start_);
    thread_ = std::thread([this, body = std::move(body)]() mutable {
      sync_acquired(&start_);
      body();
      sync_released(&end_);
      sync_thread_ended();
    });
  }
  ~Thread() {
    if (thread_.joinable()) join();
    sync_forgotten(&start_);
    sync_forgotten(&end_);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void join() {
    thread_.join();
    sync_acquired(&end_);
  }

 private:
  char start_ = 0, end_ = 0;  // their addresses name the two edges
  std::thread thread_;
};

}  // namespace strata
