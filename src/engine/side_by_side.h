// Work of several devices that is done at the same time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/sync.h"

namespace strata::engine {

// Calls work(i) -> Status for all i below n, the first on this thread and each other on one of its own. Returns when
// all are done: the failure of the first that failed, in their order.
template <class Work>
Status side_by_side(size_t n, const Work& work) {
  std::vector<Status> done(n);
  std::vector<std::unique_ptr<Thread>> threads;
  for (size_t i = 1; i < n; i++) threads.push_back(std::make_unique<Thread>([&, i] { done[i] = work(i); }));
  if (n > 0) done[0] = work(size_t{0});
  for (const auto& thread : threads) thread->join();
  for (Status& status : done) RETURN_IF_ERROR(std::move(status));
  return {};
}

}  // namespace strata::engine
