#include "engine/engine.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "base/topology.h"
#include "experts/lend_region.h"
#include "experts/streamed_ring.h"

namespace strata::engine {
namespace {

// Rows of the head computed at once: enough to share each row of the output matrix, few enough that the logits of a
// large vocabulary stay small.
constexpr int kMaxOutputs = 32;

ThreadPoolOptions thread_options(const EngineConfig& config) {
  const Topology topology = read_topology();
  ThreadPoolOptions options;
  options.cpus = config.cpus.empty() ? topology.physical_cores : config.cpus;
  options.n_threads = config.threads > 0 ? config.threads : static_cast<int>(options.cpus.size());
  // More threads than cores share them as the system sees fit.
  if (options.n_threads > static_cast<int>(options.cpus.size())) options.cpus.clear();
  return options;
}

// RAM that the engine may fill.
Result<uint64_t> usable_ram(const EngineConfig& config) {
  if (config.ram_bytes > 0) return config.ram_bytes;
  ASSIGN_OR_RETURN(const uint64_t available, available_ram_bytes());
  return available -
         std::min(available, config.ram_headroom_bytes.value_or(std::min(kAutoHeadroomBytes, available / 4)));
}

// Every MoE layer needs the experts that the layout may lack.
Status check_layout(const gguf::Model& model, const experts::ExpertLayout& layout) {
  for (size_t i = 0; i < layout.layers().size(); i++) {
    if (layout.layers()[i].n_experts == 0) {
      return Error{ErrorCode::kBadInput, format("{}: tensor blk.{}.ffn_gate_exps.weight is missing", model.path(), i)};
    }
  }
  return {};
}

}  // namespace

Engine::~Engine() {
  // Streams and buffers go before the device they belong to.
  pool_.reset();
  part_.reset();
  source_.reset();
}

Result<std::unique_ptr<Engine>> Engine::open(const gguf::Model& model, const EngineConfig& config, Stats& stats) {
  std::unique_ptr<Engine> engine(new Engine(model, stats));
  RETURN_IF_ERROR(engine->choose(config));
  RETURN_IF_ERROR(engine->load());
  log_info("{}", engine->describe());
  return engine;
}

Status Engine::choose(const EngineConfig& config) {
  config_ = config;
  ASSIGN_OR_RETURN(arch_, model::find_architecture(model_));
  ASSIGN_OR_RETURN(hp_, arch_->read(model::Keys(model_, arch_->name)));
  ASSIGN_OR_RETURN(
      layout_, experts::ExpertLayout::from_model(model_, hp_.n_layers, hp_.dim, hp_.expert_ffn, hp_.route.n_experts));
  RETURN_IF_ERROR(check_layout(model_, layout_));
  const int64_t context = config.context > 0 ? config.context : std::min(hp_.context_length, kAutoContext);
  step_limits_.max_rows = std::max(static_cast<int>(std::min<int64_t>(config.chunk, context)), config.max_sequences);
  step_limits_.max_outputs = std::min(kMaxOutputs, step_limits_.max_rows);
  state_limits_ = {
      .max_sequences = config.max_sequences, .max_checkpoints = config.max_checkpoints, .max_tokens = context};

  ASSIGN_OR_RETURN(const uint64_t ram, usable_ram(config));
  RETURN_IF_ERROR(open_devices(ram));
  RETURN_IF_ERROR(choose_slots(ram));
  return choose_source(ram);
}

Status Engine::open_devices(uint64_t ram) {
  ASSIGN_OR_RETURN(const kernels::Kernels* kernels, kernels::select_kernels(config_.isa.c_str()));
  host_ = std::make_unique<device::host::HostDevice>(
      device::host::HostDeviceOptions{.budget_bytes = ram, .threads = thread_options(config_), .kernels = kernels});
  device_ = host_.get();
  if (config_.device == "cpu") return {};
  device::sim::SimOptions options;
  options.kernels = kernels;
  Result<std::unique_ptr<device::sim::SimMachine>> machine = device::sim::make_sim(config_.device, options);
  if (!machine.ok()) return machine.error();
  machine_ = std::move(machine).value();
  if (machine_->n_devices() > 1) {
    return Error{ErrorCode::kUnsupported,
                 format("--device {}: a model runs on one device; name one", printable(config_.device))};
  }
  device_ = &machine_->device(0);
  return {};
}

model::PartOptions Engine::part_options(bool cached) const {
  return {.step = step_limits_,
          .state = state_limits_,
          .kv_type = config_.kv_type,
          .numeric = {.deterministic = config_.deterministic, .round_activations = config_.round_activations},
          .use_graphs = config_.use_graphs,
          .on_host = on_host(),
          .cached = cached,
          .cache_min_slots = config_.cache_min_slots,
          .stream = stream_};
}

std::string Engine::parts_of_bytes() const {
  return format("weights {} + context of {} tokens {} + step buffers {}", format_bytes(bytes_.weights),
                state_limits_.max_tokens, format_bytes(bytes_.state), format_bytes(bytes_.step));
}

// The cache takes what everything else leaves of the device.
Status Engine::choose_slots(uint64_t ram) {
  const std::vector<experts::ExpertKey> ranking = experts::even_ranking(layout_);
  const auto n_experts = static_cast<int64_t>(ranking.size());
  const int64_t wanted = std::min(n_experts, config_.expert_cache.value_or(on_host() ? 0 : n_experts));
  ASSIGN_OR_RETURN(bytes_, model::Part::measure(model_, *arch_, hp_, 0, hp_.n_layers, part_options(wanted > 0)));
  const uint64_t budget = on_host() ? ram : device_->budget_bytes();
  if (!on_host() && bytes_.device() > budget) {
    return Error{ErrorCode::kNoMemory, format("{}: {} do not fit into the {} of {}; lower --ctx or --chunk",
                                              model_.path(), parts_of_bytes(), format_bytes(budget), device_->name())};
  }
  if (wanted == 0) return choose_ring(ranking);
  const experts::CacheBytes overhead = experts::ExpertCache::overhead(layout_);
  const uint64_t others = bytes_.device() + overhead.device + (on_host() ? overhead.host : 0);
  ASSIGN_OR_RETURN(slots_,
                   experts::SlotPlan::make(layout_, ranking,
                                           {.budget_bytes = budget - std::min(budget, others), .max_slots = wanted}));
  if (config_.expert_cache && slots_.n_slots() < wanted) {
    return Error{ErrorCode::kNoMemory,
                 format("--expert-cache {}: {} has room for {} slots beside {}; lower it or --ctx",
                        *config_.expert_cache, device_->name(), slots_.n_slots(), parts_of_bytes())};
  }
  return choose_ring(ranking);
}

// What prompts stream missing experts through. Memory of its own comes before the cache, except before slots that were
// asked for; where there is no room for a ring, the CPU computes those experts, and the slots stay as they are.
Status Engine::choose_ring(std::span<const experts::ExpertKey> ranking) {
  const auto n_experts = static_cast<int64_t>(ranking.size());
  if (on_host() || slots_.n_slots() == n_experts) return {};
  const bool cached = config_.expert_cache.value_or(n_experts) > 0;
  model::StreamOptions stream{.ring = experts::RingPlan::make(layout_, UINT64_MAX),
                              .borrowed = config_.prefill_borrow && cached,
                              .min_rows = config_.stream_rows.value_or(
                                  experts::auto_stream_rows(hp_.route.n_experts, hp_.route.n_used))};
  const auto measure = [&] {
    model::PartOptions options = part_options(cached);
    options.stream = stream;
    return model::Part::measure(model_, *arch_, hp_, 0, hp_.n_layers, options);
  };
  ASSIGN_OR_RETURN(const model::PartBytes largest, measure());
  const uint64_t others =
      largest.device() - largest.ring + (cached ? experts::ExpertCache::overhead(layout_).device : 0);
  uint64_t room = device_->budget_bytes() - std::min(device_->budget_bytes(), others);
  if (!stream.borrowed) {
    stream.ring = experts::RingPlan::make(layout_, room - std::min(room, config_.expert_cache ? slots_.bytes() : 0));
    room -= stream.ring.bytes();
  }
  const int64_t wanted = std::min(n_experts, config_.expert_cache.value_or(n_experts));
  ASSIGN_OR_RETURN(experts::SlotPlan slots,
                   experts::SlotPlan::make(layout_, ranking, {.budget_bytes = room, .max_slots = wanted}));
  if (stream.borrowed) {
    const int64_t kept = experts::slots_kept(slots.n_slots(), {.min_slots = config_.cache_min_slots});
    stream.ring = experts::RingPlan::make(layout_, slots.lendable_bytes(kept));
  }
  if (stream.ring.empty() || (config_.expert_cache && slots.n_slots() < slots_.n_slots())) return {};
  ASSIGN_OR_RETURN(bytes_, measure());
  stream_ = stream;
  slots_ = std::move(slots);
  return {};
}

// The arena where it fits beside everything else, else the mapped file; an error where what must be in RAM does not
// fit.
Status Engine::choose_source(uint64_t ram) {
  const experts::CacheBytes cache = experts::ExpertCache::bytes_needed(layout_, slots_);
  const uint64_t needed = bytes_.host + cache.host + (on_host() ? bytes_.device() + cache.device : 0);
  const uint64_t arena = layout_.total_bytes();
  const bool fits = needed + arena <= ram;
  if (config_.experts == ExpertPlace::kAuto) config_.experts = fits ? ExpertPlace::kArena : ExpertPlace::kMapped;
  const bool wants_arena = config_.experts == ExpertPlace::kArena;
  if (needed <= ram && (fits || !wants_arena)) return {};
  std::string parts =
      on_host() ? parts_of_bytes() : format("host buffers of {} {}", device_->name(), format_bytes(needed));
  if (on_host() && slots_.n_slots() > 0) parts += format(" + expert cache {}", format_bytes(cache.device + cache.host));
  if (wants_arena) parts += format(" + experts {}", format_bytes(arena));
  return Error{ErrorCode::kNoMemory,
               format("{}: {} do not fit into the {} of RAM that may be used; {}lower --ctx, or set --ram-gib or "
                      "--ram-headroom-gib",
                      model_.path(), parts, format_bytes(ram), wants_arena ? "use --experts mapped, " : "")};
}

Status Engine::load() {
  if (config_.experts == ExpertPlace::kArena) {
    ASSIGN_OR_RETURN(source_, experts::make_arena_source(model_, layout_, *host_, host_->compute().pool(), stats_));
  } else {
    ASSIGN_OR_RETURN(source_, experts::make_mapped_source(model_, layout_, stats_));
  }
  const model::PartSpec spec{.model = model_,
                             .arch = *arch_,
                             .hp = hp_,
                             .layout = layout_,
                             .source = *source_,
                             .device = *device_,
                             .compute = host_->compute(),
                             .stats = stats_,
                             .first = 0,
                             .last = hp_.n_layers,
                             .slots = slots_};
  ASSIGN_OR_RETURN(part_, model::Part::create(spec, part_options(slots_.n_slots() > 0)));
  const std::vector<model::SequencePool::PartState> parts = {{&part_->state(), &part_->stream()}};
  pool_ = std::make_unique<model::SequencePool>(state_limits_, parts, stats_);
  return {};
}

std::string Engine::describe() const {
  device::host::Compute& compute = host_->compute();
  std::string cached;
  if (slots_.n_slots() > 0) {
    cached = format(", {} of them cached in {}", slots_.n_slots(), format_bytes(slots_.bytes()));
  }
  if (!stream_.ring.empty()) {
    cached += format(", prompts from {} rows stream the others through {}{}", stream_.min_rows,
                     format_bytes(stream_.ring.bytes()), stream_.borrowed ? " of those" : "");
  }
  std::string used = format("{} of RAM in use", format_bytes(host_->used_bytes()));
  if (machine_) {
    used = format("{} of {} and {} of RAM in use", format_bytes(device_->used_bytes()), device_->name(),
                  format_bytes(host_->used_bytes() + machine_->host_bytes()));
  }
  return format(
      "{}: {} layers, {} experts, {} used; on {} with {} kernels, {} threads; experts {} ({}){}, other weights {}, "
      "context {} tokens, {}",
      hp_.arch, hp_.n_layers, hp_.route.n_experts, hp_.route.n_used, device_->name(),
      kernels::isa_name(compute.kernels().isa), compute.pool().n_threads(), source_->name(),
      format_bytes(layout_.total_bytes()), cached, format_bytes(bytes_.weights), context(), used);
}

Status Engine::finish_step() {
  Status status = part_->finish();
  if (status.ok()) status = source_->health();
  if (status.ok() && machine_) status = machine_->health();
  return status;
}

Status Engine::end_loan() {
  Status status = part_->give_back();
  loan_overdue_ = !status.ok();
  return status;
}

Status Engine::settle_loan(bool streams, bool decode) {
  if (loan_overdue_ || decode) RETURN_IF_ERROR(end_loan());
  return streams ? part_->borrow() : Status();
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
  const bool streams = !decode && part_->streams(n);
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
