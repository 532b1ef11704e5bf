#include "experts/cached_rig.h"

#include <cstring>

namespace strata::test {

using experts::Dispatch;
using experts::ExpertCache;
using experts::SlotPlan;

CachedRig::CachedRig(const ExpertModel& model, const CachedOptions& options, experts::ExpertSource* source)
    : model_(model),
      options_(options),
      devices_(options.where, options.threads, options.sim_spec),
      source_(source),
      stream_(devices_.device().make_stream("compute")) {
  if (source_ == nullptr) {
    device::host::HostDevice& host = devices_.host();
    arena_ = experts::ArenaSource::create(*model.model, model.layout, host, host.compute().pool(), stats).value();
    if (!options.link_shares.empty()) {
      arena_->page_lock(devices_.device(), real_clock());
    }
    source_ = arena_.get();
  }
  device::Device& device = devices_.device();
  if (options.slots > 0) make_cache();
  const uint64_t place = align_up(model.layout.largest_blob_bytes(), experts::kSlotAlignment);
  ring_ = experts::RingPlan::make(model.layout, static_cast<uint64_t>(options.ring_places) * place);
  if (!ring_.empty() && !options.borrows) ring_memory_ = device.allocate(ring_.bytes(), "ring").value();
  dispatch_ = Dispatch::create({.device = device,
                                .compute = devices_.host().compute(),
                                .source = *source_,
                                .layout = model.layout,
                                .limits = limits(),
                                .stats = stats,
                                .cache = cache.get(),
                                .ring = ring_,
                                .link_shares = options_.link_shares})
                  .value();
  ids_ = buffer(options.max_rows * options.k);
  weights_ = buffer(options.max_rows * options.k);
  x_ = buffer(options.max_rows * model.spec.dim);
  y_ = buffer(options.max_rows * model.spec.dim);
  live_ = buffer(1);
  for (int64_t rows = 1; rows < options.max_rows; rows *= 4) add_bucket(rows);
  add_bucket(options.max_rows);
  if (experts::StreamedDispatch* streamed = dispatch_->streamed()) {
    streamed->set_capturing(true);
    static_cast<void>(device.capture([&](device::Stream& s) { enqueue(*streamed, s, options_.max_rows); }).value());
    streamed->set_capturing(false);
  }
  stats.reset();
}

CachedRig::~CachedRig() {
  if (races_expected_) return;
  EXPECT_EQ(devices_.races(), std::vector<std::string>());
}

void CachedRig::make_cache() {
  SlotPlan plan = SlotPlan::make(model_.layout, experts::even_ranking(model_.layout),
                                 {.budget_bytes = 16 * kMiB, .max_slots = options_.slots})
                      .value();
  cache = ExpertCache::create({.device = devices_.device(),
                               .stream = *stream_,
                               .source = *source_,
                               .layout = model_.layout,
                               .stats = stats,
                               .min_slots = 1},
                              std::move(plan))
              .value();
  const Status filled = cache->fill();
  EXPECT_TRUE(filled.ok());
}

experts::DispatchLimits CachedRig::limits() const {
  return {.max_rows = options_.max_rows,
          .n_used = options_.k,
          .n_experts = model_.spec.n_experts,
          .n_layers = model_.spec.n_layers,
          .blob_bytes = static_cast<int64_t>(model_.layout.largest_blob_bytes()),
          .dim = model_.spec.dim,
          .ffn = model_.spec.ffn};
}

void CachedRig::set_inputs(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
  upload<int32_t>(*stream_, *live_, {static_cast<int32_t>(routing.rows)});
  upload(*stream_, *ids_, routing.ids);
  upload(*stream_, *weights_, routing.weights);
  upload(*stream_, *x_, x);
  upload(*stream_, *y_, y);
}

void CachedRig::queue(int64_t rows) {
  size_t b = 0;
  while (buckets_[b].rows < rows) b++;
  if (options_.graphs) {
    buckets_[b].graph->replay(*stream_);
  } else {
    enqueue(*dispatch_, *stream_, buckets_[b].rows);
  }
}

void CachedRig::queue_streamed(int64_t rows) {
  experts::StreamedDispatch& streamed = *dispatch_->streamed();
  if (!options_.borrows) {
    streamed.use_ring(*ring_memory_, 0);
    return enqueue(streamed, *stream_, rows);
  }
  const experts::Loan loan = cache->lend(ring_.bytes()).value();
  streamed.use_ring(*loan.memory, loan.offset);
  enqueue(streamed, *stream_, rows);
}

Status CachedRig::finish() {
  Status status = stream_->synchronize();
  stream_->reset();
  if (dispatch_->streamed() == nullptr) return status;
  Status copied = dispatch_->streamed()->end_step();
  return status.ok() ? copied : status;
}

Status CachedRig::try_run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
  set_inputs(routing, x, y);
  queue(routing.rows);
  return finish();
}

Status CachedRig::try_stream(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
  set_inputs(routing, x, y);
  queue_streamed(routing.rows);
  Status status = finish();
  if (options_.borrows) {
    const Status restored = cache->restore();
    EXPECT_TRUE(restored.ok());
  }
  return status;
}

std::vector<float> CachedRig::run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
  const Status status = try_run(routing, x, y);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return result(routing.rows);
}

std::vector<float> CachedRig::stream(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
  const Status status = try_stream(routing, x, y);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return result(routing.rows);
}

std::vector<float> CachedRig::result(int64_t rows) {
  return download<float>(*stream_, *y_, 0, static_cast<size_t>(rows * model_.spec.dim));
}

std::unique_ptr<device::Buffer> CachedRig::buffer(int64_t n) {
  return devices_.device().allocate(static_cast<size_t>(n) * 4, "test").value();
}

void CachedRig::enqueue(Dispatch& dispatch, device::Stream& stream, int64_t rows) {
  const int64_t dim = model_.spec.dim;
  for (int32_t layer = 0; layer < model_.spec.n_layers; layer++) {
    const auto route = [&](const device::Out<int32_t>& ids) {
      stream.copy(*ids.memory, ids.offset, *ids_, 0, static_cast<size_t>(rows * options_.k) * sizeof(int32_t));
    };
    const experts::NextLayer next{layer + 1, route};
    dispatch.run(stream, layer, device::view_of<int32_t>(*ids_, rows, options_.k),
                 device::view_of<float>(*weights_, rows, options_.k), device::view_of<float>(*x_, rows, dim),
                 device::view_of<float>(*y_, rows, dim), device::view_of<int32_t>(*live_, 1, 1), options_.formula,
                 options_.guesses && next.layer < model_.spec.n_layers ? &next : nullptr);
  }
}

void CachedRig::add_bucket(int64_t rows) {
  buckets_.push_back(
      {rows, devices_.device().capture([&](device::Stream& s) { enqueue(*dispatch_, s, rows); }).value()});
}

CachedInputs::CachedInputs(const ExpertSpec& spec, int64_t rows, int64_t k, uint64_t seed) {
  Random random(seed);
  routing = random_routing(rows, k, spec.n_experts, random);
  x = normals(random, rows * spec.dim);
  y = normals(random, rows * spec.dim);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace strata::test
