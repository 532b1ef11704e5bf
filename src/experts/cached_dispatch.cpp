// One chain within a layer:
//
//   device: copy ids, inputs and the table's row out -> experts in slots -> wait -> copy rows up -> merge -> combine
//   host:                                          \-> the other experts ->/
//
// Where the cache has all experts, and keeps them, the host has no part in it but to count:
//
//   device: copy ids out -> experts in slots -> combine -> wait
//   host:               \-> count hits ------------------->/
//
// Which pair is computed where follows from the table's row that was copied out, so both sides agree whatever the host
// has planned meanwhile. All buffers are fixed: a captured chain serves every step of its shape. The layers share them,
// since each layer's chain ends before the next one begins.
#include "experts/cached_dispatch.h"

#include "experts/cache.h"
#include "experts/device_rows.h"
#include "experts/host_experts.h"
#include "experts/routing_copy.h"
#include "experts/streamed_dispatch.h"

namespace strata::experts {
namespace {

using device::In;
using device::InOut;
using device::MemoryKind;
using device::View;

size_t float_bytes(int64_t n) { return static_cast<size_t>(n) * sizeof(float); }

class CachedDispatch final : public Dispatch {
 public:
  explicit CachedDispatch(const DispatchSpec& spec) : spec_(spec), limits_(spec.limits) {}

  Status allocate() {
    device::Device& device = spec_.device;
    ASSIGN_OR_RETURN(experts_, HostExperts::create(spec_));
    ASSIGN_OR_RETURN(routing_, RoutingCopy::create(spec_));
    ASSIGN_OR_RETURN(host_x_, device.allocate_host(float_bytes(limits_.max_rows * limits_.dim), MemoryKind::kPinned,
                                                   "expert inputs"));
    ASSIGN_OR_RETURN(host_y_, device.allocate_host(float_bytes(limits_.pairs() * limits_.dim), MemoryKind::kPinned,
                                                   "expert output rows"));
    ASSIGN_OR_RETURN(rows_, DeviceRows::create(device, spec_.layout, limits_));
    tasks_.resize(spec_.layout.layers().size());
    if (spec_.ring.empty()) return {};
    ASSIGN_OR_RETURN(streamed_, StreamedDispatch::create(spec_, *rows_, *routing_));
    return {};
  }

  void run(device::Stream& stream, int32_t layer, const In<int32_t>& ids, const In<float>& weights, const In<float>& x,
           const InOut<float>& y, const In<int32_t>& live, const ExpertFormula& formula) override {
    ASSERT(ids.stride == limits_.n_used && x.stride == limits_.dim);
    const LayerRows step{layer, ids, x, live, formula};
    routing_->copy_out(stream, layer, ids, live);
    if (spec_.whole_cache) {
      const device::Ticket counted = stream.host_task(count_task(layer));
      rows_->enqueue(stream, step, spec_.cache->slots(), spec_.cache->slot_of(layer));
      stream.enqueue(device::Combine{
          .rows = rows_->outputs(step.pairs()), .weights = weights, .ids = ids, .live = live, .x = y});
      return stream.wait(counted);  // the next layer's routing goes where this one's is read
    }
    stream.copy(*host_x_, 0, *x.memory, x.offset, float_bytes(x.rows * x.cols));
    const device::Ticket ticket = stream.host_task(layer_task(layer, formula).task);
    if (spec_.cache != nullptr) rows_->enqueue(stream, step, spec_.cache->slots(), spec_.cache->slot_of(layer));
    stream.wait(ticket);
    const View<float> arrived = rows_->arrivals(step.pairs());
    stream.copy(*arrived.memory, arrived.offset, *host_y_, 0, float_bytes(step.pairs() * limits_.dim));
    View<float> rows = arrived;
    if (spec_.cache != nullptr) {
      rows = rows_->outputs(step.pairs());
      stream.enqueue(device::MergeExpertRows{
          .x = arrived, .ids = ids, .live = live, .slot_of = spec_.cache->slot_of(layer), .y = rows});
    }
    stream.enqueue(device::Combine{.rows = rows, .weights = weights, .ids = ids, .live = live, .x = y});
  }

  StreamedDispatch* streamed() override { return streamed_.get(); }

 private:
  struct LayerTask {
    device::HostTask task;
    int32_t layer;
    ExpertFormula formula;
  };

  const device::HostTask& count_task(int32_t layer) {
    std::unique_ptr<LayerTask>& slot = tasks_[static_cast<size_t>(layer)];
    if (slot) return slot->task;
    slot = std::make_unique<LayerTask>(LayerTask{{}, layer, {}});
    slot->task = {.name = "count hits",
                  .run = [this, layer]() -> Status {
                    RoutingCopy::Reading(*routing_, layer).count();
                    return {};
                  },
                  .ranges = routing_->ranges()};
    return slot->task;
  }

  LayerTask& layer_task(int32_t layer, const ExpertFormula& formula) {
    std::unique_ptr<LayerTask>& slot = tasks_[static_cast<size_t>(layer)];
    if (slot) return *slot;
    slot = std::make_unique<LayerTask>(LayerTask{{}, layer, formula});
    LayerTask* task = slot.get();
    task->task.name = "experts";
    task->task.run = [this, task] { return compute_layer(*task); };
    task->task.ranges = routing_->ranges();
    const auto whole = [](const device::HostBuffer& b, bool write) {
      return device::Range{&b, 0, b.bytes(), 1, b.bytes(), write};
    };
    task->task.ranges.push_back(whole(*host_x_, false));
    task->task.ranges.push_back(whole(*host_y_, true));
    return *slot;
  }

  Status compute_layer(const LayerTask& task) {
    const RoutingCopy::Reading routing(*routing_, task.layer);
    const auto n_pairs = static_cast<size_t>(routing.n_rows() * limits_.n_used);
    const auto x = host_x_->read<float>(0, static_cast<size_t>(routing.n_rows() * limits_.dim));
    const auto y = host_y_->write<float>(0, n_pairs * static_cast<size_t>(limits_.dim));
    routing.count();
    return experts_->compute({.layer = task.layer,
                              .formula = task.formula,
                              .n_rows = routing.n_rows(),
                              .ids = routing.ids(),
                              .x = device::view_of<float>(*host_x_, routing.n_rows(), limits_.dim),
                              .y = device::view_of<float>(*host_y_, limits_.pairs(), limits_.dim),
                              .slot_of = routing.slot_of()});
  }

  DispatchSpec spec_;
  DispatchLimits limits_;
  std::unique_ptr<HostExperts> experts_;
  std::unique_ptr<RoutingCopy> routing_;
  std::unique_ptr<device::HostBuffer> host_x_;  // pinned [max_rows][dim]
  std::unique_ptr<device::HostBuffer> host_y_;  // pinned [pairs][dim]; row = token * k + rank
  std::unique_ptr<DeviceRows> rows_;
  std::vector<std::unique_ptr<LayerTask>> tasks_;
  std::unique_ptr<StreamedDispatch> streamed_;
};

}  // namespace

DispatchBytes cached_dispatch_bytes(const DispatchLimits& limits) {
  const int64_t host_rows = (limits.max_rows + limits.pairs()) * limits.dim;
  return {.device = DeviceRows::bytes_needed(limits),
          .host = HostExperts::bytes_needed(limits) + RoutingCopy::bytes_needed(limits) + float_bytes(host_rows)};
}

Result<std::unique_ptr<Dispatch>> make_cached_dispatch(const DispatchSpec& spec) {
  auto dispatch = std::make_unique<CachedDispatch>(spec);
  RETURN_IF_ERROR(dispatch->allocate());
  return std::unique_ptr<Dispatch>(std::move(dispatch));
}

}  // namespace strata::experts
