#include "engine/placing.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/topology.h"
#include "engine/adaptation.h"
#include "experts/sources/direct.h"

namespace strata::engine {
namespace {

using experts::SourceKind;

std::optional<SourceKind> source_of(ExpertPlace place) {
  switch (place) {
    case ExpertPlace::kAuto:
      return std::nullopt;
    case ExpertPlace::kArena:
      return SourceKind::kArena;
    case ExpertPlace::kResident:
      return SourceKind::kResident;
    case ExpertPlace::kMapped:
      return SourceKind::kMapped;
    case ExpertPlace::kDirect:
      return SourceKind::kDirect;
  }
  return std::nullopt;
}

// Every MoE layer needs the experts that the layout may lack.
Status check_layout(const gguf::Model& model, const experts::ExpertLayout& layout) {
  for (size_t i = 0; i < layout.layers().size(); i++) {
    if (layout.layers()[i].n_experts > 0) continue;
    return Error{ErrorCode::kBadInput, format("{}: tensor blk.{}.ffn_gate_exps.weight is missing", model.path(), i)};
  }
  return {};
}

// Whether all files of the model can be read past the system's cache.
bool has_direct_reads(const gguf::Model& model) {
  return std::all_of(model.shards().begin(), model.shards().end(),
                     [](const gguf::Shard& shard) { return real_file_system().open_direct(shard.path).ok(); });
}

model::PartOptions measured_options(const PlacingSpec& spec, const experts::ExpertLayout& layout, bool on_host,
                                    bool cached) {
  const EngineConfig& config = spec.config;
  const StepAndState limits = limits_of(spec.hp, config);
  model::PartOptions options{
      .step = limits.step,
      .state = limits.state,
      .kv_type = config.kv_type,
      .numeric = {.deterministic = config.deterministic, .round_activations = config.round_activations},
      .use_graphs = config.use_graphs,
      .on_host = on_host,
      .cached = cached,
      .cache_min_slots = config.cache_min_slots,
      .stream = {}};
  if (!on_host) options.stream.ring = experts::RingPlan::make(layout, UINT64_MAX);
  options.stream.borrowed = config.prefill_borrow && cached;
  return options;
}

Result<experts::PartNeeds> measure_part(const PlacingSpec& spec, const experts::ExpertLayout& layout,
                                        const PlannedDevice& device, int first, int last) {
  const bool cached = spec.config.expert_cache.value_or(device.on_host ? 0 : 1) > 0;
  ASSIGN_OR_RETURN(const model::PartBytes bytes,
                   model::Part::measure(spec.model, spec.arch, spec.hp, first, last,
                                        measured_options(spec, layout, device.on_host, cached)));
  // As if there were a resident copy: the buffers of exchanges are few.
  const bool adapts = cached && spec.config.adapt_every > 0;
  const uint64_t swaps = adapts ? Adaptation::bytes_needed(layout, true) : 0;
  return experts::PartNeeds{.device = device.name,
                            .first_layer = first,
                            .last_layer = last,
                            .on_host = device.on_host,
                            .budget_bytes = device.budget_bytes,
                            .weights_bytes = bytes.weights,
                            .state_bytes = bytes.state,
                            .context_tokens = limits_of(spec.hp, spec.config).state.max_tokens,
                            .step_bytes = bytes.step + (device.on_host ? swaps : 0),
                            .host_bytes = bytes.host + (device.on_host ? 0 : swaps)};
}

// What each layer takes with all its experts, and the layers at the ends with the embedding and the head.
Result<std::vector<uint64_t>> layer_bytes(const PlacingSpec& spec, const experts::ExpertLayout& layout) {
  std::vector<uint64_t> all;
  for (int l = 0; l < spec.hp.n_layers; l++) {
    ASSIGN_OR_RETURN(const experts::PartNeeds needs, measure_part(spec, layout, spec.devices.front(), l, l + 1));
    const experts::LayerLayout& layer = layout.layer(l);
    all.push_back(needs.weights_bytes + needs.state_bytes +
                  layer.blob_bytes() * static_cast<uint64_t>(layer.n_experts));
  }
  return all;
}

Result<experts::ExpertProfile> profile_of(const PlacingSpec& spec, const experts::ExpertLayout& layout) {
  experts::ExpertProfile profile(experts::RoutedModel::of(spec.model, layout));
  const std::string& path = spec.config.expert_profile;
  if (path.empty()) return profile;
  const Result<experts::ExpertProfile> given = experts::ExpertProfile::load(real_file_system(), path);
  Status status = given.ok() ? profile.merge(*given, path) : Status(given.error());
  if (!status.ok()) {
    return Error{status.error().code,
                 format("--expert-profile: {}; strata profile record makes one", status.error().message)};
  }
  return profile;
}

Result<std::vector<int>> run_ends(const PlacingSpec& spec, const experts::ExpertLayout& layout) {
  if (spec.devices.size() == 1) return std::vector<int>{spec.hp.n_layers};
  ASSIGN_OR_RETURN(const std::vector<uint64_t> layers, layer_bytes(spec, layout));
  std::vector<uint64_t> budgets;
  for (const PlannedDevice& device : spec.devices) {
    budgets.push_back(device.on_host ? spec.ram_bytes : device.budget_bytes);
  }
  return split_layers(layers, budgets);
}

}  // namespace

StepAndState limits_of(const model::HParams& hp, const EngineConfig& config) {
  const int64_t context = config.context > 0 ? config.context : std::min(hp.context_length, kAutoContext);
  StepAndState limits;
  limits.step.max_rows = std::max(static_cast<int>(std::min<int64_t>(config.chunk, context)), config.max_sequences);
  limits.step.max_outputs = std::min(kMaxOutputs, limits.step.max_rows);
  limits.state = {
      .max_sequences = config.max_sequences, .max_checkpoints = config.max_checkpoints, .max_tokens = context};
  return limits;
}

Result<uint64_t> usable_ram(const EngineConfig& config) {
  if (config.ram_bytes > 0) return config.ram_bytes;
  ASSIGN_OR_RETURN(const uint64_t available, available_ram_bytes());
  return available -
         std::min(available, config.ram_headroom_bytes.value_or(std::min(kAutoHeadroomBytes, available / 4)));
}

Result<PlacementRequest> placement_request(const PlacingSpec& spec) {
  PlacementRequest request;
  request.model = spec.model.path();
  ASSIGN_OR_RETURN(request.layout, experts::ExpertLayout::from_model(spec.model, spec.hp.n_layers, spec.hp.dim,
                                                                     spec.hp.expert_ffn, spec.hp.route.n_experts));
  RETURN_IF_ERROR(check_layout(spec.model, request.layout));
  ASSIGN_OR_RETURN(const std::vector<int> ends, run_ends(spec, request.layout));
  for (size_t i = 0; i < ends.size(); i++) {
    const int first = i == 0 ? 0 : ends[i - 1];
    ASSIGN_OR_RETURN(experts::PartNeeds needs, measure_part(spec, request.layout, spec.devices[i], first, ends[i]));
    request.parts.push_back(std::move(needs));
  }
  ASSIGN_OR_RETURN(request.profile, profile_of(spec, request.layout));
  request.ranking = request.profile->ranking(request.layout);
  request.ram_bytes = spec.ram_bytes;
  const auto n_buffers = static_cast<uint64_t>(stage_buffers(spec.hp.route.n_used));
  request.options = {.source = source_of(spec.config.experts),
                     .cache_slots = spec.config.expert_cache,
                     .cache_min_slots = spec.config.cache_min_slots,
                     .prefill_borrow = spec.config.prefill_borrow,
                     .resident_budget_bytes = spec.config.resident_budget_bytes,
                     .direct_reads = has_direct_reads(spec.model),
                     .stage_bytes = n_buffers * experts::direct_buffer_bytes(request.layout)};
  return request;
}

std::vector<int> split_layers(std::span<const uint64_t> layer_bytes, std::span<const uint64_t> budgets) {
  const auto n_layers = static_cast<int>(layer_bytes.size());
  const int n_runs = std::min(n_layers, static_cast<int>(budgets.size()));
  budgets = budgets.first(static_cast<size_t>(n_runs));
  const auto sum = [](std::span<const uint64_t> values) { return std::accumulate(values.begin(), values.end(), 0.0); };
  const double bytes = sum(layer_bytes), budget = sum(budgets);
  std::vector<int> ends;
  int end = 0;
  double taken = 0, share = 0;
  for (int run = 0; run < n_runs; run++) {
    share += static_cast<double>(budgets[static_cast<size_t>(run)]);
    const double wanted = budget > 0 ? bytes * share / budget : bytes;
    const int last = n_layers - (n_runs - 1 - run);  // the runs behind have a layer each
    taken += static_cast<double>(layer_bytes[static_cast<size_t>(end++)]);
    // On to the border that is nearest to the run's share.
    for (; end < last; end++) {
      const auto next = static_cast<double>(layer_bytes[static_cast<size_t>(end)]);
      if (run + 1 < n_runs && taken + next / 2 > wanted) break;
      taken += next;
    }
    ends.push_back(end);
  }
  return ends;
}

}  // namespace strata::engine
