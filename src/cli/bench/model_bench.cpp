#include "cli/bench/model_bench.h"

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "base/format.h"
#include "base/random.h"
#include "cli/bench/team.h"
#include "cli/bench/traffic.h"
#include "cli/model_choice.h"
#include "device/cuda/cuda.h"
#include "engine/engine.h"

namespace strata::cli {
namespace {

constexpr uint64_t kSeed = 1;

// The tests of one engine.
class EngineBench {
 public:
  EngineBench(engine::Engine& engine, const Traffic& traffic, Stats& stats, int repetitions)
      : engine_(engine), traffic_(traffic), stats_(stats), repetitions_(repetitions), random_(kSeed) {}

  // The first run does not count: it fetches what is not in memory yet.
  Result<TestResult> measure(TestKind kind, int64_t n_tokens) {
    TestResult result;
    result.kind = kind;
    result.n_tokens = n_tokens;
    for (int i = 0; i <= repetitions_; i++) {
      const int64_t read_before = stats_.get(Counter::kFileReadBytes);
      const TierUse before = TierUse::now(stats_);
      ASSIGN_OR_RETURN(const Run run, run_once(kind, n_tokens));
      if (i == 0) continue;
      result.drive_bytes += static_cast<uint64_t>(stats_.get(Counter::kFileReadBytes) - read_before);
      result.durations_ns.push_back(run.duration_ns);
      result.bytes += run.bytes;
      result.dense_bytes += run.dense_bytes;
      result.tiers += TierUse::now(stats_) - before;
    }
    result.tiers = result.tiers / repetitions_;
    result.dense_bytes /= static_cast<uint64_t>(repetitions_);
    result.bytes /= static_cast<uint64_t>(repetitions_);
    result.drive_bytes /= static_cast<uint64_t>(repetitions_);
    return result;
  }

 private:
  struct Run {
    int64_t duration_ns = 0;
    uint64_t bytes = 0;
    uint64_t dense_bytes = 0;
  };

  Result<Run> run_once(TestKind kind, int64_t n_tokens) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n_tokens; i++) {
      ids.push_back(static_cast<int32_t>(random_.below(static_cast<uint64_t>(engine_.n_vocab()))));
    }
    ASSIGN_OR_RETURN(model::SequenceState sequence, engine_.make_sequence());
    const int64_t step_rows = kind == TestKind::kPrompt ? engine_.max_rows() : 1;
    Run run;
    for (int64_t first = 0; first < n_tokens; first += step_rows) {
      const int64_t n = std::min(step_rows, n_tokens - first);
      const bool head = kind == TestKind::kGenerate || first + n == n_tokens;
      RETURN_IF_ERROR(run_step(sequence, std::span(ids).subspan(static_cast<size_t>(first), static_cast<size_t>(n)),
                               head, run));
    }
    return run;
  }

  // The logits of the last row, where they are wanted, end a step. What is counted afterwards takes no measured time.
  Status run_step(model::SequenceState& sequence, std::span<const int32_t> ids, bool head, Run& run) {
    const int64_t first = sequence.n_tokens();
    const double experts_before = experts_read();
    const model::BatchRows batch[] = {{.sequence = &sequence, .ids = ids, .ends_in_logits = head}};
    const int32_t last_row[] = {static_cast<int32_t>(ids.size()) - 1};
    const int64_t begin_ns = real_clock().now_ns();
    RETURN_IF_ERROR(engine_.step(batch));
    if (head) RETURN_IF_ERROR(engine_.logits(last_row, [](int64_t, std::span<const float>) { return Status(); }));
    run.duration_ns += real_clock().now_ns() - begin_ns;
    const double visits = std::min(experts_read() - experts_before, all_experts());
    StepRows rows{.first = first, .n = static_cast<int64_t>(ids.size()), .experts = 0, .head = head};
    run.dense_bytes += traffic_.step_bytes(rows);
    rows.experts = visits / std::max(engine_.hparams().n_expert_layers(), 1);
    run.bytes += traffic_.step_bytes(rows);
    return {};
  }

  // Experts whose bytes were read so far: those that the CPU computed, those that a device read from RAM, and those in
  // its memory. The latter are counted once a row, which is too often where rows share them: no step reads more than
  // all_experts().
  double experts_read() const {
    return static_cast<double>(stats_.get(Counter::kExpertsComputed) + stats_.get(Counter::kLinkedExperts) +
                               stats_.get(Counter::kCacheHits) + stats_.get(Counter::kStreamedRows));
  }
  double all_experts() const {
    return static_cast<double>(engine_.hparams().n_expert_layers()) *
           static_cast<double>(engine_.hparams().route.n_experts);
  }

  engine::Engine& engine_;
  const Traffic& traffic_;
  Stats& stats_;
  const int repetitions_;
  Random random_;
};

// Of the first GPU that --device names, if it names one.
Status note_gpu(const std::string& device, EngineNote& note) {
  if (!device::cuda::is_cuda_spec(device)) return {};
  ASSIGN_OR_RETURN(const std::vector<int> ordinals, device::cuda::parse_cuda_spec(device));
  ASSIGN_OR_RETURN(const auto gpu, device::cuda::open_gpu(ordinals.front(), {}));
  note.gpu_bytes_per_second = gpu->memory_bytes_per_second();
  ASSIGN_OR_RETURN(note.node_seconds, gpu->measure_node_seconds());
  return {};
}

Status bench_threads(const gguf::Model& model, const ModelBenchOptions& options, int n_threads,
                     const Traffic& traffic, Stats& stats, ModelBenchReporter& reporter) {
  const ThreadPoolOptions team = team_options(options.config.cpus, n_threads);
  EngineNote note;
  // Before the engine takes the memory.
  ASSIGN_OR_RETURN(note.ceiling, measure_read(team, options.buffer_bytes));
  RETURN_IF_ERROR(note_gpu(options.config.device, note));
  engine::EngineConfig config = options.config;
  config.threads = team.n_threads;
  config.notice = show_notice;
  const int64_t begin_ns = real_clock().now_ns();
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::open(model, config, stats));
  note.load_ns = real_clock().now_ns() - begin_ns;
  note.description = engine->describe();
  note.link_bytes_per_second = engine->link_bytes_per_second();
  RETURN_IF_ERROR(reporter.engine_opened(note));
  EngineBench bench(*engine, traffic, stats, options.repetitions);
  const auto measure_all = [&](TestKind kind, const std::vector<int64_t>& lengths) -> Status {
    for (const int64_t n_tokens : lengths) {
      ASSIGN_OR_RETURN(TestResult result, bench.measure(kind, n_tokens));
      result.threads = team.n_threads;
      result.ceiling_bytes_per_second = note.ceiling_bytes_per_second();
      result.rates = note.rates();
      RETURN_IF_ERROR(reporter.test_done(result));
    }
    return {};
  };
  RETURN_IF_ERROR(measure_all(TestKind::kPrompt, options.prompts));
  return measure_all(TestKind::kGenerate, options.answers);
}

}  // namespace

std::string TestResult::name() const { return format("{}{}", kind == TestKind::kPrompt ? "pp" : "tg", n_tokens); }

Spread TestResult::tokens_per_second() const {
  std::vector<double> speeds;
  for (const int64_t duration_ns : durations_ns) {
    speeds.push_back(per_second(static_cast<double>(n_tokens), duration_ns));
  }
  return spread_of(std::move(speeds));
}

Status bench_model(const gguf::Model& model, const ModelBenchOptions& options, Stats& stats,
                   ModelBenchReporter& reporter) {
  ASSIGN_OR_RETURN(const model::HParams hp, read_hparams(model));
  ASSIGN_OR_RETURN(const Traffic traffic, Traffic::of(model, hp, options.config.kv_type));
  RETURN_IF_ERROR(engine::Engine::check(model, options.config));  // before seconds are spent on the memory's speed
  for (const int n_threads : options.threads) {
    RETURN_IF_ERROR(bench_threads(model, options, n_threads, traffic, stats, reporter));
  }
  return reporter.finish();
}

}  // namespace strata::cli
