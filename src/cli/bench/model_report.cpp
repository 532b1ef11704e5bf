// The rows of a model, for people as they come, and for programs in the end.
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cli/bench/model_bench.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

constexpr double kGiga = 1e9;
constexpr double kMega = 1e6;

class TextReporter final : public ModelBenchReporter {
 public:
  explicit TextReporter(const BenchHead& head) : head_(head) {}

  Status engine_opened(const EngineNote& note) override {
    const ReadSpeed& ceiling = note.ceiling;
    std::string text = first_ ? head_text() : std::string("\n");
    first_ = false;
    text += format("{}\n", printable(note.description, kMaxDescriptionBytes));
    text += format("loaded in {:.2f} s; {} threads read {:.2f} GB/s from {}{}, {} of it on huge pages\n\n",
                   static_cast<double>(note.load_ns) / kGiga, ceiling.threads, ceiling.bytes_per_second / kGiga,
                   format_bytes(ceiling.buffer_bytes), ceiling.reduced ? " (there is no RAM for more)" : "",
                   format_bytes(ceiling.huge_bytes));
    if (note.gpu_bytes_per_second > 0) {
      text.pop_back();
      text += format("the memory of the GPU yields at most {:.0f} GB/s, which is the ceiling; a node of a graph takes "
                     "{:.2f} us\n\n",
                     note.gpu_bytes_per_second / kGiga, 1e6 * note.node_seconds);
    }
    if (note.simulated) {
      text.pop_back();
      text += "times are those of the simulated devices, not of this machine\n\n";
    }
    text += "| test   | threads | tokens/s |      min .. max     | MB/token |   GB/s | of ceiling | drive MB/token |\n"
            "| ------ | ------: | -------: | ------------------: | -------: | -----: | ---------: | -------------: |\n";
    return write_stdout(text);
  }
  Status test_done(const TestResult& result) override {
    if (result.rates.device > 0) in_tiers_.push_back(result);
    const Spread speed = result.tokens_per_second();
    const std::optional<double> share = result.share_of_ceiling();
    return write_stdout(
        format("| {:<6} | {:>7} | {:>8.2f} | {:>8.2f} .. {:>7.2f} | {:>8.1f} | {:>6.2f} | {:>10} | {:>14.1f} |\n",
               result.name(), result.threads, speed.median, speed.min, speed.max, result.bytes_per_token() / kMega,
               result.bytes_per_second() / kGiga, share ? format("{:.0f} %", 100 * *share) : "-",
               result.drive_bytes_per_token() / kMega));
  }
  Status finish() override { return in_tiers_.empty() ? Status() : write_stdout(tiers_text()); }

 private:
  static constexpr size_t kMaxDescriptionBytes = 1024;

  // A token's bytes by where they were read, and what the machine allows.
  std::string tiers_text() const {
    std::string text =
        "\n"
        "| test   | threads | hits | VRAM MB/token | CPU MB/token | link MB/token | link busy | nodes/token | at most "
        "| reached |\n"
        "| ------ | ------: | ---: | ------------: | -----------: | ------------: | --------: | ----------: | ------: "
        "| ------: |\n";
    for (const TestResult& result : in_tiers_) {
      const auto n = static_cast<double>(result.n_tokens);
      const TierUse& use = result.tiers;
      const double own = static_cast<double>(result.bytes) - use.cpu_bytes - use.linked_bytes;
      const double most = result.most_tokens_per_second();
      const double hits = use.pairs > 0 ? 100 * use.hits / use.pairs : 0;
      text += format("| {:<6} | {:>7} | {:>2.0f} % | {:>13.1f} | {:>12.1f} | {:>13.1f} |", result.name(),
                     result.threads, hits, std::max(own, 0.0) / n / kMega, use.cpu_bytes / n / kMega,
                     use.link_bytes() / n / kMega);
      text += format(" {:>7.0f} % | {:>11.1f} | {:>7.1f} | {:>5.0f} % |\n",
                     100 * link_busy(use, result.seconds(), result.rates), use.nodes / n, most,
                     most > 0 ? 100 * result.tokens_per_second().median / most : 0);
    }
    return text;
  }

  std::string head_text() const {
    return format("{}: {} of tensors; {}\n", path_text(head_.model_path), format_bytes(head_.model_bytes),
                  printable(head_.cpu_name));
  }

  const BenchHead head_;
  std::vector<TestResult> in_tiers_;  // where a GPU computes
  bool first_ = true;
};

Json test_json(const TestResult& result) {
  const Spread speed = result.tokens_per_second();
  const std::optional<double> share = result.share_of_ceiling();
  const bool prompt = result.kind == TestKind::kPrompt;
  const auto n = static_cast<double>(result.n_tokens);
  return {{"test", result.name()},
          {"n_prompt", prompt ? result.n_tokens : 0},
          {"n_gen", prompt ? 0 : result.n_tokens},
          {"threads", result.threads},
          {"durations_ns", result.durations_ns},
          {"tokens_per_second", {{"median", speed.median}, {"min", speed.min}, {"max", speed.max}}},
          {"bytes_per_token", result.bytes_per_token()},
          {"bytes_per_second", result.bytes_per_second()},
          {"drive_bytes_per_token", result.drive_bytes_per_token()},
          {"file_reads", result.file_reads},
          {"cpu_expert_bytes_per_token", result.tiers.cpu_bytes / n},
          {"link_bytes_per_token", result.tiers.link_bytes() / n},
          {"cache_hit_share", result.tiers.pairs > 0 ? result.tiers.hits / result.tiers.pairs : 0},
          {"link_busy_share", link_busy(result.tiers, result.seconds(), result.rates)},
          {"graph_nodes_per_token", result.tiers.nodes / n},
          {"most_tokens_per_second", result.most_tokens_per_second()},
          {"share_of_read_ceiling", share ? Json(*share) : Json(nullptr)}};
}

Json part_json(const PartNote& part) {
  return {{"device", part.device},
          {"first_layer", part.first_layer},
          {"last_layer", part.last_layer - 1},
          {"cached_experts", part.cached_experts},
          {"cached_bytes", part.cached_bytes},
          {"lent_experts", part.lent_experts},
          {"lent_in_ram", part.lent_in_ram},
          {"lent_in_ram_bytes", part.lent_in_ram_bytes},
          {"link_bytes_per_second", part.link_bytes_per_second}};
}

Json engine_json(const EngineNote& note) {
  Json parts = Json::array();
  for (const PartNote& part : note.parts) parts.push_back(part_json(part));
  return {{"threads", note.ceiling.threads},
          {"parts", std::move(parts)},
          {"expert_bytes", note.expert_bytes},
          {"experts_in_ram_bytes", note.experts_in_ram_bytes},
          {"experts_pinned_bytes", note.experts_pinned_bytes},
          {"load_ns", note.load_ns},
          {"description", note.description},
          {"simulated", note.simulated},
          {"read_ceiling_bytes_per_second", note.ceiling_bytes_per_second()},
          {"chunk", note.chunk},
          {"graph_node_seconds", note.node_seconds},
          {"ceiling_buffer_bytes", note.ceiling.buffer_bytes},
          {"ceiling_buffer_reduced", note.ceiling.reduced},
          {"ceiling_huge_page_bytes", note.ceiling.huge_bytes}};
}

class JsonReporter final : public ModelBenchReporter {
 public:
  explicit JsonReporter(const BenchHead& head) {
    json_ = {{"version", STRATA_VERSION},
             {"model", head.model_path},
             {"model_bytes", head.model_bytes},
             {"cpu", head.cpu_name},
             {"kv_type", kernels::kv_type_name(head.options.config.kv_type)},
             {"isa", head.options.config.isa},
             {"repetitions", head.options.repetitions},
             {"engines", Json::array()},
             {"tests", Json::array()}};
  }

  Status engine_opened(const EngineNote& note) override {
    json_["engines"].push_back(engine_json(note));
    return {};
  }
  Status test_done(const TestResult& result) override {
    json_["tests"].push_back(test_json(result));
    return {};
  }
  Status finish() override {
    return write_stdout(json_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

 private:
  Json json_;
};

}  // namespace

std::unique_ptr<ModelBenchReporter> make_text_reporter(const BenchHead& head) {
  return std::make_unique<TextReporter>(head);
}
std::unique_ptr<ModelBenchReporter> make_json_reporter(const BenchHead& head) {
  return std::make_unique<JsonReporter>(head);
}

}  // namespace strata::cli
