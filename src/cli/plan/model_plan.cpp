#include "cli/plan/model_plan.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/format.h"
#include "cli/bench/team.h"
#include "cli/bench/traffic.h"
#include "device/cuda/cuda.h"
#include "device/sim/spec.h"
#include "engine/devices.h"
#include "engine/link_rates.h"

namespace strata::cli {
namespace {

// What is no expert, of a token near the start of its context, shared out to the parts like their weights.
Result<std::vector<uint64_t>> dense_bytes(const gguf::Model& model, const model::HParams& hp,
                                          const engine::EngineConfig& config,
                                          const std::vector<experts::PartNeeds>& parts) {
  ASSIGN_OR_RETURN(const Traffic traffic, Traffic::of(model, hp, config.kv_type));
  const auto all = static_cast<double>(traffic.step_bytes({.first = 0, .n = 1, .experts = 0, .head = true}));
  double weights = 0;
  for (const experts::PartNeeds& part : parts) weights += static_cast<double>(part.weights_bytes);
  std::vector<uint64_t> bytes;
  for (const experts::PartNeeds& part : parts) {
    bytes.push_back(static_cast<uint64_t>(all * static_cast<double>(part.weights_bytes) / std::max(weights, 1.0)));
  }
  return bytes;
}

// Of each layer's choices the share that falls on each expert, by the profile; even in layers that it knows nothing of.
std::vector<std::vector<double>> shares_of(const experts::ExpertProfile& profile, const experts::ExpertLayout& layout) {
  std::vector<std::vector<double>> shares;
  for (int32_t l = 0; l < static_cast<int32_t>(layout.layers().size()); l++) {
    const int32_t n = layout.layer(l).n_experts;
    const double total = profile.layer_total(l);
    std::vector<double>& of_layer = shares.emplace_back(static_cast<size_t>(n), 1.0 / n);
    if (!(total > 0)) continue;
    for (int32_t e = 0; e < n; e++) of_layer[static_cast<size_t>(e)] = profile.uses({l, e}) / total;
  }
  return shares;
}

// As the driver says they are, with nothing of ours in their memory.
Result<std::vector<DeviceRate>> planned_gpus(const std::string& name, const std::string& budgets) {
  ASSIGN_OR_RETURN(const std::vector<engine::NamedGpu> named, engine::named_gpus(name, budgets));
  std::vector<DeviceRate> devices;
  for (const engine::NamedGpu& one : named) {
    ASSIGN_OR_RETURN(const auto gpu, device::cuda::open_gpu(one.ordinal, {.limit_bytes = one.limit_bytes}));
    ASSIGN_OR_RETURN(const double link, engine::measure_copies(*gpu, real_clock()));
    devices.push_back({.device = {.name = gpu->name(),
                                  .budget_bytes = gpu->budget_bytes(),
                                  .rates = engine::gpu_rates(*gpu, link)},
                       .bytes_per_second = gpu->memory_bytes_per_second(),
                       .link_bytes_per_second = link * engine::kInPlaceShare});
  }
  return devices;
}

}  // namespace

Result<std::vector<DeviceRate>> planned_devices(const Settings& settings, uint64_t ram_bytes) {
  const std::string& name = settings.text(Key::kDevice);
  const std::string& budgets = settings.text(Key::kVramBudgetGib);
  if (device::cuda::is_cuda_spec(name)) return planned_gpus(name, budgets);
  std::vector<DeviceRate> devices;
  if (!device::sim::is_sim_spec(name)) {
    if (!budgets.empty()) {
      return Error{ErrorCode::kBadInput, format("--vram-budget-gib {}: --device {} has no memory of its own; use "
                                                "--ram-gib", printable(budgets), printable(name))};
    }
    devices.push_back({.device = {.name = "cpu", .budget_bytes = ram_bytes, .on_host = true}});
    return devices;
  }
  ASSIGN_OR_RETURN(const device::sim::SimSpec spec, device::sim::parse_sim_spec(name));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> limits, engine::device_limits(budgets, spec.devices.size()));
  for (size_t i = 0; i < spec.devices.size(); i++) {
    devices.push_back({.device = {.name = format("sim:{}", i),
                                  .budget_bytes = std::min(spec.devices[i].budget_bytes, limits[i]),
                                  .rates = engine::rates_of(spec.devices[i])},
                       .bytes_per_second = static_cast<double>(spec.devices[i].mem_bytes_per_s),
                       .link_bytes_per_second = static_cast<double>(spec.devices[i].link_bytes_per_s)});
  }
  return devices;
}

Result<ModelPlan> plan_model(const gguf::Model& model, const Settings& settings) {
  ASSIGN_OR_RETURN(engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFast));
  ASSIGN_OR_RETURN(const model::ArchInfo* arch, model::find_architecture(model));
  ASSIGN_OR_RETURN(const model::HParams hp, engine::hparams_of(model, *arch, config));
  ASSIGN_OR_RETURN(const uint64_t ram, engine::usable_ram(config));
  ASSIGN_OR_RETURN(const std::vector<DeviceRate> devices, planned_devices(settings, ram));
  std::vector<engine::PlannedDevice> planned;
  for (const DeviceRate& device : devices) planned.push_back(device.device);
  engine::settle_chunk(planned, config);

  engine::PlacingSpec spec{
      .model = model, .arch = *arch, .hp = hp, .config = config, .devices = planned, .ram_bytes = ram};
  if (device::sim::is_sim_spec(config.device)) {
    ASSIGN_OR_RETURN(const device::sim::SimSpec sim, device::sim::parse_sim_spec(config.device));
    spec.peers = sim.peer_bytes_per_s > 0;
    spec.cpu_bytes_per_s = static_cast<double>(sim.host_bytes_per_s);
  }

  ModelPlan out;
  ASSIGN_OR_RETURN(out.request, engine::placement_request(spec));
  ASSIGN_OR_RETURN(out.plan, plan_placement(out.request.input()));
  out.needs.n_used = hp.route.n_used;
  out.needs.shares = shares_of(*out.request.profile, out.request.layout);
  ASSIGN_OR_RETURN(out.needs.dense_bytes, dense_bytes(model, hp, config, out.request.parts));
  for (const experts::PartNeeds& part : out.request.parts) {
    out.device_rates.push_back(devices[part.device_index].bytes_per_second);
    out.link_rates.push_back(devices[part.device_index].link_bytes_per_second);
  }
  out.on_gpus = device::cuda::is_cuda_spec(config.device);
  out.threads = team_options(config.cpus, config.threads).n_threads;
  return out;
}

}  // namespace strata::cli
