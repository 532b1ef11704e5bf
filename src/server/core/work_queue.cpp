#include "server/core/work_queue.h"

#include <utility>

namespace strata::server {

WorkQueue::WorkQueue(int threads) {
  for (int i = 0; i < threads; i++) threads_.push_back(std::make_unique<Thread>([this] { run(); }));
}

WorkQueue::~WorkQueue() {
  {
    const LockGuard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  threads_.clear();  // joins
}

void WorkQueue::push(Task task) {
  const LockGuard lock(mutex_);
  tasks_.push_back(std::move(task));
  wake_.notify_one();
}

void WorkQueue::run() {
  for (;;) {
    mutex_.lock();
    while (tasks_.empty() && !stop_) wake_.wait(mutex_);
    Task task;
    if (!tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    mutex_.unlock();
    if (!task) return;
    task();
  }
}

}  // namespace strata::server
