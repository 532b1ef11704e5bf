// Residuals of several streams on a CUDA device.
#include <algorithm>

#include "device/cuda/cuda_ops.h"
#include "kernels/cuda/hyper.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

namespace {

// Whether the amounts come from the kernel of the norms, beside what it reads anyway.
bool injects_in_norm(const HyperMix& op) {
  return !op.inject.empty() && op.inject.type == quant::Type::F32 && op.n_streams <= op.y.cols;
}

}  // namespace

size_t workspace_bytes(const HyperMix& op, const OpContext& context) {
  size_t most = std::max(workspace_bytes(op.down_product(), context), workspace_bytes(op.up_product(), context));
  if (!op.inject.empty() && !injects_in_norm(op)) most = std::max(most, workspace_bytes(op.inject_product(), context));
  return most;
}

void run(const HyperMix& op, const OpContext& context) {
  kernel::MixArgs args{.x = op.x.data(),
                       .x_stride = op.x.stride,
                       .gain = op.gain.data(),
                       .normed = op.normed.data(),
                       .normed_stride = op.normed.stride,
                       .low = op.low.data(),
                       .low_stride = op.low.stride,
                       .rank = op.low.cols,
                       .gates = op.gates.data(),
                       .gates_stride = op.gates.stride,
                       .y = op.y.data(),
                       .y_stride = op.y.stride,
                       .inject = nullptr,
                       .inject_stride = 0,
                       .amounts = nullptr,
                       .amounts_stride = 0,
                       .n_streams = op.n_streams,
                       .dim = op.y.cols,
                       .eps = op.eps};
  if (!op.inject.empty()) {
    args.amounts = op.amounts.data();
    args.amounts_stride = op.amounts.stride;
  }
  if (injects_in_norm(op)) {
    args.inject = reinterpret_cast<const float*>(op.inject.matrix().data);
    args.inject_stride = static_cast<int64_t>(op.inject.row_bytes / sizeof(float));
  }
  const kernel::LiveRows rows{op.live.data(), op.x.rows};
  kernel::launch_norm_streams(args, rows, context.stream);
  run(op.down_product(), context);
  if (!op.inject.empty() && !injects_in_norm(op)) run(op.inject_product(), context);
  kernel::launch_activate_low(args, rows, context.stream);
  run(op.up_product(), context);
  kernel::launch_mix_streams(args, rows, context.stream);
}

void run(const HyperAdd& op, const OpContext& context) {
  kernel::launch_add_streams({.y = op.y.data(),
                              .y_stride = op.y.stride,
                              .amounts = op.amounts.data(),
                              .amounts_stride = op.amounts.stride,
                              .x = op.x.data(),
                              .x_stride = op.x.stride,
                              .n_streams = static_cast<int>(op.amounts.cols),
                              .dim = op.y.cols},
                             {op.live.data(), op.x.rows}, context.stream);
}

}  // namespace strata::device::cuda
