// What the host device computes with: the thread pool, the kernels of the chosen instruction set and a scratch area per
// thread. The expert dispatch computes on the same pool.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace strata::device::host {

class Compute {
 public:
  Compute(const ThreadPoolOptions& threads, const kernels::Kernels& kernels) : kernels_(kernels), pool_(threads) {}

  ThreadPool& pool() { return pool_; }
  // Held by whoever computes on the pool, or with its scratch, while other threads may: it does one job at a time.
  Mutex& turn() { return turn_; }
  const kernels::Kernels& kernels() const { return kernels_; }

  // At least this many floats of scratch per thread from then on. kNoMemory when the system has none.
  Status reserve_scratch(int64_t floats);
  // Scratch of a worker, valid until the next reserve; asserts that `floats` of it were reserved.
  float* scratch(int worker, int64_t floats);

  // Items per piece so that each thread gets many pieces (whoever comes last keeps the others waiting for one of them),
  // but none smaller than `least`.
  int64_t grain(int64_t n_items, int64_t least) const;

 private:
  const kernels::Kernels& kernels_;
  ThreadPool pool_;
  Mutex turn_;
  int64_t scratch_floats_ = 0;
  std::vector<std::unique_ptr<float[]>> scratch_;
};

// y[t] = W x[t] for n_tokens rows, weight rows shared out over the pool; scratch matmul_scratch(w.cols). The result of
// a (row, token) does not depend on the split.
void matmul(Compute& compute, const kernels::Matrix& w, const float* x, int64_t x_stride, int64_t n_tokens, float* y,
            int64_t y_stride);
// Tokens computed per decoded weight row: their activations should stay in the second-level cache.
inline constexpr int64_t kTokenTile = 64;
// Weight rows a worker claims at once at the least.
inline constexpr int64_t kRowGrain = 8;
// The same for integer products, which form the sums of this many rows together.
inline constexpr int64_t kStripGrain = 16;
inline int64_t matmul_scratch(int64_t cols) { return cols; }

}  // namespace strata::device::host
