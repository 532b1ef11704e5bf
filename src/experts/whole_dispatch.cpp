// A layer is nothing but its experts and their sum. What the host wants to know of the routing it learns after a step
// of few rows, from the ids of all layers, which stay on the device until then; so nothing stands between the kernels
// of such a step, nor does one of the host's threads behind it. Steps of many rows tell it layer by layer, like those
// of other dispatches:
//
//   device: copy ids out -> experts and their sum -> wait
//   host:               \-> count hits ------------->/
#include "experts/whole_dispatch.h"

#include <algorithm>
#include <vector>

#include "experts/cache.h"
#include "experts/device_rows.h"
#include "experts/routing.h"
#include "experts/routing_copy.h"

namespace strata::experts {
namespace {

using device::In;
using device::InOut;
using device::MemoryKind;
using device::View;

// Rows of a step whose ids stay on the device to its end.
int64_t kept_rows(const DispatchLimits& limits) { return std::min(limits.max_rows, kFewRows); }
size_t kept_bytes(const DispatchLimits& limits) {
  return static_cast<size_t>(limits.n_layers * kept_rows(limits) * limits.n_used) * sizeof(int32_t);
}

class WholeDispatch final : public Dispatch {
 public:
  explicit WholeDispatch(const DispatchSpec& spec) : spec_(spec), limits_(spec.limits) {
    ASSERT(spec.whole_cache);
    ASSERT(spec.ring.empty());
    ASSERT(limits_.n_layers >= static_cast<int64_t>(n_layers()));
  }

  Status allocate() {
    device::Device& device = spec_.device;
    ASSIGN_OR_RETURN(rows_, DeviceRows::create(device, spec_.layout, limits_));
    ASSIGN_OR_RETURN(routing_, RoutingCopy::create(spec_));
    ASSIGN_OR_RETURN(ids_, device.allocate(kept_bytes(limits_), "expert ids of all layers"));
    ASSIGN_OR_RETURN(told_ids_, device.allocate_host(kept_bytes(limits_), MemoryKind::kPinned, "expert ids"));
    layer_tasks_.resize(n_layers());
    is_run_.resize(n_layers());
    return {};
  }

  View<int32_t> own_ids(int32_t layer, int64_t rows) override {
    if (rows > kFewRows) return {};
    return ids_of(*ids_, layer, rows);
  }

  bool host_takes_part(int64_t rows) const override { return rows > kFewRows; }

  void run(device::Stream& stream, int32_t layer, const In<int32_t>& ids, const In<float>& weights, const In<float>& x,
           const InOut<float>& y, const In<int32_t>& live, const ExpertFormula& formula,
           const NextLayer*) override {
    const LayerRows rows{
        .layer = layer, .ids = ids, .x = x, .live = live, .formula = formula, .weights = weights, .sum = y};
    if (!host_takes_part(ids.rows)) {
      ASSERT(ids.memory == ids_.get());
      // All of them are captured before any step ends.
      if (!is_run_[static_cast<size_t>(layer)]) is_run_[static_cast<size_t>(layer)] = true;
      return enqueue(stream, rows);
    }
    ASSERT(ids.stride == limits_.n_used);
    routing_->copy_out(stream, layer, ids, live);
    const device::Ticket counted = stream.host_task(layer_task(layer));
    enqueue(stream, rows);
    stream.wait(counted);  // the next layer's routing goes where this one's is read
  }

  void finish(device::Stream& stream, int64_t rows) override {
    if (host_takes_part(rows) || spec_.observer == nullptr) return;
    stream.copy(*told_ids_, 0, *ids_, 0, n_ids(rows) * sizeof(int32_t));
  }

  void step_done(int64_t rows, int64_t live) override {
    if (host_takes_part(rows)) return;
    const auto n_run = std::count(is_run_.begin(), is_run_.end(), true);
    spec_.stats.add(Counter::kCacheHits, n_run * live * limits_.n_used);
    if (spec_.observer == nullptr) return;
    [[maybe_unused]] const auto ids = told_ids_->read<int32_t>(0, n_ids(rows));
    for (size_t layer = 0; layer < n_layers(); layer++) {
      if (!is_run_[layer]) continue;
      const auto number = static_cast<int32_t>(layer);
      spec_.observer->routed(number, ids_of(*told_ids_, number, rows).first_rows(live));
    }
  }

 private:
  size_t n_layers() const { return spec_.layout.layers().size(); }
  size_t n_ids(int64_t rows) const { return n_layers() * static_cast<size_t>(rows * limits_.n_used); }
  View<int32_t> ids_of(device::Memory& memory, int32_t layer, int64_t rows) const {
    const auto offset = static_cast<size_t>(layer * rows * limits_.n_used) * sizeof(int32_t);
    return device::view_of<int32_t>(memory, rows, limits_.n_used, offset);
  }

  void enqueue(device::Stream& stream, const LayerRows& rows) const {
    rows_->enqueue(stream, rows, spec_.cache->slots(), spec_.cache->slot_of(rows.layer));
  }

  const device::HostTask& layer_task(int32_t layer) {
    std::unique_ptr<device::HostTask>& task = layer_tasks_[static_cast<size_t>(layer)];
    if (!task) {
      task = std::make_unique<device::HostTask>(device::HostTask{.name = "count hits",
                                                                 .run = [this, layer]() -> Status {
                                                                   RoutingCopy::Reading(*routing_, layer).count();
                                                                   return {};
                                                                 },
                                                                 .ranges = routing_->ranges()});
    }
    return *task;
  }

  DispatchSpec spec_;
  DispatchLimits limits_;
  std::unique_ptr<DeviceRows> rows_;
  std::unique_ptr<RoutingCopy> routing_;                        // of steps of many rows
  std::unique_ptr<device::Buffer> ids_;                         // int32 [layers][rows][k], for whatever rows a step has
  std::unique_ptr<device::HostBuffer> told_ids_;                // the same
  std::vector<bool> is_run_;                                    // [layers] in steps of few rows
  std::vector<std::unique_ptr<device::HostTask>> layer_tasks_;  // [layers]
};

}  // namespace

DispatchBytes whole_dispatch_bytes(const DispatchLimits& limits) {
  return {.device = DeviceRows::bytes_needed(limits) + kept_bytes(limits),
          .host = RoutingCopy::bytes_needed(limits) + kept_bytes(limits)};
}

Result<std::unique_ptr<Dispatch>> make_whole_dispatch(const DispatchSpec& spec) {
  auto dispatch = std::make_unique<WholeDispatch>(spec);
  RETURN_IF_ERROR(dispatch->allocate());
  return std::unique_ptr<Dispatch>(std::move(dispatch));
}

}  // namespace strata::experts
