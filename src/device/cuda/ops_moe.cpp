// Routing, the experts in the slots of a CUDA device, and the sum over experts.
#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_product.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/norm_route.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

namespace {

// From this many rows on the products come in tiles.
constexpr int64_t kFewRows = 8;

View<float> multiplied(const Router& op) { return op.gain.empty() ? View<float>(op.x) : View<float>(op.normed); }

kernel::Product logits_of(const Router& op) { return product_of(op.w, multiplied(op), op.bias, op.live, op.logits); }

kernel::RmsNormArgs norm_of(const Router& op) {
  return {.x = op.x.data(),
          .x_stride = op.x.stride,
          .gain = op.gain.data(),
          .y = op.normed.data(),
          .y_stride = op.normed.stride,
          .cols = op.x.cols,
          .eps = op.eps};
}

kernel::RouteArgs route_of(const Router& op) {
  return {.params = op.params,
          .logits = op.logits.data(),
          .logits_stride = op.logits.stride,
          .selection_bias = op.selection_bias.empty() ? nullptr : op.selection_bias.data(),
          .ids = op.ids.data(),
          .ids_stride = op.ids.stride,
          .weights = op.weights.data(),
          .weights_stride = op.weights.stride};
}

// Norm, logits and choice in one kernel, for few rows and plain weights. Whether it was possible.
bool run_at_once(const Router& op, const OpContext& context) {
  if (op.gain.empty() || op.x.rows > kFewRows || context.deterministic || op.w.type != quant::Type::F32) return false;
  const kernel::NormRouteArgs args{.norm = norm_of(op),
                                   .weights = reinterpret_cast<const float*>(op.w.matrix().data),
                                   .bias = op.bias.empty() ? nullptr : op.bias.data(),
                                   .route = route_of(op)};
  if (!kernel::norm_route_fits(args)) return false;
  kernel::launch_norm_route(args, {op.live.data(), op.x.rows}, context.stream);
  return true;
}

}  // namespace

size_t workspace_bytes(const Router& op, const OpContext& context) { return product_workspace(logits_of(op), context); }

void run(const Router& op, const OpContext& context) {
  ASSERT(op.params.n_experts <= kernel::kMaxRouted);
  if (run_at_once(op, context)) return;
  if (!op.gain.empty()) kernel::launch_rms_norm(norm_of(op), {op.live.data(), op.x.rows}, context.stream);
  run_product(logits_of(op), context);
  kernel::launch_route(route_of(op), {op.live.data(), op.x.rows}, context.stream);
}

void run(const Combine& op, const OpContext& context) {
  kernel::CombineArgs args{.pairs = op.rows.data(),
                           .pairs_stride = op.rows.stride,
                           .weights = op.weights.data(),
                           .weights_stride = op.weights.stride,
                           .k = static_cast<int>(op.weights.cols),
                           .x = op.x.data(),
                           .x_stride = op.x.stride,
                           .cols = op.x.cols};
  if (!op.arrived.empty()) {
    args.slot_of = op.slot_of.data();
    args.ids = op.ids.data();
    args.ids_stride = op.ids.stride;
    args.arrived = op.arrived.data();
    args.arrived_stride = op.arrived.stride;
  }
  kernel::launch_combine(args, {op.live.data(), op.x.rows}, context.stream);
}

}  // namespace strata::device::cuda
