#include "model/part.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/activity.h"
#include "experts/lend_region.h"
#include "experts/streamed_dispatch.h"

namespace strata::model {

Result<std::unique_ptr<Part>> Part::create(const PartSpec& spec, const PartOptions& options) {
  std::unique_ptr<Part> part(new Part(spec, options));
  RETURN_IF_ERROR(part->build());
  return part;
}

namespace {

// Rows of a step that are worth guessing for; more of them use so many experts that all there is room for is under way.
constexpr int64_t kLookAheadRows = 8;

experts::DispatchLimits dispatch_limits(const HParams& hp, const PartOptions& options) {
  return {.max_rows = options.step.max_rows,
          .n_used = hp.route.n_used,
          .n_experts = hp.route.n_experts,
          .n_layers = hp.n_layers,
          .blob_bytes = static_cast<int64_t>(options.blob_bytes),
          .dim = hp.dim,
          .ffn = hp.expert_ffn};
}

uint64_t logits_bytes(const HParams& hp, const PartOptions& options) {
  return static_cast<uint64_t>(options.step.max_outputs) * static_cast<uint64_t>(hp.n_vocab) * sizeof(float);
}

}  // namespace

Result<PartBytes> Part::measure(const gguf::Model& model, const ArchInfo& arch, const HParams& hp, int first, int last,
                                const PartOptions& options) {
  RETURN_IF_ERROR(StateMemory::check_type(hp, options.kv_type));
  WeightLoader loader = WeightLoader::measuring(model);
  ASSIGN_OR_RETURN(const auto network, arch.build({hp, loader, first, last}));
  Activations act;
  network->declare(act);
  PartBytes bytes;
  bytes.weights = loader.allocated_bytes();
  bytes.tensors = loader.tensor_bytes();
  bytes.state = StateMemory::bytes_needed(hp, first, last, options.state, options.kv_type);
  const experts::DispatchBytes dispatch =
      experts::Dispatch::bytes_needed(dispatch_limits(hp, options), options.on_host && !options.cached);
  const experts::DispatchBytes streamed =
      experts::StreamedDispatch::bytes_needed(dispatch_limits(hp, options), options.stream.ring);
  const uint64_t inputs = StepInputs::bytes_needed(options.step, options.state);
  bytes.step = inputs + act.bytes_needed(options.step) + dispatch.device + streamed.device;
  bytes.host = inputs + dispatch.host + streamed.host;
  if (first <= hp.ngram.layer && hp.ngram.layer < last) {
    bytes.host += NgramFeed::bytes_needed(model, hp, options.step, *options.table.kind);
  }
  if (!options.stream.borrowed) bytes.ring = options.stream.ring.bytes();
  if (options.on_host) {
    bytes.step += std::exchange(bytes.host, 0);
  } else {
    bytes.host += WeightLoader::host_bytes_needed();
    if (last == hp.n_layers) bytes.host += logits_bytes(hp, options);
  }
  return bytes;
}

Status Part::build() {
  const HParams& hp = spec_.hp;
  WeightLoader asking = WeightLoader::asking(spec_.model);
  RETURN_IF_ERROR(spec_.arch.build({hp, asking, spec_.first, spec_.last}));
  ASSIGN_OR_RETURN(network_, spec_.arch.build({hp, loader_, spec_.first, spec_.last}));
  ASSIGN_OR_RETURN(state_,
                   StateMemory::create(spec_.device, hp, spec_.first, spec_.last, options_.state, options_.kv_type));
  ASSIGN_OR_RETURN(inputs_, StepInputs::create(spec_.device, options_.step, options_.state));
  if (spec_.first <= hp.ngram.layer && hp.ngram.layer < spec_.last) {
    ASSIGN_OR_RETURN(ngram_, NgramFeed::create({.model = spec_.model,
                                                .hp = hp,
                                                .device = spec_.device,
                                                .stats = spec_.stats,
                                                .limits = options_.step,
                                                .table = options_.table}));
  }
  network_->declare(act_);
  RETURN_IF_ERROR(act_.allocate(spec_.device, options_.step));
  if (!spec_.device.host_accessible() && spec_.last == hp.n_layers) {
    ASSIGN_OR_RETURN(host_logits_,
                     spec_.device.allocate_host(logits_bytes(hp, options_), device::MemoryKind::kPinned, "logits"));
  }
  RETURN_IF_ERROR(build_experts());
  RETURN_IF_ERROR(loader_.finish());
  outputs_.reserve(static_cast<size_t>(options_.step.max_outputs));
  chosen_.reserve(static_cast<size_t>(options_.step.max_outputs));
  interrupt_task_ = {.name = "interrupt", .run = [this] { return check_interrupt(); }, .ranges = {}};
  return capture_all();
}

Status Part::build_experts() {
  if (options_.cached) {
    const experts::CacheSpec spec{
        .device = spec_.device,
        .stream = *stream_,
        .source = spec_.source,
        .layout = spec_.layout,
        .stats = spec_.stats,
        .min_slots = experts::slots_kept(spec_.slots.n_slots(), {.min_slots = options_.cache_min_slots})};
    ASSIGN_OR_RETURN(cache_, experts::ExpertCache::create(spec, spec_.slots));
    RETURN_IF_ERROR(cache_->fill());
  }
  const StreamOptions& streaming = options_.stream;
  if (!streaming.ring.empty() && !streaming.borrowed) {
    ASSIGN_OR_RETURN(ring_memory_, spec_.device.allocate(streaming.ring.bytes(), "streamed experts"));
  }
  ASSIGN_OR_RETURN(dispatch_, experts::Dispatch::create({.device = spec_.device,
                                                         .compute = spec_.compute,
                                                         .source = spec_.source,
                                                         .layout = spec_.layout,
                                                         .limits = dispatch_limits(spec_.hp, options_),
                                                         .stats = spec_.stats,
                                                         .cache = cache_.get(),
                                                         .whole_cache = streaming.ring.empty() && holds_all_experts(),
                                                         .ring = streaming.ring,
                                                         .link_shares = options_.link_shares,
                                                         .observer = spec_.observer,
                                                         .last_layer = spec_.last,
                                                         .n_sharers = spec_.n_parts,
                                                         .interrupt = [this] { return check_interrupt(); }}));
  return {};
}

bool Part::holds_all_experts() const {
  int64_t n_experts = 0;
  for (int l = spec_.first; l < spec_.last; l++) n_experts += spec_.layout.layer(l).n_experts;
  return cache_ != nullptr && spec_.slots.n_slots() == n_experts;
}

Status Part::check_interrupt() const {
  if (interrupt_ && interrupt_()) return Error{ErrorCode::kCancelled, "the step was cancelled"};
  return {};
}

StepContext Part::context(device::Stream& stream, int64_t rows, experts::Dispatch& dispatch) const {
  return {.stream = stream,
          .rows = rows,
          .hp = spec_.hp,
          .in = *inputs_,
          .act = act_,
          .state = *state_,
          .dispatch = dispatch,
          .numeric = options_.numeric,
          .ngram = ngram_.get(),
          .look_ahead = options_.look_ahead && rows <= kLookAheadRows};
}

void Part::enqueue_layers(device::Stream& stream, int64_t rows, experts::Dispatch& dispatch) const {
  const StepContext ctx = context(stream, rows, dispatch);
  network_->enqueue_start(ctx, spec_.first == 0);
  for (int layer = spec_.first; layer < spec_.last; layer++) enqueue_layer(ctx, layer);
  dispatch.finish(stream, rows);
}

void Part::enqueue_layer(const StepContext& ctx, int layer) const {
  const bool asks = ctx.dispatch.host_takes_part(ctx.rows) && !ctx.dispatch.asks_interrupt();
  if (asks) ctx.stream.wait(ctx.stream.host_task(interrupt_task_));
  network_->enqueue_layer(ctx, layer);
}

// Queueing takes as long as reading and copying the experts does: a step that has failed or that nobody wants any more
// is not queued to its end.
void Part::queue_streamed_layer() {
  experts::StreamedDispatch& streamed = *dispatch_->streamed();
  const StepContext ctx = context(*stream_, rows_, streamed);
  if (next_layer_ == spec_.first) {
    ASSERT(ring_memory_ != nullptr || lent());
    streamed.use_ring(ring_memory_ ? *ring_memory_ : *loan_.memory, ring_memory_ ? 0 : loan_.offset);
    network_->enqueue_start(ctx, spec_.first == 0);
  }
  if (Status status = check_interrupt(); !status.ok()) return give_up(std::move(status).error());
  enqueue_layer(ctx, next_layer_++);
  given_up_ = streamed.failed();
}

// Shapes grow by fours, so that a padded step wastes little and a handful of graphs serve all sizes. All are captured
// now, graphs in use or not: capturing sizes the workspace and binds every operation once.
Status Part::capture(std::vector<Shape>& shapes, int64_t max_rows, bool head) {
  for (int64_t rows = 1;; rows = std::min(rows * 4, max_rows)) {
    Shape shape{rows, nullptr};
    ASSIGN_OR_RETURN(shape.graph, spec_.device.capture([&](device::Stream& stream) {
      if (head) {
        network_->enqueue_head(context(stream, options_.step.max_rows, *dispatch_), rows);
      } else {
        enqueue_layers(stream, rows, *dispatch_);
      }
    }));
    spec_.stats.add(Counter::kGraphCaptures);
    shapes.push_back(std::move(shape));
    if (rows == max_rows) return {};
  }
}

Status Part::capture_all() {
  RETURN_IF_ERROR(capture(layer_shapes_, options_.step.max_rows, false));
  if (spec_.last == spec_.hp.n_layers) RETURN_IF_ERROR(capture(head_shapes_, options_.step.max_outputs, true));
  return dispatch_->streamed() != nullptr ? capture_streamed() : Status();
}

// For the workspace alone: steps that stream are queued anew, since what they copy changes.
Status Part::capture_streamed() {
  experts::StreamedDispatch& streamed = *dispatch_->streamed();
  streamed.set_capturing(true);
  const auto graph = spec_.device.capture([&](device::Stream& stream) {
    enqueue_layers(stream, options_.step.max_rows, streamed);
  });
  streamed.set_capturing(false);
  return graph.ok() ? Status() : graph.error();
}

Part::Shape& Part::shape_for(std::vector<Shape>& shapes, int64_t n) {
  const auto at = std::find_if(shapes.begin(), shapes.end(), [&](const Shape& s) { return s.rows >= n; });
  ASSERT(at != shapes.end());
  return *at;
}

void Part::begin(std::span<const BatchRows> batch, bool stream) {
  rows_ = 0;
  outputs_.clear();
  const int max_outputs = spec_.last == spec_.hp.n_layers ? options_.step.max_outputs : 0;
  for (const BatchRows& rows : batch) {
    rows_ += rows.n();
    if (rows.ends_in_logits && std::ssize(outputs_) < max_outputs) outputs_.push_back(static_cast<int32_t>(rows_ - 1));
  }
  next_layer_ = spec_.first;
  streaming_ = stream;
  given_up_ = false;
  step_queued_ = false;
  if (ngram_) ngram_->begin(batch);
  inputs_->set_batch(*stream_, batch, outputs_);
}

device::View<float> Part::hidden(int64_t rows) const {
  const device::View<float> view = act_.view(Act::kHidden, rows, spec_.hp.hidden_width());
  ASSERT(view.stride == view.cols);
  return view;
}

bool Part::queue_more() {
  if (given_up_ || next_layer_ == spec_.last) return false;
  if (streaming_) {
    queue_streamed_layer();
  } else {
    queue_layers();
  }
  if (given_up_) return false;
  step_queued_ = next_layer_ == spec_.last;
  if (step_queued_ && !outputs_.empty()) queue_head();
  return !step_queued_;
}

// A step in which the host has no part is over before a person could tell: one question will do.
void Part::queue_layers() {
  const Shape& shape = shape_for(layer_shapes_, rows_);
  if (!dispatch_->host_takes_part(shape.rows)) {
    if (Status status = check_interrupt(); !status.ok()) return give_up(std::move(status).error());
  }
  next_layer_ = spec_.last;
  if (!options_.use_graphs) return enqueue_layers(*stream_, shape.rows, *dispatch_);
  replay(*shape.graph);
}

void Part::give_up(Error why) {
  given_up_ = true;
  stream_->abort(std::move(why));
}

void Part::replay(device::Graph& graph) {
  graph.replay(*stream_);
  spec_.stats.add(Counter::kGraphReplays);
  spec_.stats.add(Counter::kGraphNodes, static_cast<int64_t>(graph.n_nodes()));
}

bool Part::head(std::span<const int32_t> rows) {
  ASSERT(spec_.last == spec_.hp.n_layers);
  if (find_outputs(rows)) return false;
  outputs_.assign(rows.begin(), rows.end());
  chosen_.resize(rows.size());
  std::iota(chosen_.begin(), chosen_.end(), size_t{0});
  inputs_->set_outputs(*stream_, rows);
  queue_head();
  return true;
}

bool Part::find_outputs(std::span<const int32_t> rows) {
  chosen_.clear();
  for (const int32_t row : rows) {
    const auto at = std::find(outputs_.begin(), outputs_.end(), row);
    if (at == outputs_.end()) return false;
    chosen_.push_back(static_cast<size_t>(at - outputs_.begin()));
  }
  return true;
}

void Part::queue_head() {
  Shape& shape = shape_for(head_shapes_, static_cast<int64_t>(outputs_.size()));
  if (options_.use_graphs) {
    replay(*shape.graph);
  } else {
    network_->enqueue_head(context(*stream_, options_.step.max_rows, *dispatch_), shape.rows);
  }
  if (!host_logits_) return;
  const device::View<float> logits = logits_view();
  stream_->copy(*host_logits_, 0, *logits.memory, logits.offset,
                outputs_.size() * static_cast<size_t>(spec_.hp.n_vocab) * sizeof(float));
}

// What the main stream says comes first: copies fail on their own, or because nobody waits for them any more.
Status Part::finish() {
  const Activity activity("waits for the device");
  Status status = stream_->synchronize();
  if (!status.ok()) stream_->reset();
  if (ngram_) ngram_->end();
  if (experts::StreamedDispatch* streamed = dispatch_->streamed()) {
    Status copied = streamed->end_step();
    if (status.ok()) status = std::move(copied);
  }
  if (!status.ok()) outputs_.clear();
  const bool done = std::exchange(step_queued_, false) && status.ok();
  if (done && !streaming_) dispatch_->step_done(shape_for(layer_shapes_, rows_).rows, rows_);
  return status;
}

bool Part::streams(int64_t n_rows) const {
  return dispatch_->streamed() != nullptr && n_rows >= options_.stream.min_rows;
}

Status Part::borrow() {
  if (ring_memory_ || lent()) return {};
  Result<experts::Loan> loan = cache_->lend(options_.stream.ring.bytes());
  if (loan.ok()) {
    loan_ = *loan;
    return {};
  }
  stream_->reset();
  return loan.error();
}

Status Part::give_back() {
  if (!lent()) return {};
  Status status = cache_->restore();
  if (status.ok()) return status;
  static_cast<void>(stream_->synchronize());
  stream_->reset();
  return status;
}

}  // namespace strata::model
