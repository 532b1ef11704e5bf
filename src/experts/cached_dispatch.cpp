// One chain within a layer:
//
//   device: share out, tell the host -> guess the next -> fetch linked ones -> they, and those in slots -> wait -> sum
//   host:                           \-> compute the others ---------------------------------------------->/
//                                                         \-> read ahead, until the next layer is told
//
// Which pair is computed where the device decides, from the cache's table as it is then, and tells the host, so both
// sides agree whatever the host has planned meanwhile. What goes from one side to the other (ids, inputs, output rows)
// kernels write and read in the host's memory, without copies between them. All buffers are fixed: a captured chain
// serves every step of its shape. The layers share them, since each layer's chain ends before the next one begins.
#include "experts/cached_dispatch.h"

#include "experts/cache.h"
#include "experts/device_rows.h"
#include "experts/guessed_experts.h"
#include "experts/host_experts.h"
#include "experts/linked_experts.h"
#include "experts/routing_copy.h"
#include "experts/streamed_dispatch.h"

namespace strata::experts {
namespace {

using device::In;
using device::InOut;
using device::MemoryKind;
using device::View;

size_t float_bytes(int64_t n) { return static_cast<size_t>(n) * sizeof(float); }
size_t places_bytes(const DispatchLimits& limits) { return static_cast<size_t>(limits.n_experts) * sizeof(int32_t); }

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
    ASSIGN_OR_RETURN(linked_, LinkedExperts::create(spec_));
    ASSIGN_OR_RETURN(guessed_, GuessedExperts::create(spec_));
    ASSIGN_OR_RETURN(place_of_, device.allocate(places_bytes(limits_), "places of experts"));
    tasks_.resize(spec_.layout.layers().size());
    if (spec_.ring.empty()) return {};
    ASSIGN_OR_RETURN(streamed_, StreamedDispatch::create(spec_, *rows_, *routing_));
    return {};
  }

  void run(device::Stream& stream, int32_t layer, const In<int32_t>& ids, const In<float>& weights, const In<float>& x,
           const InOut<float>& y, const In<int32_t>& live, const ExpertFormula& formula,
           const NextLayer* next) override {
    ASSERT(ids.stride == limits_.n_used && x.stride == limits_.dim);
    const LayerRows step{layer, ids, x, live, formula};
    const device::In<int32_t> places = share_out(stream, step);
    const device::Ticket ticket = stream.host_task(layer_task(layer, formula).task);
    if (next != nullptr) guessed_->enqueue(stream, *next, ids.rows);
    const bool computes = spec_.cache != nullptr || !linked_->empty();
    if (computes) {
      linked_->fetch(stream, layer, places);
      const device::ExpertSlots cached = spec_.cache == nullptr ? device::ExpertSlots{} : spec_.cache->slots();
      rows_->enqueue(stream, step, linked_->slots(layer, cached, step.pairs()), places);
    }
    stream.wait(ticket);
    const View<float> arrived = device::view_of<float>(*host_y_, step.pairs(), limits_.dim);
    device::Combine sum{.rows = arrived, .weights = weights, .ids = ids, .live = live, .x = y};
    if (computes) {
      sum.rows = rows_->outputs(step.pairs());
      sum.arrived = arrived;
      sum.slot_of = places;
    }
    stream.enqueue(sum);
  }

  bool asks_interrupt() const override { return true; }
  StreamedDispatch* streamed() override { return streamed_.get(); }

 private:
  struct LayerTask {
    device::HostTask task;
    int32_t layer;
    ExpertFormula formula;
  };

  // Where each expert of the layer is computed, on the device; the host is told.
  In<int32_t> share_out(device::Stream& stream, const LayerRows& step) const {
    const View<int32_t> places =
        device::view_of<int32_t>(*place_of_, 1, spec_.layout.layer(step.layer).n_experts);
    device::ShareExperts op{.ids = step.ids,
                            .x = step.x,
                            .live = step.live,
                            .slot_of = {},
                            .linked = {},
                            .share = {},
                            .place_of = places,
                            .told_live = routing_->live(),
                            .told_ids = routing_->ids(step.ids.rows),
                            .told_places = routing_->places(step.layer),
                            .told_x = device::view_of<float>(*host_x_, step.x.rows, limits_.dim)};
    if (spec_.cache != nullptr) op.slot_of = spec_.cache->slot_of(step.layer);
    if (!linked_->empty()) {
      op.linked = linked_->addresses(step.layer);
      op.share = linked_->shares().columns(0, places.cols + 1);
    }
    stream.enqueue(op);
    return places;
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
    guessed_->layer_begins(task.layer, routing.n_rows(), routing.all_ids(), routing.places());
    if (spec_.interrupt) RETURN_IF_ERROR(spec_.interrupt());
    routing.count();
    return experts_->compute({.layer = task.layer,
                              .formula = task.formula,
                              .n_rows = routing.n_rows(),
                              .ids = routing.ids(),
                              .x = device::view_of<float>(*host_x_, routing.n_rows(), limits_.dim),
                              .y = device::view_of<float>(*host_y_, limits_.pairs(), limits_.dim),
                              .slot_of = routing.places().data()});
  }

  DispatchSpec spec_;
  DispatchLimits limits_;
  std::unique_ptr<HostExperts> experts_;
  std::unique_ptr<RoutingCopy> routing_;
  std::unique_ptr<device::HostBuffer> host_x_;  // pinned [max_rows][dim]
  std::unique_ptr<device::HostBuffer> host_y_;  // pinned [pairs][dim]; row = token * k + rank
  std::unique_ptr<DeviceRows> rows_;
  std::unique_ptr<LinkedExperts> linked_;
  std::unique_ptr<GuessedExperts> guessed_;
  std::unique_ptr<device::Buffer> place_of_;  // int32 [n_experts] slot, kLinkedPlace, or -1 for the host's
  std::vector<std::unique_ptr<LayerTask>> tasks_;
  std::unique_ptr<StreamedDispatch> streamed_;
};

}  // namespace

DispatchBytes cached_dispatch_bytes(const DispatchLimits& limits) {
  const int64_t host_rows = (limits.max_rows + limits.pairs()) * limits.dim;
  return {.device =
              DeviceRows::bytes_needed(limits) + LinkedExperts::bytes_needed(limits).device + places_bytes(limits),
          .host = HostExperts::bytes_needed(limits) + RoutingCopy::bytes_needed(limits) +
                  GuessedExperts::bytes_needed(limits) + float_bytes(host_rows)};
}

Result<std::unique_ptr<Dispatch>> make_cached_dispatch(const DispatchSpec& spec) {
  auto dispatch = std::make_unique<CachedDispatch>(spec);
  RETURN_IF_ERROR(dispatch->allocate());
  return std::unique_ptr<Dispatch>(std::move(dispatch));
}

}  // namespace strata::experts
