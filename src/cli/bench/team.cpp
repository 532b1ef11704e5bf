#include "cli/bench/team.h"

#include <atomic>

#include <sched.h>

#include "base/clock.h"
#include "base/topology.h"

namespace strata::cli {
namespace {

// Looks at the others before a waiting thread lets one of them have its core.
constexpr int kLooksPerYield = 1000;

}  // namespace

ThreadPoolOptions team_options(const std::vector<int>& cpus, int n_threads) {
  ThreadPoolOptions options;
  options.cpus = cpus.empty() ? read_topology().physical_cores : cpus;
  options.n_threads = n_threads > 0 ? n_threads : static_cast<int>(options.cpus.size());
  // More threads than cores are not pinned, by the engine neither.
  if (options.n_threads > static_cast<int>(options.cpus.size())) options.cpus.clear();
  return options;
}

// A thread that waits for the others holds its piece, so it can't take a second one: each gets exactly one.
int64_t run_together(ThreadPool& pool, const std::function<void(int worker)>& body) {
  const int n_threads = pool.n_threads();
  std::atomic<int> n_ready{0};
  std::atomic<int64_t> begin_ns{0};
  pool.for_each(n_threads, 1, [&](int64_t, int64_t, int worker) {
    if (n_ready.fetch_add(1) + 1 == n_threads) {
      begin_ns.store(real_clock().now_ns());
    } else {
      for (int looks = 1; begin_ns.load() == 0; looks++) {
        if (looks % kLooksPerYield == 0) sched_yield();
      }
    }
    body(worker);
  });
  return real_clock().now_ns() - begin_ns.load();
}

}  // namespace strata::cli
