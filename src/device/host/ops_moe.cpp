#include "base/mutation.h"
#include "device/host/host_ops.h"

namespace strata::device::host {

int64_t scratch_floats(const Router& op) { return matmul_scratch(op.w.cols) + 2 * op.logits.cols; }

void run(const Router& op, Compute& compute) {
  const int64_t n_rows = op.live.data()[0];
  matmul(compute, op.w.matrix(), op.x.data(), op.x.stride, n_rows, op.logits.data(), op.logits.stride);
  compute.pool().for_each(n_rows, 4, [&](int64_t begin, int64_t end, int worker) {
    float* scratch = compute.scratch(worker, 2 * op.logits.cols);
    for (int64_t r = begin; r < end; r++) {
      float* logits = op.logits.row(r);
      if (!op.bias.empty()) compute.kernels().axpy(1.0f, op.bias.data(), logits, op.logits.cols);
      kernels::route(op.params, logits, op.selection_bias.empty() ? nullptr : op.selection_bias.data(), op.ids.row(r),
                     op.weights.row(r), scratch);
    }
  });
}

void run(const Combine& op, Compute& compute) {
  const int64_t k = op.weights.cols;
  compute.pool().for_each(op.live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      float* x = op.x.row(r);
      for (int64_t i = 0; i < op.x.cols; i++) {
        float total = 0;
        for (int64_t j = 0; j < k; j++) {
          int64_t rank = j;
          if (mutated(Mutation::kSumInArrivalOrder)) rank = k - 1 - j;
          total += op.weights.row(r)[rank] * op.rows.row(r * k + rank)[i];
        }
        x[i] += total;
      }
    }
  });
}

}  // namespace strata::device::host
