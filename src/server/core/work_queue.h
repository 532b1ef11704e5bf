// Threads that do what would keep the connections waiting: parsing bodies, rendering templates, tokenizing.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/sync.h"

namespace strata::server {

class WorkQueue {
 public:
  using Task = std::function<void()>;  // must not throw

  explicit WorkQueue(int threads);
  // Does what is in the queue first.
  ~WorkQueue();

  // Any thread. As many wait as are pushed: whoever pushes has a limit.
  void push(Task task);

 private:
  void run();

  Mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Task> tasks_;
  bool stop_ = false;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace strata::server
