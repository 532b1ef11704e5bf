#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "base/output_file.h"
#include "engine/expert_source.h"
#include "engine/link_rates.h"
#include "engine/side_by_side.h"
#include "experts/streamed_ring.h"

namespace strata::engine {
namespace {

constexpr int64_t kNsPerS = 1'000'000'000;

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
  pipeline_.reset();
  copy_adaptation_.reset();
  parts_.clear();
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
  if (!engine->plan_.warning.empty()) log_warning("{}", engine->plan_.warning);
  return engine;
}

Status Engine::check(const gguf::Model& model, const EngineConfig& config) {
  Stats stats;
  return Engine(model, stats).choose(config);
}

Status Engine::choose(const EngineConfig& config) {
  config_ = config;
  ASSIGN_OR_RETURN(arch_, model::find_architecture(model_));
  ASSIGN_OR_RETURN(hp_, hparams_of(model_, *arch_, config_));
  if (!config_.expert_profile_save.empty()) {
    if (hp_.n_expert_layers() == 0) {
      return Error{ErrorCode::kBadInput, format("--expert-profile-save: {} has no experts", model_.path())};
    }
    RETURN_IF_ERROR(check_profile_output(config_.expert_profile_save, model_));
  }
  ASSIGN_OR_RETURN(const uint64_t ram, usable_ram(config_));
  ASSIGN_OR_RETURN(devices_, Devices::open(config_, ram));
  host_ = &devices_->host();
  const std::vector<PlannedDevice> planned = devices_->planned(ram);
  settle_chunk(planned, config_);
  const StepAndState limits = limits_of(hp_, config_);
  step_limits_ = limits.step;
  state_limits_ = limits.state;
  ASSIGN_OR_RETURN(request_, placement_request({.model = model_,
                                                .arch = *arch_,
                                                .hp = hp_,
                                                .config = config_,
                                                .devices = planned,
                                                .peers = devices_->peers(),
                                                .cpu_bytes_per_s = devices_->cpu_bytes_per_s(),
                                                .ram_bytes = ram}));
  ASSIGN_OR_RETURN(plan_, experts::plan_placement(request_.input()));
  return {};
}

device::Device& Engine::device_of(size_t part) const {
  return *devices_->computing()[request_.parts[part].device_index];
}

// Experts that steps read from files are worth asking for early.
bool Engine::reads_files() const {
  if (plan_.source == experts::SourceKind::kDirect) return true;
  if (plan_.source == experts::SourceKind::kResident) return plan_.below == experts::SourceKind::kDirect;
  return plan_.source == experts::SourceKind::kMapped &&
         plan_.needs_bytes + request_.layout.total_bytes() > request_.ram_bytes;
}

bool Engine::all_page_locked() const {
  for (int32_t l = 0; l < static_cast<int32_t>(request_.layout.layers().size()); l++) {
    for (int32_t e = 0; e < request_.layout.layer(l).n_experts; e++) {
      if (source_->pinned_place({l, e}).buffer == nullptr) return false;
    }
  }
  return true;
}

model::PartOptions Engine::part_options(size_t part) const {
  const experts::PartPlacement& placed = plan_.parts[part];
  return {.step = step_limits_,
          .state = state_limits_,
          .kv_type = config_.kv_type,
          .numeric = {.deterministic = config_.deterministic, .round_activations = config_.round_activations},
          .use_graphs = config_.use_graphs,
          .on_host = on_host(),
          .cached = placed.slots.n_slots() > 0,
          .cache_min_slots = config_.cache_min_slots,
          .stream = {.ring = placed.ring,
                     .borrowed = placed.borrowed,
                     .min_rows = config_.stream_rows.value_or(
                         experts::auto_stream_rows(hp_.route.n_experts, hp_.route.n_used))},
          .look_ahead = reads_files(),
          .table = {.kind = config_.table, .io_timeout_s = config_.io_timeout_s}};
}

// A device that promises the same bits for any placement computes all experts itself.
Result<std::vector<int32_t>> Engine::link_shares(size_t part) {
  const experts::PartNeeds& needs = request_.parts[part];
  int64_t n_experts = 0;
  for (int l = needs.first_layer; l < needs.last_layer; l++) n_experts += request_.layout.layer(l).n_experts;
  if (needs.on_host || plan_.parts[part].slots.n_slots() == n_experts) return std::vector<int32_t>();
  if (devices_->simulated()) {
    const double link = devices_->planned(0)[needs.device_index].rates.link_bytes_per_s;
    parts_[part].link_rates = {.link = link, .cpu = devices_->cpu_bytes_per_s(), .copies = link};
  } else {
    ASSIGN_OR_RETURN(parts_[part].link_rates, measure_link({.device = device_of(part),
                                                            .source = *source_,
                                                            .layout = request_.layout,
                                                            .threads = host_->compute().pool(),
                                                            .clock = real_clock()}));
  }
  const experts::LinkRates& rates = parts_[part].link_rates;
  std::optional<double> fraction = config_.pcie_frac;
  if (config_.deterministic) fraction = 1;
  if (!fraction && !(rates.link > 0 && rates.cpu > 0)) return std::vector<int32_t>();
  const auto blob_bytes = static_cast<int64_t>(request_.layout.largest_blob_bytes());
  std::vector<int32_t> shares = experts::link_shares(hp_.route.n_experts, blob_bytes, rates, fraction);
  log_info("{} gets experts over its link at {:.1f} GB/s, the CPU computes them at {:.1f} GB/s: of {} that the cache "
           "lacks the device reads {}",
           device_of(part).name(), rates.link / 1e9, rates.cpu / 1e9, hp_.route.n_used,
           shares[static_cast<size_t>(hp_.route.n_used)]);
  return shares;
}

Status Engine::load() {
  if (config_.stall_notice_s > 0) {
    stall_watch_ = std::make_unique<StallWatch>(stats_, config_.stall_notice_s * kNsPerS);
  }
  const StallWatch::Work work(stall_watch_.get(), "loading the model");
  ASSIGN_OR_RETURN(OpenedSource opened, open_expert_source({.model = model_,
                                                            .layout = request_.layout,
                                                            .config = config_,
                                                            .plan = plan_,
                                                            .n_used = hp_.route.n_used,
                                                            .host = *host_,
                                                            .device = device_of(0),
                                                            .threads = host_->compute().pool(),
                                                            .stats = stats_}));
  source_ = std::move(opened.source);
  resident_ = opened.resident;
  source_report_ = std::move(opened.report);
  pinned_expert_bytes_ = opened.pinned_bytes;
  if (!opened.warning.empty()) log_warning("{}", opened.warning);
  if (reads_files()) watch_ = std::make_unique<SourceWatch>(*source_);
  if (!config_.expert_profile_save.empty()) routing_.add(counter_.emplace(*request_.profile));
  RETURN_IF_ERROR(load_parts());
  RETURN_IF_ERROR(connect_parts());
  RETURN_IF_ERROR(start_adaptation());
  n_allocations_ = devices_->n_allocations();
  return {};
}

// At the same time, but for what they share: the host's memory, and its threads, while links are measured.
Status Engine::load_parts() {
  parts_.resize(request_.parts.size());
  std::vector<std::vector<int32_t>> shares(parts_.size());
  for (size_t i = 0; i < parts_.size(); i++) {
    const experts::PartNeeds& needs = request_.parts[i];
    if (parts_.size() > 1 && hp_.n_expert_layers() > 0) {
      ASSIGN_OR_RETURN(parts_[i].log, RoutingLog::create(*host_, routing_log_spec(hp_, step_limits_, needs.first_layer,
                                                                                  needs.last_layer, parts_.size())));
    }
    ASSIGN_OR_RETURN(shares[i], link_shares(i));
  }
  // The devices compute all experts then, and those that they cannot read over their links come as in prompts.
  always_streams_ = config_.deterministic && !all_page_locked();
  RETURN_IF_ERROR(side_by_side(parts_.size(), [&](size_t i) { return load_part(i, std::move(shares[i])); }));
  for (const EnginePart& part : parts_) {
    const std::string table = part.part->table_report();
    if (!table.empty()) source_report_ += (source_report_.empty() ? "" : "\n") + table;
  }
  return {};
}

Status Engine::load_part(size_t i, std::vector<int32_t> shares) {
  const experts::PartNeeds& needs = request_.parts[i];
  EnginePart& part = parts_[i];
  const model::PartSpec spec{.model = model_,
                             .arch = *arch_,
                             .hp = hp_,
                             .layout = request_.layout,
                             .source = *source_,
                             .device = device_of(i),
                             .compute = host_->compute(),
                             .stats = stats_,
                             .first = needs.first_layer,
                             .last = needs.last_layer,
                             .slots = plan_.parts[i].slots,
                             .observer = part.log ? static_cast<experts::RoutingObserver*>(part.log.get()) : &routing_,
                             .n_parts = n_parts()};
  model::PartOptions options = part_options(i);
  options.blob_bytes = request_.layout.largest_blob_bytes();
  if (always_streams_) options.stream.min_rows = 1;
  options.link_shares = std::move(shares);
  ASSIGN_OR_RETURN(part.part, model::Part::create(spec, options));
  return {};
}

Status Engine::connect_parts() {
  std::vector<PipelineStage> stages;
  std::vector<std::unique_ptr<HandOff>> hand_offs;
  std::vector<model::SequencePool::PartState> states;
  for (EnginePart& part : parts_) {
    if (!stages.empty()) {
      ASSIGN_OR_RETURN(hand_offs.emplace_back(), HandOff::create({.from = stages.back().part->stream(),
                                                                  .to = part.part->stream(),
                                                                  .max_rows = step_limits_.max_rows,
                                                                  .dim = hp_.hidden_width(),
                                                                  .peers = devices_->peers()}));
    }
    stages.push_back({part.part.get(), part.log.get()});
    states.push_back({&part.part->state(), &part.part->stream()});
  }
  streams_.resize(parts_.size());
  pipeline_ = std::make_unique<Pipeline>(std::move(stages), std::move(hand_offs),
                                         static_cast<size_t>(state_limits_.max_sequences));
  pool_ = std::make_unique<model::SequencePool>(state_limits_, states, stats_);
  return {};
}

// Where a device caches some experts of its layers, those adapt; where RAM is the fastest tier and holds some, those
// do.
Status Engine::start_adaptation() {
  if (config_.adapt_every == 0) return {};
  int64_t n_cached = 0;
  for (size_t i = 0; i < parts_.size(); i++) {
    const experts::PartNeeds& needs = request_.parts[i];
    const int64_t n_slots = plan_.parts[i].slots.n_slots();
    int64_t n_experts = 0;
    for (int l = needs.first_layer; l < needs.last_layer; l++) n_experts += request_.layout.layer(l).n_experts;
    n_cached += n_slots;
    if (n_slots == 0 || n_slots == n_experts) continue;
    EnginePart& part = parts_[i];
    ASSIGN_OR_RETURN(part.adaptation, Adaptation::create({.device = device_of(i),
                                                          .compute = part.part->stream(),
                                                          .cache = *part.part->cache(),
                                                          .source = *source_,
                                                          .layout = request_.layout,
                                                          .stats = stats_,
                                                          .resident = resident_,
                                                          .prior = *request_.profile,
                                                          .n_used = hp_.route.n_used,
                                                          .every = config_.adapt_every,
                                                          .first_layer = needs.first_layer,
                                                          .last_layer = needs.last_layer}));
    routing_.add(*part.adaptation);
  }
  const int64_t n_copied = std::ssize(plan_.resident.blobs());
  if (n_cached > 0 || n_copied == 0 || n_copied == std::ssize(request_.ranking)) return {};
  copy_adaptation_ = Adaptation::create(CopyAdaptationSpec{.copy = *resident_,
                                                           .layout = request_.layout,
                                                           .prior = *request_.profile,
                                                           .n_used = hp_.route.n_used,
                                                           .every = config_.adapt_every});
  routing_.add(*copy_adaptation_);
  return {};
}

Status Engine::save_profile() const {
  return counter_ ? counter_->profile().save(config_.expert_profile_save) : Status();
}

std::string Engine::cached_text() const {
  int64_t n_slots = 0;
  uint64_t slot_bytes = 0, ring_bytes = 0;
  bool borrowed = true;
  for (const experts::PartPlacement& part : plan_.parts) {
    n_slots += part.slots.n_slots();
    slot_bytes += part.slots.bytes();
    ring_bytes += part.ring.bytes();
    borrowed = borrowed && (part.ring.empty() || part.borrowed);
  }
  std::string cached;
  if (n_slots > 0) cached = format(", {} of them cached in {}", n_slots, format_bytes(slot_bytes));
  if (ring_bytes > 0) {
    cached += format(", prompts from {} rows stream the others through {}{}",
                     parts_.front().part->options().stream.min_rows, format_bytes(ring_bytes),
                     borrowed ? " of those" : "");
  }
  if (plan_.source == experts::SourceKind::kResident) {
    cached += format(", {} of them in {} of RAM over {} files", plan_.resident.blobs().size(),
                     format_bytes(plan_.experts_bytes), experts::source_name(plan_.below));
  }
  return cached;
}

// The devices, with their layers where there are several.
std::string Engine::device_text() const {
  std::string text;
  for (size_t i = 0; i < parts_.size(); i++) {
    const experts::PartNeeds& needs = request_.parts[i];
    text += format("{}{}", i == 0 ? "" : ", ", device_of(i).name());
    if (parts_.size() > 1) text += format(" (layers {} to {})", needs.first_layer, needs.last_layer - 1);
  }
  return text;
}

std::string Engine::describe() const {
  device::host::Compute& compute = host_->compute();
  std::string used;
  uint64_t weights_bytes = 0;
  for (size_t i = 0; i < parts_.size(); i++) {
    weights_bytes += request_.parts[i].weights_bytes;
    if (!on_host()) used += format("{} of {}, ", format_bytes(device_of(i).used_bytes()), device_of(i).name());
  }
  const bool any = hp_.n_expert_layers() > 0;
  const std::string of_them = any ? format("{} experts, {} used", hp_.route.n_experts, hp_.route.n_used) : "no experts";
  const std::string places = any ? format("experts {} ({}){}, other ", source_->name(),
                                          format_bytes(request_.layout.total_bytes()), cached_text())
                                 : "";
  return format("{}: {} layers, {}; on {} with {} kernels, {} threads; {}weights {}, context {} tokens, {}{} of RAM in "
                "use",
                hp_.arch, hp_.n_layers, of_them, device_text(), kernels::isa_name(compute.kernels().isa),
                compute.pool().n_threads(), places, format_bytes(weights_bytes), context(), used,
                format_bytes(devices_->host_bytes()));
}

void Engine::set_interrupt(const std::function<bool()>& interrupt) {
  for (EnginePart& part : parts_) part.part->set_interrupt(interrupt);
}

Status Engine::end_loan() {
  Status first;
  for (EnginePart& part : parts_) {
    Status status = part.part->give_back();
    if (first.ok()) first = std::move(status);
  }
  loan_overdue_ = !first.ok();
  return first;
}

Status Engine::settle_loans(int64_t n_rows, bool decode) {
  const bool may_stream = !decode || always_streams_;
  for (size_t i = 0; i < parts_.size(); i++) {
    EnginePart& part = parts_[i];
    // Where experts are stuck on their way to other places, the CPU computes the step.
    streams_[i] = may_stream && part.part->streams(n_rows) && (!part.adaptation || part.adaptation->settle());
  }
  if (loan_overdue_ || !may_stream) RETURN_IF_ERROR(end_loan());
  for (size_t i = 0; i < parts_.size(); i++) {
    EnginePart& part = parts_[i];
    if (streams_[i]) RETURN_IF_ERROR(part.part->borrow());
    if (part.adaptation && !part.part->lent()) part.adaptation->between_steps();
  }
  if (copy_adaptation_) copy_adaptation_->between_steps();
  return {};
}

Status Engine::check(std::span<const model::BatchRows> batch) const {
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
    n += rows.n();
    RETURN_IF_ERROR(rows.sequence->check_room(pipeline_->rows_under_way(*rows.sequence) + rows.n()));
  }
  ASSERT(n > 0);
  ASSERT(n <= step_limits_.max_rows);
  return {};
}

Status Engine::begin_step(std::span<const model::BatchRows> batch, bool in_prompt) {
  RETURN_IF_ERROR(check(batch));
  int64_t n = 0;
  for (const model::BatchRows& rows : batch) n += rows.n();
  RETURN_IF_ERROR(settle_loans(n, !in_prompt && n == static_cast<int64_t>(batch.size())));
  // Only once all can be served does one of them take blocks.
  for (const model::BatchRows& rows : batch) {
    RETURN_IF_ERROR(rows.sequence->reserve(pipeline_->rows_under_way(*rows.sequence) + rows.n()));
  }
  pipeline_->add(batch, streams_);
  return {};
}

Status Engine::turn() {
  RETURN_IF_ERROR(pipeline_->compute());
  RETURN_IF_ERROR(source_->health());
  RETURN_IF_ERROR(devices_->health());
  pipeline_->advance();
  const PipelinedStep* step = pipeline_->done();
  if (step == nullptr) return {};
  for (const model::BatchRows& rows : step->batch) {
    if (rows.sequence->failure().ok()) rows.sequence->advance(rows.n());
  }
  for (const EnginePart& part : parts_) {
    if (part.log) part.log->tell(step->number, routing_);
  }
  rows_in_step_ = step->n_rows;
  const uint64_t n_allocations = devices_->n_allocations();
  stats_.add(Counter::kDeviceAllocations,
             static_cast<int64_t>(n_allocations - std::exchange(n_allocations_, n_allocations)));
  stats_.add(Counter::kSteps);
  stats_.add(Counter::kTokensForward, step->n_rows);
  return {};
}

Status Engine::steps(StepSource& source, bool in_prompt) {
  const StallWatch::Work work(stall_watch_.get(), in_prompt ? "computing steps of prompts" : "computing steps");
  Status refused;
  for (bool more = true;;) {
    if (more) {
      const std::span<const model::BatchRows> batch = source.next();
      if (!batch.empty()) refused = begin_step(batch, in_prompt);
      more = !batch.empty() && refused.ok();
    }
    if (pipeline_->empty()) return refused;
    Status status = turn();
    if (status.ok() && pipeline_->done() != nullptr) status = source.done();
    if (status.ok()) continue;
    pipeline_->abandon();
    static_cast<void>(end_loan());
    return status;
  }
}

Status Engine::step(std::span<const model::BatchRows> batch, bool in_prompt) {
  class One final : public StepSource {
   public:
    explicit One(std::span<const model::BatchRows> batch) : batch_(batch) {}
    std::span<const model::BatchRows> next() override { return std::exchange(batch_, {}); }
    Status done() override { return {}; }

   private:
    std::span<const model::BatchRows> batch_;
  };
  One one(batch);
  RETURN_IF_ERROR(steps(one, in_prompt));
  const auto failed = [](const model::BatchRows& rows) { return !rows.sequence->failure().ok(); };
  if (!std::all_of(batch.begin(), batch.end(), failed)) return {};
  return batch.front().sequence->failure();
}

Status Engine::logits(std::span<const int32_t> rows, const LogitsSink& sink) {
  const StallWatch::Work work(stall_watch_.get(), "computing logits");
  for (size_t first = 0; first < rows.size(); first += static_cast<size_t>(step_limits_.max_outputs)) {
    const auto some = rows.subspan(first, std::min(static_cast<size_t>(step_limits_.max_outputs), rows.size() - first));
    for (const int32_t row : some) ASSERT(row >= 0 && row < rows_in_step_);
    model::Part& last = *parts_.back().part;
    if (last.head(some)) RETURN_IF_ERROR(last.finish());
    RETURN_IF_ERROR(source_->health());
    RETURN_IF_ERROR(devices_->health());
    for (size_t i = 0; i < some.size(); i++) {
      RETURN_IF_ERROR(
          last.logits(static_cast<int64_t>(i), [&](std::span<const float> row) { return sink(some[i], row); }));
    }
  }
  return {};
}

Status Engine::prefill(model::SequenceState& sequence, std::span<const int32_t> ids, const ChunkDone& chunk_done) {
  class Chunks final : public StepSource {
   public:
    Chunks(model::SequenceState& sequence, std::span<const int32_t> ids, size_t max_rows, const ChunkDone& chunk_done)
        : rows_{&sequence, {}}, ids_(ids), max_rows_(max_rows), chunk_done_(chunk_done) {}
    std::span<const model::BatchRows> next() override {
      rows_.ids = ids_.subspan(begun_, std::min(max_rows_, ids_.size() - begun_));
      begun_ += rows_.ids.size();
      return {&rows_, rows_.ids.empty() ? 0u : 1u};
    }
    Status done() override {
      RETURN_IF_ERROR(rows_.sequence->failure());
      const size_t first = done_;
      const size_t n = std::min(max_rows_, ids_.size() - first);
      done_ += n;
      return chunk_done_ ? chunk_done_(static_cast<int64_t>(first), static_cast<int64_t>(n)) : Status();
    }

   private:
    model::BatchRows rows_;
    std::span<const int32_t> ids_;
    size_t max_rows_, begun_ = 0, done_ = 0;
    const ChunkDone& chunk_done_;
  };
  Chunks chunks(sequence, ids, static_cast<size_t>(step_limits_.max_rows), chunk_done);
  return steps(chunks, true);
}

}  // namespace strata::engine
