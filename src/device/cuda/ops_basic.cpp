// Embedding, norms, products, activations and row moves on a CUDA device.
#include <algorithm>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_product.h"
#include "kernels/cuda/matvec.h"
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

namespace {

// Whether part `next` continues the product that part `first` begins: a matrix under the matrix.
bool continues(const Project& op, int first, int next) {
  const Weight& a = op.parts[first].w;
  const Weight& b = op.parts[next].w;
  return next - first <= kernel::kMostBelow && a.type == b.type && a.rounding == b.rounding;
}

// The product of the parts [first, end) from rows that the kernel norms itself.
kernel::Product stacked_product(const Project& op, int first, int end) {
  MatMul one = op.product(first);
  one.x = op.x;
  kernel::Product p = rounded_product(one);
  for (int i = first + 1; i < end; i++) {
    const Project::Part& part = op.parts[i];
    p.below[i - first - 1] = {.memory = part.w.matrix().data,
                              .bias = part.bias.empty() ? nullptr : part.bias.data(),
                              .first_row = p.rows};
    p.rows += part.w.rows;
  }
  p.gain = op.gain.empty() ? nullptr : op.gain.data();
  p.eps = op.eps;
  return p;
}

// Few rows, of which each block of the products can afford to norm its own copy.
bool normed_in_products(const Project& op, const OpContext& context) {
  for (int i = 0; op.has(i); i++) {
    const kernel::Product p = stacked_product(op, i, i + 1);
    if (in_tiles(p, context) || !kernel::matvec_norms(p)) return false;
  }
  return true;
}

}  // namespace

size_t workspace_bytes(const Project& op, const OpContext& context) {
  size_t most = 0;
  for (int i = 0; op.has(i); i++) most = std::max(most, workspace_bytes(op.product(i), context));
  return most;
}

void run(const Project& op, const OpContext& context) {
  if (!normed_in_products(op, context)) {
    if (!op.gain.empty()) run(op.norm(), context);
    for (int i = 0; op.has(i); i++) run(op.product(i), context);
    return;
  }
  for (int first = 0, end = 0; op.has(first); first = end) {
    while (op.has(end) && continues(op, first, end)) end++;
    run_product(stacked_product(op, first, end), context);
  }
}

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
