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
      const int64_t reads_before = stats_.get(Counter::kResidentFileReads);
      const TierUse before = TierUse::now(stats_);
      ASSIGN_OR_RETURN(const Run run, run_once(kind, n_tokens));
      if (i == 0) continue;
      result.drive_bytes += static_cast<uint64_t>(stats_.get(Counter::kFileReadBytes) - read_before);
      result.file_reads += static_cast<double>(stats_.get(Counter::kResidentFileReads) - reads_before);
      result.durations_ns.push_back(run.duration_ns);
      result.bytes += run.bytes;
      result.dense_bytes += run.dense_bytes;
      result.tiers += TierUse::now(stats_) - before;
    }
    result.tiers = result.tiers / repetitions_;
    result.file_reads /= repetitions_;
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
    Run run;
    if (kind == TestKind::kPrompt) {
      RETURN_IF_ERROR(read_prompt(sequence, ids, run));
    } else {
      for (const int32_t& id : ids) RETURN_IF_ERROR(run_token(sequence, {&id, 1}, run));
    }
    return run;
  }

  // Chunks follow one another through the parts of a split; the logits of the last row end the prompt. Which part has
  // read which expert for which chunk can't be told: each chunk counts for an equal share of them all.
  Status read_prompt(model::SequenceState& sequence, std::span<const int32_t> ids, Run& run) {
    const auto n_tokens = std::ssize(ids);
    const int64_t n_chunks = (n_tokens + engine_.max_rows() - 1) / engine_.max_rows();
    const double experts_before = experts_read();
    const int64_t begin_ns = engine_.now_ns();
    RETURN_IF_ERROR(engine_.prefill(sequence, ids, [&](int64_t first, int64_t n) -> Status {
      return first + n == n_tokens ? read_logits(n - 1) : Status();
    }));
    run.duration_ns += engine_.now_ns() - begin_ns;
    const auto chunks = static_cast<double>(n_chunks);
    const double visits = std::min(experts_read() - experts_before, chunks * all_experts()) / chunks;
    for (int64_t first = 0; first < n_tokens; first += engine_.max_rows()) {
      const int64_t n = std::min<int64_t>(engine_.max_rows(), n_tokens - first);
      count_step({.first = first, .n = n, .experts = 0, .head = first + n == n_tokens}, visits, run);
    }
    return {};
  }

  // What is counted afterwards takes no measured time.
  Status run_token(model::SequenceState& sequence, std::span<const int32_t> id, Run& run) {
    const int64_t first = sequence.n_tokens();
    const double experts_before = experts_read();
    const model::BatchRows batch[] = {{.sequence = &sequence, .ids = id, .ends_in_logits = true}};
    const int64_t begin_ns = engine_.now_ns();
    RETURN_IF_ERROR(engine_.step(batch));
    RETURN_IF_ERROR(read_logits(0));
    run.duration_ns += engine_.now_ns() - begin_ns;
    count_step({.first = first, .n = 1, .experts = 0, .head = true},
               std::min(experts_read() - experts_before, all_experts()), run);
    return {};
  }

  Status read_logits(int64_t row) {
    const auto last_row = static_cast<int32_t>(row);
    return engine_.logits({&last_row, 1}, [](int64_t, std::span<const float>) { return Status(); });
  }

  void count_step(StepRows rows, double visits, Run& run) const {
    run.dense_bytes += traffic_.step_bytes(rows);
    rows.experts = visits / std::max(engine_.hparams().n_expert_layers(), 1);
    run.bytes += traffic_.step_bytes(rows);
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

void note_placement(const engine::Engine& engine, EngineNote& note) {
  const experts::PlacementPlan& plan = engine.placement();
  for (int i = 0; i < engine.n_parts(); i++) {
    const experts::PartNeeds& needs = engine.part_needs(i);
    const experts::PartPlacement& placed = plan.parts[static_cast<size_t>(i)];
    PartNote part{.device = needs.device,
                  .first_layer = needs.first_layer,
                  .last_layer = needs.last_layer,
                  .cached_experts = placed.slots.n_slots(),
                  .lent_experts = placed.lent_slots,
                  .lent_in_ram = placed.lent_in_ram,
                  .link_bytes_per_second = engine.link_bytes_per_second(i)};
    for (int64_t slot = 0; slot < part.cached_experts; slot++) {
      const experts::ExpertKey key = placed.slots.slots()[static_cast<size_t>(slot)].key;
      const uint64_t bytes = engine.layout().layer(key.layer).blob_bytes();
      part.cached_bytes += bytes;
      // Loans take the highest slot first, and so do the regions that a copy keeps of them.
      if (slot >= part.cached_experts - part.lent_in_ram) part.lent_in_ram_bytes += bytes;
    }
    note.parts.push_back(std::move(part));
  }
  note.expert_bytes = engine.layout().total_bytes();
  note.experts_in_ram_bytes = plan.experts_bytes;
  note.experts_pinned_bytes = engine.pinned_expert_bytes();
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
  note.chunk = engine->max_rows();
  note.description = engine->describe();
  note.simulated = config.device.starts_with("sim");
  note_placement(*engine, note);
  RETURN_IF_ERROR(reporter.engine_opened(note));
  EngineBench bench(*engine, traffic, stats, options.repetitions);
  const auto measure_all = [&](TestKind kind, const std::vector<int64_t>& lengths) -> Status {
    for (const int64_t n_tokens : lengths) {
      ASSIGN_OR_RETURN(TestResult result, bench.measure(kind, n_tokens));
      result.threads = team.n_threads;
      result.ceiling_bytes_per_second = note.ceiling_bytes_per_second();
      result.rates = note.rates(kind);
      RETURN_IF_ERROR(reporter.test_done(result));
    }
    return {};
  };
  RETURN_IF_ERROR(measure_all(TestKind::kPrompt, options.prompts));
  return measure_all(TestKind::kGenerate, options.answers);
}

}  // namespace

TierRates EngineNote::rates(TestKind kind) const {
  TierRates rates{.device = gpu_bytes_per_second,
                  .cpu = ceiling.bytes_per_second,
                  .node_seconds = node_seconds,
                  .devices = std::max(static_cast<int>(parts.size()), 1),
                  .together = kind == TestKind::kPrompt};
  for (const PartNote& part : parts) rates.link += part.link_bytes_per_second / rates.devices;
  return rates;
}

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
