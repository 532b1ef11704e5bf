// strata bench: how fast a model, the machine and the matrix products are.
#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "base/topology.h"
#include "cli/bench/kernel_bench.h"
#include "cli/bench/lists.h"
#include "cli/bench/model_bench.h"
#include "cli/bench/serve_bench.h"
#include "cli/bench/system.h"
#include "cli/commands/commands.h"
#include "cli/model_choice.h"
#include "cli/plan/measured_rates.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

constexpr CountRange kTestTokens{0, model::kMaxContext};
constexpr CountRange kThreads{1, 1024};
constexpr CountRange kKernelTokens{1, 8192};
constexpr CountRange kClients{1, 1024};

Status bench_a_model(const Settings& settings);
Status bench_the_system(const Settings& settings);
Status bench_the_kernels(const Settings& settings);
Status bench_a_server(const Settings& settings);

// Flags that only some of the benchmarks know are refused by the others.
struct Benchmark {
  const char* name;
  std::vector<Key> flags;
  Status (*run)(const Settings& settings);
};
const Benchmark kBenchmarks[] = {
    {"model",
     {Key::kModel, Key::kNPrompt, Key::kNGen, Key::kNThreads, Key::kRepetitions, Key::kAct, Key::kKvType, Key::kCtx,
      Key::kCpus, Key::kDevice, Key::kVramBudgetGib, Key::kVramReserveMib, Key::kExperts, Key::kResidentExperts,
      Key::kMmapExperts, Key::kResidentBudgetGib, Key::kStagePin, Key::kIoTimeoutS, Key::kStallNoticeS,
      Key::kExpertCache, Key::kCacheMinSlots, Key::kPrefillBorrow, Key::kPcieFrac, Key::kStreamRows, Key::kAdapt,
      Key::kAdaptEvery, Key::kExpertProfile, Key::kRamGib, Key::kRamHeadroomGib, Key::kPrefill, Key::kDeterministic,
      Key::kGraph, Key::kIsa, Key::kStats},
     bench_a_model},
    {"system", {Key::kFile, Key::kCpus}, bench_the_system},
    {"kernels", {Key::kType, Key::kShape, Key::kNTokens, Key::kRepetitions, Key::kIsa}, bench_the_kernels},
    {"serve", {Key::kConnect, Key::kApiKey, Key::kClients, Key::kNPrompt, Key::kNGen, Key::kRepetitions},
     bench_a_server},
};

const Benchmark* find_benchmark(const std::string& name) {
  for (const Benchmark& benchmark : kBenchmarks) {
    if (name == benchmark.name) return &benchmark;
  }
  return nullptr;
}

bool takes(const Benchmark& benchmark, Key key) {
  return std::find(benchmark.flags.begin(), benchmark.flags.end(), key) != benchmark.flags.end();
}

// Called before the environment is read: that may well be meant for other calls.
Status check_flags(const Settings& settings) {
  const Benchmark& chosen = *find_benchmark(settings.text(Key::kBenchmark));
  for (const Benchmark& other : kBenchmarks) {
    for (const Key key : other.flags) {
      if (!settings.is_set(key) || takes(chosen, key)) continue;
      return Error{ErrorCode::kBadInput, format("--{} means nothing to bench {}; it is for bench {}", setting(key).name,
                                                chosen.name, other.name)};
    }
  }
  return {};
}

Status take_words(Words words, Settings& settings) {
  if (!words.empty() && find_benchmark(words[0]) != nullptr) {
    RETURN_IF_ERROR(give(settings, Key::kBenchmark, words[0]));
    words = words.subspan(1);
  } else if (!words.empty() && !settings.is_set(Key::kBenchmark)) {
    RETURN_IF_ERROR(give(settings, Key::kBenchmark, "model"));  // whatever the environment says
  }
  if (settings.text(Key::kBenchmark) == "model") {
    if (words.size() == 1 && !names_model(words[0])) {
      return Error{ErrorCode::kBadInput,
                   format("bench measures a model, the system, the kernels or a server (serve), and '{}' is none of "
                          "them; write strata bench MODEL, for example", printable(words[0]))};
    }
    RETURN_IF_ERROR(take_model(words, settings));
  } else {
    RETURN_IF_ERROR(take_nothing(words, settings));
  }
  return check_flags(settings);
}

// The list of a flag, without the zeros that switch its tests off.
Result<std::vector<int64_t>> test_lengths(const Settings& settings, Key key) {
  ASSIGN_OR_RETURN(std::vector<int64_t> lengths, parse_counts(settings, key, kTestTokens));
  std::erase(lengths, 0);
  return lengths;
}

Result<std::vector<int>> thread_counts(const Settings& settings) {
  if (settings.text(Key::kNThreads) == "auto") return std::vector<int>{0};
  ASSIGN_OR_RETURN(const std::vector<int64_t> counts, parse_counts(settings, Key::kNThreads, kThreads));
  return std::vector<int>(counts.begin(), counts.end());
}

// The context holds the longest test, and no more than that unless it was asked for.
Status fit_context(const ModelBenchOptions& options, engine::EngineConfig& config) {
  int64_t needed = 0;
  for (const auto* lengths : {&options.prompts, &options.answers}) {
    for (const int64_t n : *lengths) needed = std::max(needed, n);
  }
  if (needed == 0) return Error{ErrorCode::kBadInput, "-p 0 and -n 0 leave nothing to measure"};
  if (config.context > 0 && config.context < needed) {
    return Error{ErrorCode::kBadInput,
                 format("a test of {} tokens does not fit into --ctx {}", needed, config.context)};
  }
  config.context = std::max(config.context, needed);
  return {};
}

uint64_t buffer_bytes(const Settings& settings, uint64_t fallback) {
  const bool is_auto = settings.is_auto(Key::kBufferMib);
  return is_auto ? fallback : static_cast<uint64_t>(settings.integer(Key::kBufferMib)) * kMiB;
}

Result<ModelBenchOptions> model_options(const Settings& settings) {
  ModelBenchOptions options;
  ASSIGN_OR_RETURN(options.config, engine::config_from(settings, engine::NumericPath::kFast));
  ASSIGN_OR_RETURN(options.prompts, test_lengths(settings, Key::kNPrompt));
  ASSIGN_OR_RETURN(options.answers, test_lengths(settings, Key::kNGen));
  ASSIGN_OR_RETURN(options.threads, thread_counts(settings));
  RETURN_IF_ERROR(fit_context(options, options.config));
  options.repetitions = static_cast<int>(settings.integer(Key::kRepetitions));
  options.buffer_bytes = buffer_bytes(settings, kMemorySpeedBytes);
  return options;
}

uint64_t tensor_bytes(const gguf::Model& model) {
  uint64_t bytes = 0;
  for (const gguf::TensorInfo& tensor : model.tensors()) bytes += tensor.bytes;
  return bytes;
}

Status bench_a_model(const Settings& settings) {
  ASSIGN_OR_RETURN(const ModelBenchOptions options, model_options(settings));
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  const BenchHead head{.model_path = path, .model_bytes = tensor_bytes(*model), .cpu_name = cpu_name(),
                       .options = options};
  const auto reporter = settings.on(Key::kJson) ? make_json_reporter(head) : make_text_reporter(head);
  Stats stats;
  RETURN_IF_ERROR(bench_model(*model, options, stats, *reporter));
  if (settings.on(Key::kStats)) write_stderr(stats.to_text());
  return {};
}

Status bench_the_system(const Settings& settings) {
  SystemOptions options{.buffer_bytes = buffer_bytes(settings, kMemorySpeedBytes),
                        .drive_file = settings.text(Key::kFile)};
  if (!settings.text(Key::kCpus).empty()) {
    ASSIGN_OR_RETURN(options.cpus, parse_cpu_list(settings.text(Key::kCpus)));
  }
  ASSIGN_OR_RETURN(const SystemReport report, measure_system(options));
  keep_rates(report);
  return write_stdout(settings.on(Key::kJson) ? system_json(report) : system_text(report));
}

Result<std::vector<const quant::TypeInfo*>> chosen_types(const Settings& settings) {
  std::vector<const quant::TypeInfo*> types = product_types();
  const std::string& name = settings.text(Key::kType);
  if (name.empty()) return types;
  std::string names;
  for (const quant::TypeInfo* type : types) {
    if (name == type->name) return std::vector<const quant::TypeInfo*>{type};
    names += std::string(names.empty() ? "" : ", ") + type->name;
  }
  return Error{ErrorCode::kBadInput, format("--type {}: bench kernels knows {}", printable(name), names)};
}

Result<std::vector<kernels::Isa>> chosen_isas(const Settings& settings) {
  const std::string& name = settings.text(Key::kIsa);
  if (name != "auto") {
    ASSIGN_OR_RETURN(const kernels::Kernels* kernels, kernels::select_kernels(name.c_str()));
    return std::vector<kernels::Isa>{kernels->isa};
  }
  std::vector<kernels::Isa> isas;
  using kernels::Isa;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
    if (kernels::isa_available(isa)) isas.push_back(isa);
  }
  return isas;
}

Status bench_the_kernels(const Settings& settings) {
  KernelBenchOptions options;
  ASSIGN_OR_RETURN(options.types, chosen_types(settings));
  ASSIGN_OR_RETURN(options.isas, chosen_isas(settings));
  ASSIGN_OR_RETURN(options.shapes, parse_shapes(settings));
  ASSIGN_OR_RETURN(options.tokens, parse_counts(settings, Key::kNTokens, kKernelTokens));
  options.repetitions = static_cast<int>(settings.integer(Key::kRepetitions));
  options.buffer_bytes = buffer_bytes(settings, 0);
  if (settings.on(Key::kJson)) {
    std::vector<KernelResult> results;
    RETURN_IF_ERROR(bench_kernels(options, [&](const KernelResult& result) {
      results.push_back(result);
      return Status();
    }));
    return write_stdout(kernel_json(results));
  }
  RETURN_IF_ERROR(write_stdout(kernel_table_head()));
  return bench_kernels(options, [](const KernelResult& result) { return write_stdout(kernel_row(result)); });
}

// One length, of a flag that lists them for other benchmarks.
Result<int64_t> one_length(const Settings& settings, Key key) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, parse_counts(settings, key, kTestTokens));
  if (lengths.size() == 1 && lengths[0] > 0) return lengths[0];
  return Error{ErrorCode::kBadInput, format("--{} {}: bench serve takes one number above 0", setting(key).name,
                                            printable(settings.text(key)))};
}

Status bench_a_server(const Settings& settings) {
  constexpr const char* kOurs = "http://127.0.0.1:8080";
  ServeBenchOptions options;
  const std::string& given = settings.text(Key::kConnect);
  ASSIGN_OR_RETURN(options.url, server::http::parse_url(given.empty() ? kOurs : given));
  options.api_key = settings.text(Key::kApiKey);
  ASSIGN_OR_RETURN(options.clients, parse_counts(settings, Key::kClients, kClients));
  ASSIGN_OR_RETURN(options.prompt_words, one_length(settings, Key::kNPrompt));
  ASSIGN_OR_RETURN(options.answer_tokens, one_length(settings, Key::kNGen));
  options.requests = settings.integer(Key::kRepetitions);
  const bool json = settings.on(Key::kJson);
  std::vector<ServeResult> results;
  for (const int64_t clients : options.clients) {
    ASSIGN_OR_RETURN(ServeResult result, bench_serve(options, clients));
    if (!json) RETURN_IF_ERROR(write_stdout((results.empty() ? serve_table_head() : "") + serve_row(result)));
    results.push_back(std::move(result));
  }
  return json ? write_stdout(serve_json(results)) : Status();
}

}  // namespace

const Command kBenchCommand = {
    .name = "bench",
    .arguments = "[MODEL] | system | kernels | serve",
    .summary = "Measure the speed of a model, the machine's memory and drive, the matrix products, or a server",
    .scope = kScopeBench,
    .take_words = take_words,
    .run = [](const Settings& settings) { return find_benchmark(settings.text(Key::kBenchmark))->run(settings); },
};

}  // namespace strata::cli
