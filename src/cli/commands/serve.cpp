// strata serve: answers requests over HTTP, as OpenAI's and Anthropic's servers do.
#include "base/counted.h"
#include "base/ending.h"
#include "base/format.h"
#include "cli/commands/commands.h"
#include "cli/model_choice.h"
#include "cli/serve/server_settings.h"
#include "cli/serve/stop_signals.h"
#include "cli/streams.h"
#include "server/core/routes.h"

namespace strata::cli {
namespace {

std::string listening_text(const server::Server& server, const std::string& path) {
  return format("Strata listens on {} and loads {}\n", server.url(), path_text(path));
}

std::string ready_text(const server::Server& server, const server::ServerOptions& options) {
  const server::ServedModel& model = *server.generator().model();
  const std::string url = server.url();
  std::string text = format("{} is ready: {} of context, {} (--parallel)\n", model.id,
                            counted(model.context, "token"), counted(server.generator().slots(), "slot"));
  text += format("  {}\n", printable(server.generator().describe(), 1024));
  text += format("  OpenAI's API     {}/v1   (base URL; model \"{}\")\n", url, model.id);
  text += format("  Anthropic's API  {}   (base URL)\n", url);
  text += format("  about itself     {}/health, /props, /slots, /metrics\n", url);
  text += options.access.keys.empty()
              ? "  no key is asked for (--api-key)\n"
              : format("  clients need {}\n", options.access.keys.size() == 1 ? "the key" : "one of the keys");
  return text + "Ctrl-C ends it\n";
}

std::unique_ptr<server::EngineGenerator> make_generator(const Settings& settings, const std::string& path,
                                                        const engine::EngineConfig& config, Stats& stats,
                                                        StopSignals& signals) {
  server::EngineGeneratorOptions options;
  options.slots = config.max_sequences;
  options.max_gap_ms = settings.integer(Key::kMaxGapMs);
  options.load = [&settings, path, config, &stats](std::atomic<int64_t>& bytes) {
    return load_served(settings, path, config, stats, bytes);
  };
  options.loaded = [&signals] { signals.wake(); };
  options.stopping = [](engine::Engine& engine) {
    if (const Status saved = engine.save_profile(); !saved.ok()) show_notice(saved.error().message);
  };
  return std::make_unique<server::EngineGenerator>(std::move(options), stats);
}

// Until a signal asks for the end, or the model can't be loaded. Nobody waits for a model that nobody wants any more:
// while it is being loaded a signal ends the program, in order too, as there is nothing under way.
Status wait_for_end(const server::Server& server, const server::EngineGenerator& generator,
                    const server::ServerOptions& options, StopSignals& signals) {
  if (signals.wait() && generator.phase() == server::GeneratorPhase::kLoading) {
    show_notice("shutting down before the model is loaded");
    end_with(0);
  }
  if (generator.phase() == server::GeneratorPhase::kFailed) return generator.failure();
  RETURN_IF_ERROR(write_stdout(ready_text(server, options)));
  while (signals.signal() == 0) signals.wait();
  return {};
}

Status serve(const Settings& settings) {
  ASSIGN_OR_RETURN(const server::ServerOptions options, server_options(settings));
  ASSIGN_OR_RETURN(engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFast));
  config.max_sequences = static_cast<int>(settings.integer(Key::kParallel));
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  Stats stats;
  ASSIGN_OR_RETURN(const auto signals, StopSignals::create());
  ASSIGN_OR_RETURN(const auto server, server::Server::listen(options));  // dies before what its engine uses
  RETURN_IF_ERROR(write_stdout(listening_text(*server, path)));
  auto made = make_generator(settings, path, config, stats, *signals);
  const server::EngineGenerator& generator = *made;
  server->serve(std::move(made), server::all_endpoints(), &stats);
  RETURN_IF_ERROR(wait_for_end(*server, generator, options, *signals));
  const int64_t limit_s = settings.integer(Key::kShutdownTimeoutS);
  show_notice(format("shutting down; waiting up to {} s for {}", limit_s, counted(server->under_way(), "answer")));
  server->shut_down(limit_s * 1000);
  if (settings.on(Key::kStats)) write_stderr(stats.to_text());
  return {};
}

}  // namespace

const Command kServeCommand = {
    .name = "serve",
    .arguments = "[MODEL]",
    .summary = "Answer requests over HTTP, as OpenAI's and Anthropic's servers do",
    .scope = kScopeServe,
    .take_words = take_model,
    .run = serve,
};

}  // namespace strata::cli
