// The threads that are measured with: as many, and on the same cores, as an engine takes for the same settings.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/thread_pool.h"

namespace strata::cli {

// `cpus`: those of --cpus; empty for all that the process may use. `n_threads` 0: one per physical core.
ThreadPoolOptions team_options(const std::vector<int>& cpus, int n_threads);

// Calls body(worker) once on every thread of the pool, beginning on all at the same time. Returns the nanoseconds from
// then until the last one was done.
int64_t run_together(ThreadPool& pool, const std::function<void(int worker)>& body);

}  // namespace strata::cli
