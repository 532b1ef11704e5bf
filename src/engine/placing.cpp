#include "engine/placing.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/shared_file.h"
#include "base/topology.h"
#include "engine/adaptation.h"
#include "engine/hand_off.h"
#include "experts/sources/direct.h"
#include "model/expert_layout.h"

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
      .stream = {},
      .table = {.kind = config.table}};
  options.blob_bytes = layout.largest_blob_bytes();
  if (!on_host) options.stream.ring = experts::RingPlan::make(layout, UINT64_MAX);
  options.stream.borrowed = config.prefill_borrow && cached;
  return options;
}

// Layers that a device computes.
struct Run {
  size_t device;
  int first, last;
};

bool has_cache(const PlacingSpec& spec, const PlannedDevice& device) {
  return spec.config.expert_cache.value_or(device.on_host ? 0 : 1) > 0;
}

Result<model::PartBytes> part_bytes(const PlacingSpec& spec, const experts::ExpertLayout& layout, const Run& run) {
  const PlannedDevice& device = spec.devices[run.device];
  return model::Part::measure(spec.model, spec.arch, spec.hp, run.first, run.last,
                              measured_options(spec, layout, device.on_host, has_cache(spec, device)));
}

Result<experts::PartNeeds> measure_part(const PlacingSpec& spec, const experts::ExpertLayout& layout, const Run& run) {
  const PlannedDevice& device = spec.devices[run.device];
  const bool cached = has_cache(spec, device);
  ASSIGN_OR_RETURN(const model::PartBytes bytes, part_bytes(spec, layout, run));
  // As if there were a resident copy: the buffers of exchanges are few.
  const bool adapts = cached && spec.config.adapt_every > 0;
  const uint64_t swaps = adapts ? Adaptation::bytes_needed(layout, true) : 0;
  return experts::PartNeeds{.device = device.name,
                            .device_index = run.device,
                            .first_layer = run.first,
                            .last_layer = run.last,
                            .on_host = device.on_host,
                            .budget_bytes = device.budget_bytes,
                            .weights_bytes = bytes.weights,
                            .state_bytes = bytes.state,
                            .context_tokens = limits_of(spec.hp, spec.config).state.max_tokens,
                            .step_bytes = bytes.step + (device.on_host ? swaps : 0),
                            .host_bytes = bytes.host + (device.on_host ? 0 : swaps)};
}

// What a part takes beside that because there are others: what it is handed over, and what it tells.
void add_sharing(const PlacingSpec& spec, size_t n_parts, experts::PartNeeds& needs) {
  if (n_parts == 1) return;
  const model::StepLimits limits = limits_of(spec.hp, spec.config).step;
  needs.host_bytes += RoutingLog::bytes_needed(
      routing_log_spec(spec.hp, limits, needs.first_layer, needs.last_layer, n_parts));
  if (needs.first_layer == 0) return;
  const HandOffBytes way = HandOff::bytes_needed(limits.max_rows, spec.hp.hidden_width(), spec.peers);
  needs.step_bytes += way.device;
  needs.host_bytes += way.host;
}

uint64_t tensor_bytes(const gguf::Model& model, const char* name) {
  const gguf::TensorInfo* tensor = model.find_tensor(name);
  return tensor == nullptr ? 0 : tensor->bytes;
}

// The layers without the embedding and the head, which the first and the last one are measured with.
Result<std::vector<SplitLayer>> split_layers_of(const PlacingSpec& spec, const experts::ExpertLayout& layout,
                                                uint64_t embedding_bytes, uint64_t head_bytes) {
  std::vector<SplitLayer> layers;
  for (int l = 0; l < spec.hp.n_layers; l++) {
    ASSIGN_OR_RETURN(const model::PartBytes bytes, part_bytes(spec, layout, {0, l, l + 1}));
    const uint64_t ends = (l == 0 ? embedding_bytes : 0) + (l + 1 == spec.hp.n_layers ? head_bytes : 0);
    const experts::LayerLayout& layer = layout.layer(l);
    layers.push_back({.weights_bytes = bytes.tensors - std::min(bytes.tensors, ends),
                      .state_bytes = bytes.state,
                      .experts_bytes = layer.blob_bytes() * static_cast<uint64_t>(layer.n_experts),
                      .used_bytes = layer.blob_bytes() * static_cast<uint64_t>(spec.hp.route.n_used)});
  }
  return layers;
}

Result<std::vector<SplitDevice>> split_devices_of(const PlacingSpec& spec, const experts::ExpertLayout& layout) {
  std::vector<SplitDevice> devices;
  for (size_t d = 0; d < spec.devices.size(); d++) {
    const Run all{d, 0, spec.hp.n_layers};
    ASSIGN_OR_RETURN(const model::PartBytes bytes, part_bytes(spec, layout, all));
    ASSIGN_OR_RETURN(const experts::PartNeeds whole, measure_part(spec, layout, all));
    ASSIGN_OR_RETURN(experts::PartNeeds other,
                     measure_part(spec, layout, {d, 0, std::max(spec.hp.n_layers - 1, 1)}));
    const uint64_t step_bytes = other.step_bytes;
    other.first_layer = 1;  // to be handed something
    add_sharing(spec, spec.devices.size(), other);
    devices.push_back({.budget_bytes = spec.devices[d].budget_bytes,
                       .fixed_bytes = bytes.weights - bytes.tensors + step_bytes +
                                      experts::ExpertCache::overhead(layout).device,
                       .received_bytes = other.step_bytes - step_bytes,
                       .head_bytes = whole.step_bytes - std::min(whole.step_bytes, step_bytes),
                       .rates = spec.devices[d].rates});
  }
  return devices;
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

// Without the devices that have no layers.
std::vector<Run> runs_of(std::span<const int> counts) {
  std::vector<Run> runs;
  int first = 0;
  for (size_t d = 0; d < counts.size(); d++) {
    if (counts[d] > 0) runs.push_back({d, first, first + counts[d]});
    first += counts[d];
  }
  return runs;
}

std::vector<int> split_in_proportion(std::span<const SplitLayer> layers, std::span<const SplitDevice> devices) {
  std::vector<uint64_t> layer_bytes, budgets;
  for (const SplitLayer& layer : layers) {
    layer_bytes.push_back(layer.weights_bytes + layer.state_bytes + layer.experts_bytes);
  }
  for (const SplitDevice& device : devices) budgets.push_back(device.budget_bytes);
  std::vector<int> counts(devices.size());
  const std::vector<int> ends = split_layers(layer_bytes, budgets);
  for (size_t d = 0; d < ends.size(); d++) counts[d] = ends[d] - (d == 0 ? 0 : ends[d - 1]);
  return counts;
}

std::string chosen_text(const PlacingSpec& spec, const LayerSplit& split, int64_t rows) {
  std::string left_out;
  for (size_t d = 0; d < split.counts.size(); d++) {
    if (split.counts[d] == 0) left_out += format("{}{}", left_out.empty() ? "" : ", ", spec.devices[d].name);
  }
  if (!left_out.empty()) left_out = format("; {} would not make that faster, so no layers are there", left_out);
  return format("layer split {}, as auto chooses: {} rows of a prompt are predicted to take {:.1f} ms, a token {:.2f} "
                "ms{}",
                split_text(split.counts), rows, split.times.chunk_s * 1e3, split.times.token_s * 1e3, left_out);
}

// Which layers each device computes, and why.
Result<std::vector<Run>> choose_runs(const PlacingSpec& spec, const experts::ExpertLayout& layout, std::string& why) {
  const std::vector<int>& asked = spec.config.layer_split;
  if (!asked.empty()) {
    RETURN_IF_ERROR(check_split(asked, spec.devices.size(), spec.hp.n_layers));
    if (asked.size() > 1) why = format("layer split {}, as asked for", split_text(asked));
    return runs_of(asked);
  }
  if (spec.devices.size() == 1) return std::vector<Run>{{0, 0, spec.hp.n_layers}};
  const uint64_t embedding = tensor_bytes(spec.model, "token_embd.weight");
  const uint64_t output = tensor_bytes(spec.model, "output.weight");
  const uint64_t head = output > 0 ? output : embedding;
  ASSIGN_OR_RETURN(const std::vector<SplitLayer> layers, split_layers_of(spec, layout, embedding, head));
  ASSIGN_OR_RETURN(const std::vector<SplitDevice> devices, split_devices_of(spec, layout));
  const int64_t rows = limits_of(spec.hp, spec.config).step.max_rows;
  const int64_t stream_rows = spec.config.stream_rows.value_or(
      experts::auto_stream_rows(spec.hp.route.n_experts, spec.hp.route.n_used));
  const std::optional<LayerSplit> chosen = choose_split({.layers = layers,
                                                         .devices = devices,
                                                         .first_bytes = embedding,
                                                         .last_bytes = head,
                                                         .cpu_bytes_per_s = spec.cpu_bytes_per_s,
                                                         .chunk_rows = rows,
                                                         .streams = rows >= stream_rows});
  if (!chosen) return runs_of(split_in_proportion(layers, devices));
  why = chosen_text(spec, *chosen, rows);
  return runs_of(chosen->counts);
}

}  // namespace

DeviceRates rates_of(const device::sim::DeviceSpec& device) {
  return {.memory_bytes_per_s = static_cast<double>(device.mem_bytes_per_s),
          .link_bytes_per_s = static_cast<double>(device.link_bytes_per_s),
          .flops_per_s = static_cast<double>(device.compute_flops_per_s)};
}

RoutingLogSpec routing_log_spec(const model::HParams& hp, const model::StepLimits& limits, int first, int last,
                                size_t n_parts) {
  return {.first = first,
          .last = last,
          .n_steps = static_cast<int>(n_parts),
          .max_rows = limits.max_rows,
          .n_used = hp.route.n_used};
}

void settle_chunk(std::span<const PlannedDevice> devices, EngineConfig& config) {
  const auto is_large = [](const PlannedDevice& d) { return d.budget_bytes >= kLongGpuChunkBudget; };
  if (config.chunk_may_grow && std::all_of(devices.begin(), devices.end(), is_large)) config.chunk = kLongGpuChunk;
}

StepAndState limits_of(const model::HParams& hp, const EngineConfig& config) {
  const int64_t context = config.context > 0 ? config.context : std::min(hp.context_length, kAutoContext);
  StepAndState limits;
  limits.step.max_rows = std::max(static_cast<int>(std::min<int64_t>(config.chunk, context)), config.max_sequences);
  limits.step.max_outputs = std::min(kMaxOutputs, limits.step.max_rows);
  limits.state = {
      .max_sequences = config.max_sequences, .max_checkpoints = config.max_checkpoints, .max_tokens = context};
  return limits;
}

Result<model::HParams> hparams_of(const gguf::Model& model, const model::ArchInfo& arch, const EngineConfig& config) {
  ASSIGN_OR_RETURN(model::HParams hp, arch.read(model::Keys(model, arch.name, &config.rope)));
  hp.long_context = static_cast<double>(limits_of(hp, config).state.max_tokens) > hp.rope.original_context;
  return hp;
}

Result<uint64_t> usable_ram(const EngineConfig& config) {
  if (config.ram_bytes > 0) return config.ram_bytes;
  ASSIGN_OR_RETURN(uint64_t available, available_ram_bytes());
  // What the shared arena has is this engine's as well, so it still has the room that the plan counts for it.
  if (!config.shared_arena.empty()) available += own_memory_bytes(config.shared_arena);
  return available -
         std::min(available, config.ram_headroom_bytes.value_or(std::min(kAutoHeadroomBytes, available / 4)));
}

Result<PlacementRequest> placement_request(const PlacingSpec& spec) {
  PlacementRequest request;
  request.model = spec.model.path();
  ASSIGN_OR_RETURN(request.layout, model::expert_layout(spec.model, spec.hp));
  ASSIGN_OR_RETURN(const std::vector<Run> runs, choose_runs(spec, request.layout, request.split));
  for (const Run& run : runs) {
    ASSIGN_OR_RETURN(experts::PartNeeds needs, measure_part(spec, request.layout, run));
    add_sharing(spec, runs.size(), needs);
    request.parts.push_back(std::move(needs));
  }
  ASSIGN_OR_RETURN(request.profile, profile_of(spec, request.layout));
  request.ranking = request.profile->ranking(request.layout);
  request.ram_bytes = spec.ram_bytes;
  const auto n_buffers = static_cast<uint64_t>(stage_buffers(spec.hp.route.n_used, runs.size()));
  request.options = {.source = source_of(spec.config.experts),
                     .cache_slots = spec.config.expert_cache,
                     .cache_min_slots = spec.config.cache_min_slots,
                     .prefill_borrow = spec.config.prefill_borrow,
                     .lend_regions = spec.config.lend_regions,
                     .resident_budget_bytes = spec.config.resident_budget_bytes,
                     .shared_arena = spec.config.shared_arena,
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
