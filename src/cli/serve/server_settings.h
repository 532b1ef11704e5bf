// From settings to a server and the model that it serves.
#pragma once

#include "base/settings.h"
#include "server/core/engine_generator.h"
#include "server/core/server.h"

namespace strata::cli {

// kBadInput names the flag.
Result<server::ServerOptions> server_options(const Settings& settings);

// Loads what the settings name; runs on the engine's thread. `bytes` takes the size of the model as soon as it is
// known. `settings` and `stats` outlive the model.
Result<server::LoadedModel> load_served(const Settings& settings, const std::string& path,
                                        const engine::EngineConfig& config, Stats& stats,
                                        std::atomic<int64_t>& bytes);

// "qwen3-30b-a3b-q4_k_m" of its path: the name of its file, or folder, without ending and number of the part.
std::string model_name(const std::string& path);

}  // namespace strata::cli
