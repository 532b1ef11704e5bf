// Engines on a GPU whose prompts have to borrow from the cache.
#pragma once

#include <string>

#include "engine/sim_support.h"
#include "gpu/support.h"

namespace strata::test {

// With so much of `gib` of the device's memory kept free that the rest is what the engine takes.
inline engine::EngineConfig lending_gpu(engine::EngineConfig config, const GoldenModel& golden, uint64_t gib) {
  config.vram_budget = std::to_string(gib);
  engine::EngineConfig simulated = config;
  simulated.device = "sim:64GiB";
  const std::string tight = lending(simulated, golden).device;
  const uint64_t needed = device::sim::parse_sim_spec(tight)->devices[0].budget_bytes;
  const uint64_t all = open_gpu({.limit_bytes = gib * kGiB, .reserve_bytes = 0})->budget_bytes();
  config.vram_reserve_bytes = all - needed;
  return config;
}

}  // namespace strata::test
