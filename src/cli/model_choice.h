// Which model a command works with.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "gguf/gguf.h"

namespace strata::cli {

// Whether an argument is a model and not a prompt: it exists as a file or folder, ends in .gguf, or has a slash.
bool names_model(const std::string& argument);

// The setting, else the demo model beside the installed program, else that of the source tree it was built from.
// kNotFound when there is none of these.
Result<std::string> model_path(const Settings& settings);

// Opens it; `path` as model_path() gives it.
Result<std::unique_ptr<gguf::Model>> open_model(const std::string& path);

// For computing. Shows people that it is being loaded, and warns when --ctx is longer than the context that the model
// was trained with.
Result<std::unique_ptr<engine::Engine>> open_engine(const Settings& settings, const gguf::Model& model,
                                                    const engine::EngineConfig& config, Stats& stats);

// A line on stderr that the user asked for, or has to see while the model is being loaded.
void show_notice(const std::string& text);

// What its architecture reads from the metadata; kUnsupported when this program has no such architecture.
Result<model::HParams> read_hparams(const gguf::Model& model);

}  // namespace strata::cli
