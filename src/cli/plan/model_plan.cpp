#include "cli/plan/model_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/bytes.h"
#include "base/format.h"
#include "cli/bench/team.h"
#include "cli/bench/traffic.h"
#include "device/sim/spec.h"

namespace strata::cli {
namespace {

constexpr double kMaxBudgetGib = 1048576;

Error bad_budget(const std::string& text, size_t n_devices) {
  return {ErrorCode::kBadInput,
          format("--vram-budget-gib {}: a number of GiB from 0 to {} is wanted, or {} of them separated by commas",
                 printable(text), kMaxBudgetGib, n_devices)};
}

// One limit for each device; one number stands for all.
Result<std::vector<uint64_t>> device_limits(const std::string& text, size_t n_devices) {
  std::vector<uint64_t> limits;
  if (text.empty()) return std::vector<uint64_t>(n_devices, UINT64_MAX);
  for (const char* at = text.data(), *end = at + text.size();; at++) {
    double gib = 0;
    const auto [stop, error] = std::from_chars(at, end, gib, std::chars_format::fixed);
    if (error != std::errc() || !(gib >= 0 && gib <= kMaxBudgetGib)) return bad_budget(text, n_devices);
    limits.push_back(static_cast<uint64_t>(gib * static_cast<double>(kGiB)));
    at = stop;
    if (at == end) break;
    if (*at != ',') return bad_budget(text, n_devices);
  }
  if (limits.size() == 1) limits.resize(n_devices, limits.front());
  if (limits.size() != n_devices) return bad_budget(text, n_devices);
  return limits;
}

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

}  // namespace

Result<std::vector<DeviceRate>> planned_devices(const Settings& settings, uint64_t ram_bytes) {
  const std::string& name = settings.text(Key::kDevice);
  const std::string& budgets = settings.text(Key::kVramBudgetGib);
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
  ASSIGN_OR_RETURN(const std::vector<uint64_t> limits, device_limits(budgets, spec.devices.size()));
  for (size_t i = 0; i < spec.devices.size(); i++) {
    devices.push_back({.device = {.name = format("sim:{}", i),
                                  .budget_bytes = std::min(spec.devices[i].budget_bytes, limits[i])},
                       .bytes_per_second = static_cast<double>(spec.devices[i].mem_bytes_per_s)});
  }
  return devices;
}

Result<ModelPlan> plan_model(const gguf::Model& model, const Settings& settings) {
  ASSIGN_OR_RETURN(const engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFast));
  ASSIGN_OR_RETURN(const model::ArchInfo* arch, model::find_architecture(model));
  ASSIGN_OR_RETURN(const model::HParams hp, arch->read(model::Keys(model, arch->name)));
  ASSIGN_OR_RETURN(const uint64_t ram, engine::usable_ram(config));
  ASSIGN_OR_RETURN(const std::vector<DeviceRate> devices, planned_devices(settings, ram));
  std::vector<engine::PlannedDevice> planned;
  for (const DeviceRate& device : devices) planned.push_back(device.device);

  ModelPlan out;
  ASSIGN_OR_RETURN(out.request, engine::placement_request({.model = model, .arch = *arch, .hp = hp, .config = config,
                                                           .devices = planned, .ram_bytes = ram}));
  ASSIGN_OR_RETURN(out.plan, plan_placement(out.request.input()));
  out.needs.n_used = hp.route.n_used;
  out.needs.shares = shares_of(*out.request.profile, out.request.layout);
  ASSIGN_OR_RETURN(out.needs.dense_bytes, dense_bytes(model, hp, config, out.request.parts));
  for (size_t i = 0; i < out.request.parts.size(); i++) out.device_rates.push_back(devices[i].bytes_per_second);
  out.threads = team_options(config.cpus, config.threads).n_threads;
  return out;
}

}  // namespace strata::cli
