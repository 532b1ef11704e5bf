// What the tests of engines on simulated devices share.
#pragma once

#include <memory>
#include <string>

#include "base/format.h"
#include "engine/golden_check.h"

namespace strata::test {

// For tests that run a model very often: attention alone, windows and sinks, recurrent layers.
inline constexpr const char* kFewArchs[] = {"qwen3moe", "gpt-oss", "qwen3next"};

// One device with `slots` cached experts, all but one of which may be lent.
inline engine::EngineConfig sim_config(int64_t slots, int seed) {
  engine::EngineConfig config = test_config();
  config.device = format("sim:256MiB/seed={}", seed);
  config.expert_cache = slots;
  config.cache_min_slots = 1;
  return config;
}

// One sequence of at most `context` tokens, `chunk` of them at once.
inline engine::EngineConfig small_sim_config(int64_t slots, int64_t context, int chunk) {
  engine::EngineConfig config = sim_config(slots, 1);
  config.context = context;
  config.chunk = chunk;
  config.max_sequences = 1;
  config.max_checkpoints = 0;
  return config;
}

inline std::unique_ptr<gguf::Model> open_golden(const GoldenModel& golden) {
  return gguf::Model::open(golden.path, real_file_system()).value();
}

inline model::HParams hparams_of(const GoldenModel& golden) {
  const auto model = open_golden(golden);
  const model::ArchInfo* info = model::find_architecture(*model).value();
  return info->read(model::Keys(*model, info->name)).value();
}
inline int n_layers(const GoldenModel& golden) { return hparams_of(golden).n_layers; }
// Of all layers.
inline int64_t n_experts(const GoldenModel& golden) {
  const model::HParams hp = hparams_of(golden);
  return int64_t{hp.n_expert_layers()} * hp.route.n_experts;
}

// With counters that start at 0.
inline std::unique_ptr<engine::Engine> open_engine(const gguf::Model& model, const engine::EngineConfig& config,
                                                   Stats& stats) {
  auto opened = engine::Engine::open(model, config, stats);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  stats.reset();
  return std::move(opened).value();
}

// The same with devices that have no more memory than this takes, so that prompts borrow from their caches: a device
// that can pay for what prompts stream through lends nothing.
inline engine::EngineConfig lending(engine::EngineConfig config, const GoldenModel& golden) {
  const auto model = open_golden(golden);
  const model::ArchInfo* arch = model::find_architecture(*model).value();
  const model::HParams hp = hparams_of(golden);
  const device::sim::SimSpec spec = device::sim::parse_sim_spec(config.device).value();
  std::vector<engine::PlannedDevice> devices;
  for (const device::sim::DeviceSpec& device : spec.devices) {
    devices.push_back({.name = "sim", .budget_bytes = device.budget_bytes, .rates = engine::rates_of(device)});
  }
  const engine::PlacementRequest request = engine::placement_request({.model = *model,
                                                                      .arch = *arch,
                                                                      .hp = hp,
                                                                      .config = config,
                                                                      .devices = devices,
                                                                      .peers = spec.peer_bytes_per_s > 0,
                                                                      .ram_bytes = 64 * kGiB})
                                               .value();
  const experts::PlacementPlan plan = plan_placement(request.input()).value();
  std::string budgets;
  for (size_t i = 0; i < plan.parts.size(); i++) {
    const uint64_t bytes = request.parts[i].device_bytes() + plan.parts[i].slots.bytes() +
                           experts::ExpertCache::overhead(request.layout).device;
    budgets += format("{}{}B", i == 0 ? "sim:" : ",", bytes);
  }
  const size_t rest = config.device.find('/');
  config.device = budgets + (rest == std::string::npos ? "" : config.device.substr(rest));
  return config;
}

}  // namespace strata::test
