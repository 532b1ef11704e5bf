// Speed of a model: prompts of random tokens, and tokens one at a time after an empty context.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/stats.h"
#include "cli/bench/memory_speed.h"
#include "cli/bench/spread.h"
#include "cli/bench/tier_use.h"
#include "engine/config.h"
#include "gguf/gguf.h"

namespace strata::cli {

struct ModelBenchOptions {
  std::vector<int64_t> prompts;  // tokens; no zeros
  std::vector<int64_t> answers;  // tokens; no zeros
  std::vector<int> threads;      // an engine is opened for each; 0: one per physical core
  int repetitions = 1;
  uint64_t buffer_bytes = kMemorySpeedBytes;
  engine::EngineConfig config;   // but for the threads; the context holds the longest test
};

enum class TestKind { kPrompt, kGenerate };

// Repetitions of one test with one engine.
struct TestResult {
  TestKind kind = TestKind::kPrompt;
  int64_t n_tokens = 0;
  int threads = 0;
  std::vector<int64_t> durations_ns;    // of each repetition
  uint64_t bytes = 0;                   // that a repetition reads at the least, in the mean; see Traffic
  uint64_t dense_bytes = 0;             // of those, what is no expert
  TierUse tiers;                        // of a repetition, in the mean
  TierRates rates;                      // of the machine, where a GPU computes
  uint64_t drive_bytes = 0;             // that a repetition reads of experts past the system's cache, in the mean
  double file_reads = 0;                // of experts that a resident copy lacks, in a repetition, in the mean
  double ceiling_bytes_per_second = 0;  // of reading with the same threads, or of the GPU's memory; 0: none

  std::string name() const;  // "pp512", "tg64"
  Spread tokens_per_second() const;
  double bytes_per_token() const { return static_cast<double>(bytes) / static_cast<double>(n_tokens); }
  double drive_bytes_per_token() const { return static_cast<double>(drive_bytes) / static_cast<double>(n_tokens); }
  double bytes_per_second() const { return bytes_per_token() * tokens_per_second().median; }
  // None where the time is no time of this machine.
  std::optional<double> share_of_ceiling() const {
    if (ceiling_bytes_per_second <= 0) return std::nullopt;
    return bytes_per_second() / ceiling_bytes_per_second;
  }
  double seconds() const { return static_cast<double>(n_tokens) / tokens_per_second().median; }
  // Tokens a second that the rates of the machine allow; 0 where they are not known.
  double most_tokens_per_second() const {
    const double least = least_seconds(tiers, static_cast<double>(bytes), static_cast<double>(dense_bytes), rates);
    return least > 0 ? static_cast<double>(n_tokens) / least : 0;
  }
};

// A run of layers on a device.
struct PartNote {
  std::string device;
  int first_layer = 0, last_layer = 0;  // one past
  int64_t cached_experts = 0;
  uint64_t cached_bytes = 0;
  int64_t lent_experts = 0;       // of those, that prompts borrow the room of
  int64_t lent_in_ram = 0;        // of those, that a resident copy has too
  uint64_t lent_in_ram_bytes = 0;
  double link_bytes_per_second = 0;  // that come over the device's link; 0 where that was not measured
};

// An engine before its tests.
struct EngineNote {
  ReadSpeed ceiling;                // of the threads
  double gpu_bytes_per_second = 0;  // that the memory of the first GPU yields at most; 0 where none computes
  double node_seconds = 0;          // that a node of its graphs takes which does nothing
  std::vector<PartNote> parts;
  uint64_t expert_bytes = 0;          // of all experts
  uint64_t experts_in_ram_bytes = 0;  // as planned: of an arena or a resident copy
  uint64_t experts_pinned_bytes = 0;  // of those, that are page-locked
  int64_t load_ns = 0;
  int chunk = 0;  // prompt tokens computed together
  std::string description;
  bool simulated = false;  // its times are those of simulated devices

  double ceiling_bytes_per_second() const {
    if (simulated) return 0;
    return gpu_bytes_per_second > 0 ? gpu_bytes_per_second : ceiling.bytes_per_second;
  }
  // Parts work on several chunks of a prompt at once.
  TierRates rates(TestKind kind) const;
};

// Is told of everything when it has been measured.
class ModelBenchReporter {
 public:
  virtual ~ModelBenchReporter() = default;
  virtual Status engine_opened(const EngineNote& note) = 0;
  virtual Status test_done(const TestResult& result) = 0;
  virtual Status finish() = 0;
};

// What is fixed for all rows.
struct BenchHead {
  std::string model_path;
  uint64_t model_bytes = 0;  // of its tensors
  std::string cpu_name;
  ModelBenchOptions options;
};
// A line for each, as it comes; and a JSON object in the end.
std::unique_ptr<ModelBenchReporter> make_text_reporter(const BenchHead& head);
std::unique_ptr<ModelBenchReporter> make_json_reporter(const BenchHead& head);

Status bench_model(const gguf::Model& model, const ModelBenchOptions& options, Stats& stats,
                   ModelBenchReporter& reporter);

}  // namespace strata::cli
