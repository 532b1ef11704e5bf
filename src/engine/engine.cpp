#include "engine/engine.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "base/output_file.h"
#include "engine/expert_source.h"
#include "experts/streamed_ring.h"

namespace strata::engine {
namespace {

// Whether a profile can be written to `path` when all is done: not over a file of another kind, and not into nowhere.
Status check_profile_output(const std::string& path, const gguf::Model& model) {
  for (const gguf::Shard& shard : model.shards()) {
    if (!would_replace(path, shard.path)) continue;
    return Error{ErrorCode::kBadInput,
                 format("--expert-profile-save {} would replace {}, which is read; give another name", printable(path),
                        printable(shard.path))};
  }
  FileSystem& files = real_file_system();
  const bool there = files.exists(path);
  if (there && files.open(path).ok()) {
    const Result<experts::ExpertProfile> found = experts::ExpertProfile::load(files, path);
    if (!found.ok()) {
      return Error{
          ErrorCode::kBadInput,
          format("--expert-profile-save {} would replace a file that is no expert profile ({}); give another name",
                 printable(path), found.error().message)};
    }
  } else if (there && !files.is_directory(path)) {
    return {};  // a pipe or a device, which is written to as it is
  }
  OutputFile trial(path);
  if (Status status = trial.open(); !status.ok()) {
    return Error{status.error().code, "--expert-profile-save: " + status.error().message};
  }
  return {};
}

}  // namespace

Engine::~Engine() {
  // Streams and buffers go before the device they belong to.
  pool_.reset();
  adaptation_.reset();
  part_.reset();
  watch_.reset();
  source_.reset();
}

Result<std::unique_ptr<Engine>> Engine::open(const gguf::Model& model, const EngineConfig& config, Stats& stats) {
  std::unique_ptr<Engine> engine(new Engine(model, stats));
  RETURN_IF_ERROR(engine->choose(config));
  RETURN_IF_ERROR(engine->load());
  log_info("{}", engine->describe());
  log_info("what lies where:\n{}{}", experts::placement_text(engine->request_.input(), engine->plan_),
           engine->source_report_);
  return engine;
}

Status Engine::choose(const EngineConfig& config) {
  config_ = config;
  ASSIGN_OR_RETURN(arch_, model::find_architecture(model_));
  ASSIGN_OR_RETURN(hp_, arch_->read(model::Keys(model_, arch_->name)));
  if (!config_.expert_profile_save.empty()) {
    RETURN_IF_ERROR(check_profile_output(config_.expert_profile_save, model_));
  }
  const StepAndState limits = limits_of(hp_, config_);
  step_limits_ = limits.step;
  state_limits_ = limits.state;
  ASSIGN_OR_RETURN(const uint64_t ram, usable_ram(config_));
  RETURN_IF_ERROR(open_devices(ram));
  const PlannedDevice device{device_->name(), on_host() ? ram : device_->budget_bytes(), on_host()};
  ASSIGN_OR_RETURN(
      request_,
      placement_request(
          {.model = model_, .arch = *arch_, .hp = hp_, .config = config_, .devices = {&device, 1}, .ram_bytes = ram}));
  ASSIGN_OR_RETURN(plan_, experts::plan_placement(request_.input()));
  return {};
}

Status Engine::open_devices(uint64_t ram) {
  ASSIGN_OR_RETURN(devices_, Devices::open(config_, ram));
  if (devices_->computing().size() > 1) {
    return Error{ErrorCode::kUnsupported,
                 format("--device {}: a model runs on one device; name one", printable(config_.device))};
  }
  host_ = &devices_->host();
  device_ = devices_->computing().front();
  return {};
}

// Experts that steps read from files are worth asking for early.
bool Engine::reads_files() const {
  if (plan_.source == experts::SourceKind::kDirect) return true;
  if (plan_.source == experts::SourceKind::kResident) return plan_.below == experts::SourceKind::kDirect;
  return plan_.source == experts::SourceKind::kMapped &&
         plan_.needs_bytes + request_.layout.total_bytes() > request_.ram_bytes;
}

model::PartOptions Engine::part_options() const {
  const experts::PartPlacement& part = placed();
  return {.step = step_limits_,
          .state = state_limits_,
          .kv_type = config_.kv_type,
          .numeric = {.deterministic = config_.deterministic, .round_activations = config_.round_activations},
          .use_graphs = config_.use_graphs,
          .on_host = on_host(),
          .cached = part.slots.n_slots() > 0,
          .cache_min_slots = config_.cache_min_slots,
          .stream = {.ring = part.ring,
                     .borrowed = part.borrowed,
                     .min_rows = config_.stream_rows.value_or(
                         experts::auto_stream_rows(hp_.route.n_experts, hp_.route.n_used))},
          .look_ahead = reads_files()};
}

Status Engine::load() {
  ASSIGN_OR_RETURN(OpenedSource opened, open_expert_source({.model = model_,
                                                            .layout = request_.layout,
                                                            .config = config_,
                                                            .plan = plan_,
                                                            .n_used = hp_.route.n_used,
                                                            .host = *host_,
                                                            .device = *device_,
                                                            .threads = host_->compute().pool(),
                                                            .stats = stats_}));
  source_ = std::move(opened.source);
  resident_ = opened.resident;
  source_report_ = std::move(opened.report);
  if (reads_files()) watch_ = std::make_unique<SourceWatch>(*source_);
  if (!config_.expert_profile_save.empty()) routing_.add(counter_.emplace(*request_.profile));
  const model::PartSpec spec{.model = model_,
                             .arch = *arch_,
                             .hp = hp_,
                             .layout = request_.layout,
                             .source = *source_,
                             .device = *device_,
                             .compute = host_->compute(),
                             .stats = stats_,
                             .first = 0,
                             .last = hp_.n_layers,
                             .slots = placed().slots,
                             .observer = &routing_};
  ASSIGN_OR_RETURN(part_, model::Part::create(spec, part_options()));
  const std::vector<model::SequencePool::PartState> parts = {{&part_->state(), &part_->stream()}};
  pool_ = std::make_unique<model::SequencePool>(state_limits_, parts, stats_);
  return start_adaptation();
}

// Where a device caches some experts, those adapt; where RAM is the fastest tier and holds some, those do.
Status Engine::start_adaptation() {
  if (config_.adapt_every == 0) return {};
  const int64_t n_experts = std::ssize(request_.ranking);
  const int64_t n_cached = placed().slots.n_slots();
  const int64_t n_copied = std::ssize(plan_.resident.blobs());
  if (n_cached > 0 && n_cached < n_experts) {
    ASSIGN_OR_RETURN(adaptation_, Adaptation::create({.device = *device_,
                                                      .compute = part_->stream(),
                                                      .cache = *part_->cache(),
                                                      .source = *source_,
                                                      .layout = request_.layout,
                                                      .stats = stats_,
                                                      .resident = resident_,
                                                      .prior = *request_.profile,
                                                      .n_used = hp_.route.n_used,
                                                      .every = config_.adapt_every}));
  } else if (n_cached == 0 && n_copied > 0 && n_copied < n_experts) {
    adaptation_ = Adaptation::create(CopyAdaptationSpec{.copy = *resident_,
                                                        .layout = request_.layout,
                                                        .prior = *request_.profile,
                                                        .n_used = hp_.route.n_used,
                                                        .every = config_.adapt_every});
  } else {
    return {};
  }
  routing_.add(*adaptation_);
  return {};
}

Status Engine::save_profile() const {
  return counter_ ? counter_->profile().save(config_.expert_profile_save) : Status();
}

std::string Engine::describe() const {
  device::host::Compute& compute = host_->compute();
  std::string cached;
  const experts::PartPlacement& part = placed();
  if (part.slots.n_slots() > 0) {
    cached = format(", {} of them cached in {}", part.slots.n_slots(), format_bytes(part.slots.bytes()));
  }
  if (!part.ring.empty()) {
    cached += format(", prompts from {} rows stream the others through {}{}", part_->options().stream.min_rows,
                     format_bytes(part.ring.bytes()), part.borrowed ? " of those" : "");
  }
  if (plan_.source == experts::SourceKind::kResident) {
    cached += format(", {} of them in {} of RAM over {} files", plan_.resident.blobs().size(),
                     format_bytes(plan_.experts_bytes), experts::source_name(plan_.below));
  }
  std::string used = format("{} of RAM in use", format_bytes(host_->used_bytes()));
  if (!on_host()) {
    used = format("{} of {} and {} of RAM in use", format_bytes(device_->used_bytes()), device_->name(),
                  format_bytes(devices_->host_bytes()));
  }
  return format(
      "{}: {} layers, {} experts, {} used; on {} with {} kernels, {} threads; experts {} ({}){}, other weights {}, "
      "context {} tokens, {}",
      hp_.arch, hp_.n_layers, hp_.route.n_experts, hp_.route.n_used, device_->name(),
      kernels::isa_name(compute.kernels().isa), compute.pool().n_threads(), source_->name(),
      format_bytes(request_.layout.total_bytes()), cached, format_bytes(request_.parts.front().weights_bytes),
      context(), used);
}

Status Engine::finish_step() {
  Status status = part_->finish();
  if (status.ok()) status = source_->health();
  if (status.ok()) status = devices_->health();
  return status;
}

Status Engine::end_loan() {
  Status status = part_->give_back();
  loan_overdue_ = !status.ok();
  return status;
}

Status Engine::settle_loan(bool streams, bool decode) {
  if (loan_overdue_ || decode) RETURN_IF_ERROR(end_loan());
  if (streams) RETURN_IF_ERROR(part_->borrow());
  if (adaptation_ && !part_->lent()) adaptation_->between_steps();
  return {};
}

Status Engine::step(std::span<const model::BatchRows> batch, bool in_prompt) {
  int64_t n = 0;
  for (const model::BatchRows& rows : batch) {
    for (const int32_t id : rows.ids) {
      if (id < 0 || id >= hp_.n_vocab) {
        return Error{ErrorCode::kBadInput, format("token id {} is outside the vocabulary of {}", id, hp_.n_vocab)};
      }
    }
    if (rows.sequence->lost()) {
      return Error{ErrorCode::kBadInput,
                   "a failed step left this sequence without its state; restore a checkpoint or "
                   "start it anew"};
    }
    n += static_cast<int64_t>(rows.ids.size());
    RETURN_IF_ERROR(rows.sequence->check_room(static_cast<int64_t>(rows.ids.size())));
  }
  ASSERT(n > 0);
  ASSERT(n <= step_limits_.max_rows);
  const bool decode = !in_prompt && n == static_cast<int64_t>(batch.size());
  // Where experts are stuck on their way to other places, the CPU computes the step.
  const bool streams = !decode && part_->streams(n) && (!adaptation_ || adaptation_->settle());
  RETURN_IF_ERROR(settle_loan(streams, decode));
  // Only once all can be served does one of them take blocks.
  for (const model::BatchRows& rows : batch) {
    RETURN_IF_ERROR(rows.sequence->reserve(static_cast<int64_t>(rows.ids.size())));
  }
  part_->forward(0, hp_.n_layers, batch, streams);
  if (Status status = finish_step(); !status.ok()) {
    for (const model::BatchRows& rows : batch) rows.sequence->step_failed();
    static_cast<void>(end_loan());
    return status;
  }
  for (const model::BatchRows& rows : batch) rows.sequence->advance(static_cast<int64_t>(rows.ids.size()));
  rows_in_step_ = n;
  stats_.add(Counter::kSteps);
  stats_.add(Counter::kTokensForward, n);
  return {};
}

Status Engine::logits(std::span<const int32_t> rows, const LogitsSink& sink) {
  for (size_t first = 0; first < rows.size(); first += static_cast<size_t>(step_limits_.max_outputs)) {
    const auto some = rows.subspan(first, std::min(static_cast<size_t>(step_limits_.max_outputs), rows.size() - first));
    for (const int32_t row : some) ASSERT(row >= 0 && row < rows_in_step_);
    part_->head(some);
    RETURN_IF_ERROR(finish_step());
    for (size_t i = 0; i < some.size(); i++) {
      RETURN_IF_ERROR(
          part_->logits(static_cast<int64_t>(i), [&](std::span<const float> row) { return sink(some[i], row); }));
    }
  }
  return {};
}

Status Engine::prefill(model::SequenceState& sequence, std::span<const int32_t> ids, const ChunkDone& chunk_done) {
  for (size_t first = 0; first < ids.size(); first += static_cast<size_t>(step_limits_.max_rows)) {
    const auto chunk = ids.subspan(first, std::min(static_cast<size_t>(step_limits_.max_rows), ids.size() - first));
    const model::BatchRows batch[] = {{&sequence, chunk}};
    RETURN_IF_ERROR(step(batch, true));
    if (chunk_done) RETURN_IF_ERROR(chunk_done(static_cast<int64_t>(first), static_cast<int64_t>(chunk.size())));
  }
  return {};
}

}  // namespace strata::engine
