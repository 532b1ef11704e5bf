// --deterministic on a CUDA device that holds all experts: a row has the same logits, bit for bit, however its sequence
// is cut into steps and whatever other sequences share them, on the float path and on the fast one.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/sim_support.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;

using Logits = std::vector<std::vector<float>>;  // [sequences][tokens * n_vocab]

EngineConfig deterministic_config(const GoldenModel& golden, bool fast) {
  EngineConfig config = test_config();
  config.device = "cuda:0";
  config.expert_cache = n_experts(golden);
  config.deterministic = true;
  if (fast) {
    config.kv_type = kernels::KvType::kF16;
    config.round_activations = true;
  }
  return config;
}

// Of all rows, where each step takes up to rows[i] of the i-th of the sequences that run side by side.
Logits logits_of(Engine& engine, const std::vector<std::vector<int32_t>>& sequences, const std::vector<size_t>& rows) {
  Logits logits(sequences.size());
  for (size_t first = 0; first < sequences.size(); first += rows.size()) {
    const size_t n = std::min(rows.size(), sequences.size() - first);
    std::vector<model::SequenceState> states;
    for (size_t i = 0; i < n; i++) states.push_back(engine.make_sequence().value());
    for (;;) {
      std::vector<model::BatchRows> batch;
      std::vector<size_t> owner;  // of each row
      for (size_t i = 0; i < n; i++) {
        const std::vector<int32_t>& ids = sequences[first + i];
        const auto at = static_cast<size_t>(states[i].n_tokens());
        const size_t taken = std::min(rows[i], ids.size() - at);
        if (taken == 0) continue;
        batch.push_back({&states[i], std::span(ids).subspan(at, taken)});
        owner.insert(owner.end(), taken, first + i);
      }
      if (batch.empty()) break;
      Status status = engine.step(batch);
      std::vector<int32_t> all(owner.size());
      for (size_t i = 0; i < all.size(); i++) all[i] = static_cast<int32_t>(i);
      if (status.ok()) {
        status = engine.logits(all, [&](int64_t row, std::span<const float> found) -> Status {
          std::vector<float>& to = logits[owner[static_cast<size_t>(row)]];
          to.insert(to.end(), found.begin(), found.end());
          return {};
        });
      }
      if (!status.ok()) ADD_FAILURE() << status.error().message;
      if (!status.ok()) return logits;
    }
  }
  return logits;
}

class GpuBits : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(GpuBits, DoNotDependOnCutOrNeighbours) {
  const std::string name = std::get<0>(GetParam());
  const GoldenModel golden = name == "demo" ? load_demo_golden() : load_arch_golden(name);
  const auto model = open_golden(golden);
  Stats stats;
  const auto engine = Engine::open(*model, deterministic_config(golden, std::get<1>(GetParam())), stats).value();
  std::vector<std::vector<int32_t>> sequences(3);
  for (size_t s = 0; s < 3; s++) {
    for (size_t i = 0; i < 70 + 9 * s; i++) sequences[s].push_back(static_cast<int32_t>((37 * i + 101 * s + 3) % 500));
  }
  const Logits whole = logits_of(*engine, sequences, {1000});
  for (const std::vector<size_t>& rows : std::vector<std::vector<size_t>>{
           {1}, {7}, {32}, {64}, {1, 1, 1}, {5, 1, 9}, {64, 1, 33}, {1, 40}, {1000, 1000, 1000}}) {
    const Logits found = logits_of(*engine, sequences, rows);
    for (size_t s = 0; s < 3; s++) {
      EXPECT_TRUE(found[s] == whole[s]) << "sequence " << s << " of " << rows.size() << " at once, by " << rows[0];
    }
  }
  EXPECT_EQ(whole[2].size(), sequences[2].size() * static_cast<size_t>(golden.n_vocab));
}

std::vector<const char*> models() {
  std::vector<const char*> all(std::begin(kGoldenArchs), std::end(kGoldenArchs));
  all.push_back("demo");
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, GpuBits, testing::Combine(testing::ValuesIn(models()), testing::Bool()),
                         [](const auto& row) {
                           std::string name = std::get<0>(row.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (std::get<1>(row.param) ? "Fast" : "Float");
                         });

}  // namespace
}  // namespace strata::test
