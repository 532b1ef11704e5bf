// Runs a model over reference sequences in different ways and measures how far its log-probabilities are from the
// reference. The tests of the engine and the controls that prove they bite share it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "support/golden.h"

namespace strata::test {

struct GoldenSequence {
  std::vector<int32_t> ids;
  std::vector<bool> counts;     // [ids] whether the row is compared
  std::vector<float> logprobs;  // [ids][n_vocab]; rows that don't count are unspecified
};

struct GoldenModel {
  std::string path;
  int64_t n_vocab = 0;
  double limit = 0;  // largest absolute difference of a log-probability
  std::vector<GoldenSequence> sequences;
};

// tests/golden/arch/NAME. Rows count while the running minimum of the router margin is above 2e-5.
GoldenModel load_arch_golden(const std::string& name);
// A file of tests/golden/models, `key` as in refs.json: sequence A (all rows) and B (six rows).
GoldenModel load_model_golden(const std::string& key);
// The demo model and its 20 reference rows.
GoldenModel load_demo_golden();

// How the rows of a sequence are cut into steps.
enum class Cut {
  kWhole,  // one step a sequence
  kChunksOf1,
  kChunksOf7,
  kChunksOf64,
  kBatchOfThree,  // three sequences side by side, uneven numbers of rows a step
  kCheckpoint,    // a checkpoint in the middle, 20 other tokens, a restore, then the rest
};
const char* cut_name(Cut cut);

// Largest absolute difference over the rows that count; a negative value after failing the running test when the engine
// reports an error. `bits`, if given, receives all log-probabilities that were compared, in order; `stats` receives the
// counts of the run, with those of opening the model.
double worst_difference(const GoldenModel& golden, const engine::EngineConfig& config, Cut cut,
                        std::vector<float>* bits = nullptr, Stats* stats = nullptr);

// A float-path configuration for tests: f32 KV, two threads.
engine::EngineConfig test_config();

}  // namespace strata::test
