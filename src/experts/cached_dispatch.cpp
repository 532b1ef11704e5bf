// One chain within a layer:
//
//   device: copy ids, inputs and the table's row out -> experts in slots -> wait -> copy rows up -> merge -> combine
//   host:                                          \-> the other experts ->/
//
// Which pair is computed where follows from the table's row that was copied out, so both sides agree whatever the host
// has planned meanwhile. All buffers are fixed: a captured chain serves every step of its shape. The layers share them,
// since each layer's chain ends before the next one begins.
#include "experts/cached_dispatch.h"

#include "experts/blob.h"
#include "experts/cache.h"
#include "experts/host_experts.h"

namespace strata::experts {
namespace {

using device::In;
using device::InOut;
using device::MemoryKind;
using device::View;

size_t float_bytes(int64_t n) { return static_cast<size_t>(n) * sizeof(float); }
size_t int_bytes(int64_t n) { return static_cast<size_t>(n) * sizeof(int32_t); }

class CachedDispatch final : public Dispatch {
 public:
  explicit CachedDispatch(const DispatchSpec& spec) : spec_(spec), limits_(spec.limits) {}

  Status allocate() {
    device::Device& device = spec_.device;
    ASSIGN_OR_RETURN(experts_,
                     HostExperts::create(device, spec_.compute, spec_.source, spec_.layout, limits_, spec_.stats));
    const auto pinned = [&](std::unique_ptr<device::HostBuffer>& buffer, size_t bytes, const char* name) -> Status {
      ASSIGN_OR_RETURN(buffer, device.allocate_host(bytes, MemoryKind::kPinned, name));
      return {};
    };
    RETURN_IF_ERROR(pinned(host_.live, int_bytes(1), "live rows"));
    RETURN_IF_ERROR(pinned(host_.ids, int_bytes(limits_.pairs()), "expert ids"));
    RETURN_IF_ERROR(pinned(host_.slot_of, int_bytes(limits_.n_experts), "cached experts"));
    RETURN_IF_ERROR(pinned(host_.x, float_bytes(limits_.max_rows * limits_.dim), "expert inputs"));
    RETURN_IF_ERROR(pinned(host_.y, float_bytes(limits_.pairs() * limits_.dim), "expert output rows"));
    const auto buffer = [&](std::unique_ptr<device::Buffer>& to, size_t bytes, const char* name) -> Status {
      ASSIGN_OR_RETURN(to, device.allocate(bytes, name));
      return {};
    };
    RETURN_IF_ERROR(
        buffer(moved_, float_bytes(limits_.pairs() * limits_.input_cols()), "expert inputs and output rows"));
    RETURN_IF_ERROR(buffer(rows_, float_bytes(limits_.pairs() * limits_.dim), "expert output rows"));
    RETURN_IF_ERROR(buffer(hidden_, float_bytes(limits_.pairs() * limits_.ffn), "expert hidden rows"));
    RETURN_IF_ERROR(buffer(groups_, int_bytes(group_ints(limits_)), "expert groups"));
    if (spec_.cache == nullptr) mark_all_missing();
    tasks_.resize(spec_.layout.layers().size());
    return {};
  }

  void run(device::Stream& stream, int32_t layer, const In<int32_t>& ids, const In<float>& weights, const In<float>& x,
           const InOut<float>& y, const In<int32_t>& live, const ExpertFormula& formula) override {
    ASSERT(ids.stride == limits_.n_used && x.stride == limits_.dim);
    const int64_t pairs = x.rows * limits_.n_used;
    copy_out(stream, layer, ids, x, live);
    const device::Ticket ticket = stream.host_task(layer_task(layer, formula).task);
    if (spec_.cache != nullptr) enqueue_cached(stream, layer, ids, x, live, formula);
    stream.wait(ticket);
    stream.copy(*moved_, 0, *host_.y, 0, float_bytes(pairs * limits_.dim));
    const View<float> arrived = pair_rows(*moved_, limits_.dim).first_rows(pairs);
    View<float> rows = arrived;
    if (spec_.cache != nullptr) {
      rows = pair_rows(*rows_, limits_.dim).first_rows(pairs);
      stream.enqueue(device::MergeExpertRows{
          .x = arrived, .ids = ids, .live = live, .slot_of = spec_.cache->slot_of(layer), .y = rows});
    }
    stream.enqueue(device::Combine{.rows = rows, .weights = weights, .ids = ids, .live = live, .x = y});
  }

  static int64_t group_ints(const DispatchLimits& limits) {
    return device::expert_group_ints(limits.pairs(), limits.n_experts);
  }

 private:
  struct LayerTask {
    device::HostTask task;
    int32_t layer;
    ExpertFormula formula;
  };

  // Without a cache no row of a table is copied: it says the same for ever.
  void mark_all_missing() {
    const auto slot_of = host_.slot_of->write<int32_t>(0, static_cast<size_t>(limits_.n_experts));
    for (int32_t& slot : slot_of.span()) slot = -1;
  }

  void copy_out(device::Stream& stream, int32_t layer, const In<int32_t>& ids, const In<float>& x,
                const In<int32_t>& live) const {
    stream.copy(*host_.live, 0, *live.memory, live.offset, int_bytes(1));
    stream.copy(*host_.ids, 0, *ids.memory, ids.offset, int_bytes(ids.rows * ids.cols));
    stream.copy(*host_.x, 0, *x.memory, x.offset, float_bytes(x.rows * x.cols));
    if (spec_.cache == nullptr) return;
    const In<int32_t> slot_of = spec_.cache->slot_of(layer);
    stream.copy(*host_.slot_of, 0, *slot_of.memory, slot_of.offset, int_bytes(slot_of.cols));
  }

  void enqueue_cached(device::Stream& stream, int32_t layer, const In<int32_t>& ids, const In<float>& x,
                      const In<int32_t>& live, const ExpertFormula& formula) const {
    stream.enqueue(device::ExpertFfn{.x = x,
                                     .ids = ids,
                                     .live = live,
                                     .slot_of = spec_.cache->slot_of(layer),
                                     .slots = spec_.cache->slots(),
                                     .blob = packed_blob(spec_.layout.layer(layer)),
                                     .formula = formula,
                                     .inputs = pair_rows(*moved_, limits_.input_cols()),
                                     .hidden = pair_rows(*hidden_, limits_.ffn),
                                     .groups = device::view_of<int32_t>(*groups_, 1, group_ints(limits_)),
                                     .y = pair_rows(*rows_, limits_.dim)});
  }

  LayerTask& layer_task(int32_t layer, const ExpertFormula& formula) {
    std::unique_ptr<LayerTask>& slot = tasks_[static_cast<size_t>(layer)];
    if (slot) return *slot;
    slot = std::make_unique<LayerTask>(LayerTask{{}, layer, formula});
    LayerTask* task = slot.get();
    task->task.name = "experts";
    task->task.run = [this, task] { return compute_layer(*task); };
    const auto whole = [](const device::HostBuffer& b, bool write) {
      return device::Range{&b, 0, b.bytes(), 1, b.bytes(), write};
    };
    task->task.ranges = {whole(*host_.live, false), whole(*host_.ids, false), whole(*host_.slot_of, false),
                         whole(*host_.x, false), whole(*host_.y, true)};
    return *slot;
  }

  Status compute_layer(const LayerTask& task) {
    const auto n_experts = spec_.layout.layer(task.layer).n_experts;
    const auto live = host_.live->read<int32_t>(0, 1);
    const auto n_pairs = static_cast<size_t>(live[0]) * static_cast<size_t>(limits_.n_used);
    const auto ids = host_.ids->read<int32_t>(0, n_pairs);
    const auto slot_of = host_.slot_of->read<int32_t>(0, static_cast<size_t>(n_experts));
    const auto x = host_.x->read<float>(0, static_cast<size_t>(live[0] * limits_.dim));
    const auto y = host_.y->write<float>(0, n_pairs * static_cast<size_t>(limits_.dim));
    int64_t hits = 0;
    for (const int32_t id : ids.span()) hits += slot_of[static_cast<size_t>(id)] >= 0;
    spec_.stats.add(Counter::kCacheHits, hits);
    spec_.stats.add(Counter::kCacheMisses, static_cast<int64_t>(n_pairs) - hits);
    return experts_->compute({.layer = task.layer,
                              .formula = task.formula,
                              .n_rows = live[0],
                              .ids = device::view_of<int32_t>(*host_.ids, live[0], limits_.n_used),
                              .x = device::view_of<float>(*host_.x, live[0], limits_.dim),
                              .y = pair_rows(*host_.y, limits_.dim),
                              .slot_of = slot_of.span().data()});
  }

  View<float> pair_rows(device::Memory& memory, int64_t cols) const {
    return device::view_of<float>(memory, limits_.pairs(), cols);
  }

  // Pinned copies of what the host needs, and its results.
  struct Host {
    std::unique_ptr<device::HostBuffer> live;     // int32 [1]
    std::unique_ptr<device::HostBuffer> ids;      // int32 [max_rows][k]
    std::unique_ptr<device::HostBuffer> slot_of;  // int32 [n_experts]
    std::unique_ptr<device::HostBuffer> x;        // [max_rows][dim]
    std::unique_ptr<device::HostBuffer> y;        // [pairs][dim]
  };

  DispatchSpec spec_;
  DispatchLimits limits_;
  std::unique_ptr<HostExperts> experts_;
  Host host_;
  // [pairs][dim]: scratch of the experts in slots, then the host's results; the other rows hold anything.
  std::unique_ptr<device::Buffer> moved_;
  std::unique_ptr<device::Buffer> rows_;    // [pairs][dim] all results; row = token * k + rank
  std::unique_ptr<device::Buffer> hidden_;  // [pairs][ffn] scratch
  std::unique_ptr<device::Buffer> groups_;  // int32 scratch
  std::vector<std::unique_ptr<LayerTask>> tasks_;
};

}  // namespace

DispatchBytes cached_dispatch_bytes(const DispatchLimits& limits) {
  const auto pairs = static_cast<uint64_t>(limits.pairs());
  const auto dim = static_cast<uint64_t>(limits.dim);
  const uint64_t ints = 1 + pairs + static_cast<uint64_t>(limits.n_experts);
  const uint64_t rows = static_cast<uint64_t>(limits.max_rows) * dim + pairs * dim;
  return {.device = (pairs * static_cast<uint64_t>(limits.input_cols() + limits.dim + limits.ffn) +
                     static_cast<uint64_t>(CachedDispatch::group_ints(limits))) *
                    sizeof(float),
          .host = HostExperts::bytes_needed(limits) + (ints + rows) * sizeof(float)};
}

Result<std::unique_ptr<Dispatch>> make_cached_dispatch(const DispatchSpec& spec) {
  auto dispatch = std::make_unique<CachedDispatch>(spec);
  RETURN_IF_ERROR(dispatch->allocate());
  return std::unique_ptr<Dispatch>(std::move(dispatch));
}

}  // namespace strata::experts
