// A soak from the model's file to the verdict, for simulated devices and real ones.
#pragma once

#include <string>

#include "engine/soak/run.h"

namespace strata::test {

// --deterministic on a device that holds a quarter of the experts; prompts stream through slots that it lends, experts
// change places. Activations and KV cache as the program has them. Without the device's name and its limits.
engine::EngineConfig soak_config(const std::string& path, const SoakShape& shape, int chunk);

// --deterministic for an engine that answers one request after the other on `device`, with all experts in one place.
engine::EngineConfig lone_config(engine::EngineConfig config, const std::string& device);

// SOAK_SECONDS and SOAK_SEED from the environment, for runs by hand: else as `options` say. Without seconds it is the
// number of requests that counts.
SoakOptions options_from_environment(SoakOptions options);

// Asks the questions alone, then runs the soak: the current test fails with every fault. Prints how it went, and how it
// goes where it has seconds; memory is judged where those are a minute or more.
void expect_soak(const std::string& path, const engine::EngineConfig& lone, const engine::EngineConfig& mixed,
                 const SoakShape& shape, SoakOptions options);

}  // namespace strata::test
