#include "experts/host_dispatch.h"

#include <array>

#include "experts/host_experts.h"
#include "experts/routing.h"

namespace strata::experts {
namespace {

using device::In;
using device::InOut;
using device::View;

class HostDispatch final : public Dispatch {
 public:
  explicit HostDispatch(const DispatchSpec& spec)
      : limits_(spec.limits), source_(spec.source), observer_(spec.observer) {}

  Status allocate(const DispatchSpec& spec) {
    ASSIGN_OR_RETURN(experts_, HostExperts::create(spec));
    ASSIGN_OR_RETURN(rows_, spec.device.allocate(static_cast<size_t>(limits_.pairs() * limits_.dim) * sizeof(float),
                                                 "expert output rows"));
    tasks_.resize(spec.layout.layers().size());
    hints_.resize(spec.layout.layers().size());
    keys_.reserve(static_cast<size_t>(limits_.pairs()));
    return {};
  }

  void run(device::Stream& stream, int32_t layer, const In<int32_t>& ids, const In<float>& weights, const In<float>& x,
           const InOut<float>& y, const In<int32_t>& live, const ExpertFormula& formula,
           const NextLayer*) override {
    LayerTask& task = layer_task(layer, ids, x, live, formula);
    stream.wait(stream.host_task(task.task));
    stream.enqueue(device::Combine{
        .rows = rows().first_rows(x.rows * limits_.n_used), .weights = weights, .ids = ids, .live = live, .x = y});
  }

  void hint(device::Stream& stream, int32_t layer, HintKind kind, const In<int32_t>& ids,
            const In<int32_t>& live) override {
    stream.wait(stream.host_task(hint_task(layer, kind, ids, live).task));
  }

 private:
  struct HintTask {
    device::HostTask task;
    int32_t layer;
    HintKind kind;
    In<int32_t> ids;
    In<int32_t> live;
  };

  HintTask& hint_task(int32_t layer, HintKind kind, const In<int32_t>& ids, const In<int32_t>& live) {
    std::unique_ptr<HintTask>& slot = hints_[static_cast<size_t>(layer)][static_cast<size_t>(kind)];
    if (slot) {
      ASSERT(slot->ids.memory == ids.memory && slot->ids.offset == ids.offset && slot->ids.stride == ids.stride);
      return *slot;
    }
    slot = std::make_unique<HintTask>(HintTask{{}, layer, kind, ids, live});
    HintTask* hint = slot.get();
    hint->ids.rows = limits_.max_rows;  // the task serves every bucket
    hint->task = {.name = "expert hint",
                  .run = [this, hint] { return give_hint(*hint); },
                  .ranges = {hint->ids.range(false), live.range(false)}};
    return *hint;
  }

  // Most of a guess is right down to the middle of the ranking. Below it an expert is read ahead only where the drive
  // would have nothing to do while this layer is computed.
  Status give_hint(const HintTask& hint) {
    const auto k = static_cast<int>(hint.ids.cols);
    if (hint.kind == HintKind::kCertain) {
      hint_ranks(hint, 0, k);
      return {};
    }
    size_t n_read = hint_ranks(hint, 0, (k + 1) / 2);
    for (int rank = (k + 1) / 2; rank < k && n_read == 0; rank++) n_read = hint_ranks(hint, rank, rank + 1);
    return {};
  }
  size_t hint_ranks(const HintTask& hint, int first, int last) {
    keys_.clear();
    for (int64_t r = 0; r < hint.live.data()[0]; r++) {
      for (int rank = first; rank < last; rank++) keys_.push_back({hint.layer, hint.ids.row(r)[rank]});
    }
    return source_.hint(keys_, hint.kind);
  }

  struct LayerTask {
    device::HostTask task;
    int32_t layer;
    In<int32_t> ids;
    In<float> x;
    In<int32_t> live;
    ExpertFormula formula;
  };

  LayerTask& layer_task(int32_t layer, const In<int32_t>& ids, const In<float>& x, const In<int32_t>& live,
                        const ExpertFormula& formula) {
    std::unique_ptr<LayerTask>& slot = tasks_[static_cast<size_t>(layer)];
    if (slot) {
      ASSERT(slot->ids.memory == ids.memory && slot->ids.offset == ids.offset && slot->ids.stride == ids.stride);
      ASSERT(slot->x.memory == x.memory && slot->x.offset == x.offset && slot->x.stride == x.stride);
      return *slot;
    }
    slot = std::make_unique<LayerTask>(LayerTask{{}, layer, ids, x, live, formula});
    LayerTask* task = slot.get();
    task->ids.rows = task->x.rows = limits_.max_rows;  // the task serves every bucket
    task->task.name = "experts";
    task->task.run = [this, task] { return compute_layer(*task); };
    task->task.ranges = {task->ids.range(false), task->x.range(false), live.range(false), rows().range(true)};
    return *slot;
  }

  Status compute_layer(const LayerTask& task) {
    const int64_t n_rows = task.live.data()[0];
    if (observer_ != nullptr) observer_->routed(task.layer, task.ids.first_rows(n_rows));
    return experts_->compute({.layer = task.layer,
                              .formula = task.formula,
                              .n_rows = n_rows,
                              .ids = task.ids,
                              .x = task.x,
                              .y = rows(),
                              .slot_of = nullptr});
  }

  View<float> rows() const { return device::view_of<float>(*rows_, limits_.pairs(), limits_.dim); }

  DispatchLimits limits_;
  ExpertSource& source_;
  RoutingObserver* observer_;
  std::unique_ptr<HostExperts> experts_;
  std::unique_ptr<device::Buffer> rows_;  // [pairs][dim], row = token * k + rank
  std::vector<std::unique_ptr<LayerTask>> tasks_;
  std::vector<std::array<std::unique_ptr<HintTask>, 2>> hints_;  // [layers][kinds]
  std::vector<ExpertKey> keys_;
};

}  // namespace

DispatchBytes host_dispatch_bytes(const DispatchLimits& limits) {
  return {.device = static_cast<uint64_t>(limits.pairs() * limits.dim) * sizeof(float),
          .host = HostExperts::bytes_needed(limits)};
}

Result<std::unique_ptr<Dispatch>> make_host_dispatch(const DispatchSpec& spec) {
  ASSERT(spec.device.host_accessible());
  auto dispatch = std::make_unique<HostDispatch>(spec);
  RETURN_IF_ERROR(dispatch->allocate(spec));
  return std::unique_ptr<Dispatch>(std::move(dispatch));
}

}  // namespace strata::experts
