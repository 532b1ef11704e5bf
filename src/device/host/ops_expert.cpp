#include <cstring>

#include "device/host/expert_ffn.h"
#include "device/host/host_ops.h"

namespace strata::device::host {
namespace {

// Experts in the slots of the device.
class SlotPlaces final : public ExpertPlaces {
 public:
  SlotPlaces(const ExpertFfn& op, const PairGroups& groups) : op_(op), groups_(groups) {}
  PlacedExpert expert(int64_t group) const override {
    const int32_t slot = op_.slot_of.data()[groups_.experts[group]];
    return placed(op_.blob, op_.slots.memory->address() + op_.slots.offsets.data()[slot]);
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
}

void run(const MergeExpertRows& op, Compute& compute) {
  const int64_t k = op.ids.cols;
  compute.pool().for_each(op.live.data()[0] * k, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; p++) {
      if (op.slot_of.data()[op.ids.row(p / k)[p % k]] >= 0) continue;
      std::memcpy(op.y.row(p), op.x.row(p), static_cast<size_t>(op.x.cols) * sizeof(float));
    }
  });
}

}  // namespace strata::device::host
