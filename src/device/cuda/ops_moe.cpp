// Routing, the experts in the slots of a CUDA device, and the sum over experts.
#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_product.h"
#include "kernels/cuda/route.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

namespace {

kernel::Product logits_of(const Router& op) { return product_of(op.w, op.x, op.bias, op.live, op.logits); }

}  // namespace

size_t workspace_bytes(const Router& op, const OpContext& context) { return product_workspace(logits_of(op), context); }

void run(const Router& op, const OpContext& context) {
  ASSERT(op.params.n_experts <= kernel::kMaxRouted);
  run_product(logits_of(op), context);
  kernel::launch_route({.params = op.params,
                        .logits = op.logits.data(),
                        .logits_stride = op.logits.stride,
                        .selection_bias = op.selection_bias.empty() ? nullptr : op.selection_bias.data(),
                        .ids = op.ids.data(),
                        .ids_stride = op.ids.stride,
                        .weights = op.weights.data(),
                        .weights_stride = op.weights.stride},
                       {op.live.data(), op.x.rows}, context.stream);
}

void run(const MergeExpertRows& op, const OpContext& context) {
  const int64_t k = op.ids.cols;
  kernel::launch_merge({.x = op.x.data(),
                        .x_stride = op.x.stride,
                        .ids = op.ids.data(),
                        .ids_stride = op.ids.stride,
                        .k = static_cast<int>(k),
                        .slot_of = op.slot_of.data(),
                        .y = op.y.data(),
                        .y_stride = op.y.stride,
                        .cols = op.x.cols},
                       {op.live.data(), op.ids.rows * k, static_cast<int>(k)}, context.stream);
}

void run(const Combine& op, const OpContext& context) {
  kernel::launch_combine({.pairs = op.rows.data(),
                          .pairs_stride = op.rows.stride,
                          .weights = op.weights.data(),
                          .weights_stride = op.weights.stride,
                          .k = static_cast<int>(op.weights.cols),
                          .x = op.x.data(),
                          .x_stride = op.x.stride,
                          .cols = op.x.cols},
                         {op.live.data(), op.x.rows}, context.stream);
}

}  // namespace strata::device::cuda
