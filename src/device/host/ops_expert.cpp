#include "device/host/expert_ffn.h"
#include "device/host/host_ops.h"
#include "device/host/pair_rows.h"

namespace strata::device::host {
namespace {

// Experts in the slots of the device.
class SlotPlaces final : public ExpertPlaces {
 public:
  SlotPlaces(const ExpertFfn& op, const PairGroups& groups) : op_(op), groups_(groups) {}
  PlacedExpert expert(int64_t group) const override {
    const int32_t expert = groups_.experts[group];
    const int32_t slot = op_.slot_of.data()[expert];
    const ExpertSlots& slots = op_.slots;
    const std::byte* at = slot == kLinkedPlace ? reinterpret_cast<const std::byte*>(slots.linked_at.data()[expert])
                                               : slots.memory->address() + slots.offsets.data()[slot];
    return placed(op_.blob, at);
  }

 private:
  const ExpertFfn& op_;
  const PairGroups& groups_;
};

}  // namespace

int64_t scratch_floats(const ExpertFfn& op) { return expert_scratch(op.x.cols, op.hidden.cols); }

void run(const ExpertFfn& op, Compute& compute) {
  if (op.live.data()[0] == 0) return;
  const int64_t n_experts = op.slot_of.cols;
  PairGroups groups(op.groups.data(), op.ids.rows * op.ids.cols, n_experts);
  groups.sort(op.ids, op.live.data()[0], n_experts, op.slot_of.data(), true);
  const SlotPlaces places(op, groups);
  compute_experts(compute, {.groups = groups,
                            .places = places,
                            .formula = op.formula,
                            .k = op.ids.cols,
                            .ffn = op.hidden.cols,
                            .x = op.x,
                            .inputs = op.inputs,
                            .hidden = op.hidden,
                            .y = op.y});
  if (op.weights.empty()) return;
  add_pair_rows(compute, op.weights, op.live, op.sum, [&](int64_t pair) -> const float* {
    const int32_t expert = op.ids.row(pair / op.ids.cols)[pair % op.ids.cols];
    return op.slot_of.data()[expert] < 0 ? nullptr : op.y.row(pair);
  });
}

}  // namespace strata::device::host
