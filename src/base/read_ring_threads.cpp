#include <chrono>
#include <condition_variable>
#include <deque>

#include "base/mutex.h"
#include "base/read_ring.h"

namespace strata {
namespace {

class ThreadRing final : public ReadRing {
 public:
  explicit ThreadRing(int n_threads) {
    for (int i = 0; i < n_threads; i++) threads_.push_back(std::make_unique<Thread>([this] { work(); }));
  }
  ~ThreadRing() override {
    {
      const LockGuard lock(mutex_);
      stop_ = true;
    }
    work_arrived_.notify_all();
    threads_.clear();
  }

  void start(const RingRead& read) override {
    {
      const LockGuard lock(mutex_);
      reads_.push_back(read);
    }
    work_arrived_.notify_one();
  }

  void flush() override {}

  void wait(int64_t max_wait_ns, std::vector<RingResult>& results) override {
    const LockGuard lock(mutex_);
    const auto over = [this] { return woken_ || !results_.empty(); };
    if (max_wait_ns < 0) {
      changed_.wait(mutex_, over);
    } else {
      changed_.wait_for(mutex_, std::chrono::nanoseconds(max_wait_ns), over);
    }
    woken_ = false;
    for (RingResult& result : results_) results.push_back(std::move(result));
    results_.clear();
  }

  void wake() override {
    {
      const LockGuard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

 private:
  void work() {
    for (;;) {
      RingRead read;
      {
        const LockGuard lock(mutex_);
        work_arrived_.wait(mutex_, [this] { return stop_ || !reads_.empty(); });
        if (reads_.empty()) return;
        read = reads_.front();
        reads_.pop_front();
      }
      RingResult result{read.id, read_segments(read)};
      {
        const LockGuard lock(mutex_);
        results_.push_back(std::move(result));
      }
      changed_.notify_one();
    }
  }

  // Until one is not filled. A failure counts only if nothing came before it: what came is a short read then.
  static Result<size_t> read_segments(const RingRead& read) {
    size_t done = 0;
    for (const iovec& segment : read.into) {
      const std::span<std::byte> dst(static_cast<std::byte*>(segment.iov_base), segment.iov_len);
      const Result<size_t> n = read.file->read_some(read.offset + done, dst);
      if (!n.ok()) return done > 0 ? Result<size_t>(done) : n;
      done += *n;
      if (*n < dst.size()) break;
    }
    return done;
  }

  Mutex mutex_;
  std::condition_variable_any work_arrived_, changed_;
  std::deque<RingRead> reads_;
  std::vector<RingResult> results_;
  bool woken_ = false;
  bool stop_ = false;
  std::vector<std::unique_ptr<Thread>> threads_;  // last: they use the rest
};

}  // namespace

std::unique_ptr<ReadRing> make_thread_ring(int n_threads) { return std::make_unique<ThreadRing>(n_threads); }

}  // namespace strata
