#include "cli/model_choice.h"

#include <algorithm>
#include <filesystem>

#include "base/counted.h"
#include "base/file.h"
#include "base/format.h"
#include "base/log.h"
#include "cli/chat/loading_line.h"
#include "cli/streams.h"
#include "model/network.h"

namespace strata::cli {
namespace {

constexpr const char* kDemoName = "tales-moe-q4_k_m.gguf";

// PREFIX of the running program, PREFIX/bin/strata; empty where the system does not say.
std::string install_prefix() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "" : program.parent_path().parent_path().string();
}

}  // namespace

bool names_model(const std::string& argument) {
  return argument.ends_with(".gguf") || argument.find('/') != std::string::npos ||
         (!argument.empty() && real_file_system().exists(argument));
}

Result<std::string> model_path(const Settings& settings) {
  if (const std::string& given = settings.text(Key::kModel); !given.empty()) return given;
  const std::string installed = install_prefix() + "/share/strata/models/" + kDemoName;
  const std::string built = std::string(STRATA_SOURCE_MODELS "/") + kDemoName;
  for (const std::string& path : {installed, built}) {
    if (real_file_system().exists(path)) return path;
  }
  return Error{ErrorCode::kNotFound,
               format("no model: name a .gguf file as the first argument, with --model or in {}; the demo model is "
                      "neither {} nor {}",
                      environment_name(setting(Key::kModel)), path_text(installed), path_text(built))};
}

Result<std::unique_ptr<gguf::Model>> open_model(const std::string& path) {
  return gguf::Model::open(path, real_file_system());
}

Result<std::unique_ptr<engine::Engine>> open_engine(const Settings& settings, const gguf::Model& model,
                                                    const engine::EngineConfig& config, Stats& stats) {
  auto engine = [&] {
    const LoadingLine line(path_text(model.path()));
    engine::EngineConfig telling = config;
    telling.notice = show_notice;
    return engine::Engine::open(model, telling, stats);
  }();
  if (!engine.ok()) return engine;
  const int64_t trained = (*engine)->hparams().context_length;
  const double reach = static_cast<double>(trained) * std::max(1.0, config.rope.factor.value_or(1));
  if (!settings.is_auto(Key::kCtx) && static_cast<double>((*engine)->context()) > reach) {
    log_warning("the context of {} (--ctx) is longer than the {} that the model was trained with{}; beyond them, "
                "answers get worse (--rope-scaling yarn with --rope-scale stretches it)",
                counted((*engine)->context(), "token"), trained, config.rope.factor ? ", times --rope-scale" : "");
  }
  return engine;
}

void show_notice(const std::string& text) {
  // A loading line is on the terminal's last line, and shows itself again below.
  write_stderr(format("{}strata: {}\n", stderr_is_terminal() ? "\r\x1b[K" : "", text));
}

Result<model::HParams> read_hparams(const gguf::Model& model) {
  ASSIGN_OR_RETURN(const model::ArchInfo* arch, model::find_architecture(model));
  return arch->read(model::Keys(model, arch->name));
}

}  // namespace strata::cli
