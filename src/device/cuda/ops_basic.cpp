// Embedding, norms, products, activations and row moves on a CUDA device.
#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_product.h"
#include "kernels/cuda/rows.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

void run(const Embed& op, const OpContext& context) {
  const kernels::Matrix table = op.table.matrix();
  kernel::launch_embed({.type = table.type,
                        .table = table.data,
                        .row_bytes = table.row_bytes,
                        .cols = table.cols,
                        .ids = op.ids.data(),
                        .y = op.y.data(),
                        .y_stride = op.y.stride},
                       {op.live.data(), op.y.rows}, context.stream);
}

void run(const RmsNorm& op, const OpContext& context) {
  kernel::launch_rms_norm({.x = op.x.data(),
                           .x_stride = op.x.stride,
                           .gain = op.gain.data(),
                           .y = op.y.data(),
                           .y_stride = op.y.stride,
                           .cols = op.x.cols,
                           .eps = op.eps},
                          {op.live.data(), op.x.rows}, context.stream);
}

namespace {

kernel::Product rounded_product(const MatMul& op) {
  kernel::Product p = product_of(op.w, op.x, op.bias, op.live, op.y);
  p.finish = op.accumulate ? kernel::Finish::kAdd : kernel::Finish::kStore;
  if (op.w.rounding != Rounding::kNone) p.format = kernels::act_format(op.w.type);
  p.twice = op.w.rounding == Rounding::kTwice;
  return p;
}

}  // namespace

size_t workspace_bytes(const MatMul& op, const OpContext& context) {
  return product_workspace(rounded_product(op), context);
}

void run(const MatMul& op, const OpContext& context) { run_product(rounded_product(op), context); }

void run(const SiluMul& op, const OpContext& context) {
  kernel::launch_silu_mul(op.gate.data(), op.gate.stride, op.up.data(), op.up.stride, op.gate.cols,
                          {op.live.data(), op.gate.rows}, context.stream);
}

void run(const AddGated& op, const OpContext& context) {
  kernel::launch_add_gated({.x = op.x.data(),
                            .x_stride = op.x.stride,
                            .y = op.y.data(),
                            .y_stride = op.y.stride,
                            .gate = op.gate.empty() ? nullptr : op.gate.data(),
                            .gate_stride = op.gate.stride,
                            .cols = op.x.cols},
                           {op.live.data(), op.x.rows}, context.stream);
}

void run(const GatherRows& op, const OpContext& context) {
  kernel::launch_gather({.x = op.x.data(),
                         .x_stride = op.x.stride,
                         .from = op.rows.data(),
                         .y = op.y.data(),
                         .y_stride = op.y.stride,
                         .cols = op.x.cols},
                        {op.live.data(), op.y.rows}, context.stream);
}

}  // namespace strata::device::cuda
