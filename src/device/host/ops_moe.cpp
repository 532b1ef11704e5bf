#include "device/host/host_ops.h"
#include "device/host/pair_rows.h"

namespace strata::device::host {

int64_t scratch_floats(const Router& op) { return matmul_scratch(op.w.cols) + 2 * op.logits.cols; }

void run(const Router& op, Compute& compute) {
  const int64_t n_rows = op.live.data()[0];
  View<float> x = op.x;
  if (!op.gain.empty()) {
    x = op.normed;
    run(RmsNorm{.x = op.x, .gain = op.gain, .live = op.live, .y = op.normed, .eps = op.eps}, compute);
  }
  matmul(compute, op.w.matrix(), x.data(), x.stride, n_rows, op.logits.data(), op.logits.stride);
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
  add_pair_rows(compute, op.weights, op.live, op.x, [&](int64_t pair) -> const float* {
    if (op.arrived.empty()) return op.rows.row(pair);
    const int64_t k = op.weights.cols;
    const int32_t slot = op.slot_of.data()[op.ids.row(pair / k)[pair % k]];
    return slot < 0 ? op.arrived.row(pair) : op.rows.row(pair);
  });
}

}  // namespace strata::device::host
