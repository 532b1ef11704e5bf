// An engine as a process of its own, for measuring its memory: sharing_engine MODEL ARENA|- computes a few tokens, says
// "ready", computes more when a line comes on stdin, says "tokens" and what they were, and ends with stdin.
#include <algorithm>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "base/format.h"
#include "engine/engine.h"

namespace strata::test {
namespace {

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

bool wait_for_line() {
  for (char byte = 0; ::read(STDIN_FILENO, &byte, 1) == 1;) {
    if (byte == '\n') return true;
  }
  return false;
}

// Greedy tokens after `id`.
Result<std::vector<int32_t>> decode(engine::Engine& engine, model::SequenceState& sequence, int32_t id, int n) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; i++) {
    const int32_t row[] = {id};
    const model::BatchRows batch[] = {{&sequence, row}};
    RETURN_IF_ERROR(engine.step(batch));
    const int32_t rows[] = {0};
    RETURN_IF_ERROR(engine.logits(rows, [&](int64_t, std::span<const float> logits) -> Status {
      id = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      return {};
    }));
    ids.push_back(id);
  }
  return ids;
}

Status run(const std::string& path, const std::string& arena) {
  ASSIGN_OR_RETURN(const auto model, gguf::Model::open(path, real_file_system()));
  engine::EngineConfig config;
  config.context = 256;
  config.threads = 2;
  config.ram_bytes = kGiB;
  config.experts = engine::ExpertPlace::kArena;
  if (arena != "-") config.shared_arena = arena;
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::open(*model, config, stats));
  ASSIGN_OR_RETURN(model::SequenceState sequence, engine->make_sequence());
  // Enough for every expert to have been used.
  ASSIGN_OR_RETURN(const std::vector<int32_t> warm, decode(*engine, sequence, 1, 60));
  say("ready");
  if (!wait_for_line()) return {};
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, decode(*engine, sequence, warm.back(), 60));
  std::string text = "tokens";
  for (const int32_t id : ids) text += format(" {}", id);
  say(text);
  wait_for_line();
  return {};
}

}  // namespace
}  // namespace strata::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const strata::Status status = strata::test::run(argv[1], argv[2]);
  if (!status.ok()) strata::test::say("failed " + status.error().message);
  return status.ok() ? 0 : 1;
}
