// The computing threads: a fixed set of workers, kept on a set of cores, that split one job at a time by items (rows).
//
// A job is published as one 64-bit claim word that packs phase, piece count and next piece, so a worker that comes late
// can never claim a piece of the next job: its compare-and-swap carries the old phase and fails. Jobs of shares have
// such a word for each thread. Workers spin briefly, then sleep; publishing wakes sleepers only if there are any.
// Nothing is allocated and no lock is taken per job.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace strata {

struct ThreadPoolOptions {
  int n_threads = 1;          // computing threads, the caller among them; >= 1
  // Cores that the workers may run on; empty: any. Worker 0, the caller, keeps the affinity it has, so no worker is
  // pinned to a core of its own: where the caller came to run on that one, the two would share it, for seconds. Cores
  // that the process may not use are left out; where none is left, a warning says so.
  std::vector<int> cpus = {};
  int64_t spin_us = 50;       // how long an idle worker spins before it sleeps
};

class ThreadPool {
 public:
  explicit ThreadPool(const ThreadPoolOptions& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Those asked for, or fewer (with a warning) if the system did not give as many.
  int n_threads() const;

  // Calls body(begin, end, worker) for pieces of at most `grain` items that together cover [0, n_items) once; returns
  // when all are done. worker is in [0, n_threads) and no two pieces run under the same worker at once. The caller
  // computes too (as worker 0). One job at a time: calls from several threads are not allowed, nor from inside a body.
  // A body must not throw.
  template <class Body>
  void for_each(int64_t n_items, int64_t grain, const Body& body) {
    run(n_items, grain, call_body<Body>, &body);
  }

  // The same with pieces that shrink, for items that cost about the same: half of each thread's share first, then a
  // quarter and so on down to 1/32, in whole multiples of `least` items (but for the last one). So there are few
  // pieces, and who comes last keeps the others waiting for a small one. With one thread it is one piece.
  template <class Body>
  void for_each_shrinking(int64_t n_items, int64_t least, const Body& body) {
    run_shrinking(n_items, least, call_body<Body>, &body);
  }

  // Calls body(round, share, worker) for each of the shares [0, n_threads()) of at most 65535 rounds. A worker takes
  // the share of his own number first, round after round, then what others have left of theirs: so where nobody is held
  // up, the same thread computes the same share every time and finds in its caches what it has read before.
  template <class Body>
  void for_each_share(int64_t n_rounds, const Body& body) {
    run_shares(n_rounds, call_body<Body>, &body);
  }

  // The same for first(round, share, worker) and then second(round, share, worker), which begins in each share when all
  // shares of that round are done with first: threads go on to the next round instead of waiting for one another.
  // At most kRoundsTwiceMax rounds.
  template <class First, class Second>
  void for_each_share_twice(int64_t n_rounds, const First& first, const Second& second) {
    const auto body = [&](int64_t piece, int64_t share, int worker) {
      if (piece < n_rounds) {
        first(piece, share, worker);
      } else {
        second(piece - n_rounds, share, worker);
      }
    };
    run_shares_twice(n_rounds, call_body<decltype(body)>, &body);
  }
  static constexpr int64_t kRoundsTwiceMax = 64;

 private:
  using PieceFn = void (*)(const void* context, int64_t first, int64_t second, int worker);
  template <class Body>
  static void call_body(const void* context, int64_t first, int64_t second, int worker) {
    (*static_cast<const Body*>(context))(first, second, worker);
  }
  void run(int64_t n_items, int64_t grain, PieceFn fn, const void* context);
  void run_shares_twice(int64_t n_rounds, PieceFn fn, const void* context);
  void run_shrinking(int64_t n_items, int64_t least, PieceFn fn, const void* context);
  void run_shares(int64_t n_rounds, PieceFn fn, const void* context);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata
