#include "engine/soak/rig.h"

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "engine/sim_support.h"
#include "engine/soak/checks.h"

namespace strata::test {
namespace {

constexpr double kJudgedSeconds = 60;

int64_t experts_in(const std::string& path) {
  GoldenModel golden;
  golden.path = path;
  return n_experts(golden);
}

void print_sample(const SoakSample& sample) {
  std::printf("%s\n", soak_text(sample).c_str());
  std::fflush(stdout);
}

}  // namespace

engine::EngineConfig soak_config(const std::string& path, const SoakShape& shape, int chunk) {
  engine::EngineConfig config = test_config();
  config.expert_cache = experts_in(path) / 4;
  config.cache_min_slots = 1;
  config.stream_rows = 16;
  config.adapt_every = 2;
  config.kv_type = kernels::KvType::kF16;
  config.round_activations = true;
  config.deterministic = true;
  config.context = shape.context();
  config.chunk = chunk;
  config.max_sequences = 4;
  config.max_checkpoints = 4;
  return config;
}

engine::EngineConfig lone_config(engine::EngineConfig config, const std::string& device) {
  config.device = device;
  config.deterministic = true;
  config.expert_cache.reset();
  config.adapt_every = 0;
  config.max_sequences = 1;
  config.max_checkpoints = 0;
  return config;
}

SoakOptions options_from_environment(SoakOptions options) {
  if (const char* seconds = std::getenv("SOAK_SECONDS")) options.least_seconds = std::atof(seconds);
  if (const char* seed = std::getenv("SOAK_SEED")) options.seed = std::strtoull(seed, nullptr, 10);
  return options;
}

void expect_soak(const std::string& path, const engine::EngineConfig& lone, const engine::EngineConfig& mixed,
                 const SoakShape& shape, SoakOptions options) {
  const auto model = gguf::Model::open(path, real_file_system()).value();
  const auto tokenizer = text::Tokenizer::load(*model).value();
  const SoakQuestions questions = ask_alone(*model, *tokenizer, lone, shape, options.seed);
  if (testing::Test::HasFailure()) return;
  if (options.least_seconds > 0) options.on_sample = print_sample;
  Stats stats;
  const auto engine = engine::Engine::open(*model, mixed, stats);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  stats.reset();
  const SoakReport report = run_soak(**engine, *tokenizer, questions, options);
  const SoakDemands demands{.memory = options.least_seconds >= kJudgedSeconds, .cpu = !mixed.deterministic};
  for (const std::string& fault : soak_faults(report, stats, demands)) ADD_FAILURE() << fault;
  std::printf("seed %lu: %s\n", static_cast<unsigned long>(options.seed), soak_text(report, stats).c_str());
}

}  // namespace strata::test
