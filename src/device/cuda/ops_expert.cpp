// The feed-forward networks of the experts in the slots of a CUDA device.
#include <algorithm>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_product.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

namespace {

kernel::Part part_of(const ExpertMatrix& m) {
  return {.type = m.type,
          .offset = static_cast<int64_t>(m.offset),
          .row_bytes = m.row_bytes,
          .bias_offset = m.bias_offset,
          .scale_offset = m.scale_offset};
}

// A product of the op's pairs with one matrix of their experts.
kernel::Product product_of(const ExpertFfn& op, const ExpertMatrix& m) {
  kernel::Product p;
  p.parts[0] = part_of(m);
  p.rows = m.rows;
  p.cols = m.cols;
  p.experts = {.memory = reinterpret_cast<const uint8_t*>(op.slots.memory->address()),
               .offsets = op.slots.offsets.data(),
               .slot_of = op.slot_of.data(),
               .ids = op.ids.data(),
               .ids_stride = op.ids.stride,
               .k = static_cast<int>(op.ids.cols)};
  p.n_experts = op.slot_of.cols;
  p.live = op.live.data();
  p.per_live = static_cast<int>(op.ids.cols);
  p.max_items = op.ids.rows * op.ids.cols;
  p.order = op.groups.data();
  if (op.formula.round_activations) p.format = kernels::act_format(m.type);
  const bool clamped = op.formula.activation == ExpertFormula::Activation::kSwigluClamped;
  p.activation = clamped ? kernel::Activation::kSwigluClamped : kernel::Activation::kSiluMul;
  p.alpha = op.formula.alpha;
  p.limit = op.formula.limit;
  return p;
}

kernel::Product hidden_of(const ExpertFfn& op, const ExpertMatrix& m) {
  kernel::Product p = product_of(op, m);
  p.x = op.x.data();
  p.x_stride = op.x.stride;
  p.x_share = p.per_live;
  p.y = op.hidden.data();
  p.y_stride = op.hidden.stride;
  return p;
}

kernel::Product down_of(const ExpertFfn& op) {
  kernel::Product p = product_of(op, op.blob.down);
  p.x = op.hidden.data();
  p.x_stride = op.hidden.stride;
  p.y = op.y.data();
  p.y_stride = op.y.stride;
  return p;
}

}  // namespace

size_t workspace_bytes(const ExpertFfn& op, const OpContext& context) {
  size_t most = product_workspace(down_of(op), context);
  for (const ExpertMatrix* m : {&op.blob.gate, &op.blob.up}) {
    most = std::max(most, product_workspace(hidden_of(op, *m), context));
  }
  return most;
}

void run(const ExpertFfn& op, const OpContext& context) {
  const kernel::Product gate = hidden_of(op, op.blob.gate);
  kernel::Product up = hidden_of(op, op.blob.up);
  if (in_tiles(gate, context)) kernel::launch_sort_pairs(gate, context.stream);
  if (op.blob.gate.type == op.blob.up.type && !in_tiles(gate, context)) {
    // Both products of a pair's row meet in one thread.
    kernel::Product both = gate;
    both.parts[1] = part_of(op.blob.up);
    both.n_parts = 2;
    both.finish = kernel::Finish::kActivate;
    run_product(both, context);
  } else {
    run_product(gate, context);
    up.finish = kernel::Finish::kActivateOut;
    run_product(up, context);
  }
  run_product(down_of(op), context);
}

}  // namespace strata::device::cuda
