// The feed-forward networks of the experts in the slots of a CUDA device.
#include <algorithm>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_product.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/experts.h"

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
  const ExpertSlots& slots = op.slots;
  p.experts = {.memory = slots.memory == nullptr ? nullptr : reinterpret_cast<const uint8_t*>(slots.memory->address()),
               .offsets = slots.memory == nullptr ? nullptr : slots.offsets.data(),
               .n_slots = slots.memory == nullptr ? 0 : slots.offsets.cols,
               .slot_of = op.slot_of.data(),
               .linked_at = slots.linked.empty() ? nullptr : slots.linked_at.data(),
               .fetched = slots.fetched,
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

namespace {

kernel::ExpertLaunch launch_of(const OpContext& context) {
  return {context.n_sms, context.max_shared_bytes, context.stream};
}

// The hidden rows; whether it were the kernels of experts.h.
bool run_hidden(const ExpertFfn& op, const OpContext& context) {
  const kernel::Product gate = hidden_of(op, op.blob.gate);
  const bool tiles = in_tiles(gate, context);
  if (tiles) kernel::launch_sort_pairs(gate, context.stream);
  if (op.blob.gate.type != op.blob.up.type || tiles) {
    kernel::Product up = hidden_of(op, op.blob.up);
    up.finish = kernel::Finish::kActivateOut;
    run_product(gate, context);
    run_product(up, context);
    return false;
  }
  // Both products of a pair's row meet in one thread.
  kernel::Product both = gate;
  both.parts[1] = part_of(op.blob.up);
  both.n_parts = 2;
  both.finish = kernel::Finish::kActivate;
  if (kernel::launch_expert_hidden(both, launch_of(context))) return true;
  run_product(both, context);
  return false;
}

void add_sum(const ExpertFfn& op, const OpContext& context) {
  kernel::launch_combine({.pairs = op.y.data(),
                          .pairs_stride = op.y.stride,
                          .weights = op.weights.data(),
                          .weights_stride = op.weights.stride,
                          .k = static_cast<int>(op.ids.cols),
                          .x = op.sum.data(),
                          .x_stride = op.sum.stride,
                          .cols = op.sum.cols,
                          .slot_of = op.slot_of.data(),
                          .ids = op.ids.data(),
                          .ids_stride = op.ids.stride},
                         {op.live.data(), op.ids.rows}, context.stream);
}

}  // namespace

void run(const ExpertFfn& op, const OpContext& context) {
  const bool after_hidden = run_hidden(op, context);
  const kernel::Product down = down_of(op);
  kernel::ExpertSum sum;
  if (!op.weights.empty()) {
    sum = {.weights = op.weights.data(),
           .weights_stride = op.weights.stride,
           .x = op.sum.data(),
           .x_stride = op.sum.stride};
  }
  const bool few = !in_tiles(down, context);
  if (few && kernel::launch_expert_down(down, sum, after_hidden, launch_of(context))) return;
  run_product(down, context);
  if (!op.weights.empty()) add_sum(op, context);
}

}  // namespace strata::device::cuda
