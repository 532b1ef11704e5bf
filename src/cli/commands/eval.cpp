// strata eval logprobs: what a model thinks of every token of a text, for comparisons with other programs.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/clock.h"
#include "base/format.h"
#include "cli/commands/commands.h"
#include "cli/ids.h"
#include "cli/model_choice.h"
#include "cli/speed.h"
#include "cli/streams.h"
#include "engine/engine.h"
#include "gguf/output_file.h"

namespace strata::cli {
namespace {

Status take_words(Words words, Settings& settings) {
  if (words.empty() || words[0] != "logprobs") {
    const std::string given = words.empty() ? "nothing" : "'" + printable(words[0]) + "'";
    return Error{ErrorCode::kBadInput,
                 format("eval can compute logprobs, but {} was asked for; write strata eval logprobs MODEL", given)};
  }
  return take_model(words.subspan(1), settings);
}

Status require(const Settings& settings, Key key, const char* how) {
  if (!settings.text(key).empty()) return {};
  return Error{ErrorCode::kBadInput, format("eval logprobs needs {}", how)};
}

// What exists under the name of the result and is not a file, a device for one, must not be replaced by a file.
Status check_output(const std::string& path) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
  return Error{ErrorCode::kBadInput, format("--out {}: this exists and is not a file", path_text(path))};
}

Result<std::vector<int32_t>> read_ids(const std::string& path, int64_t n_vocab) {
  ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxIdsBytes));
  const std::string origin = path == "-" ? "standard input" : path_text(path);
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, parse_ids(text, n_vocab, origin));
  if (ids.empty()) return Error{ErrorCode::kBadInput, format("{}: there are no token ids in it", origin)};
  return ids;
}

// The context that the ids need, where the settings leave it open; fewer would not do.
Status fit_context(engine::EngineConfig& config, size_t n_ids) {
  const auto n = static_cast<int64_t>(n_ids);
  if (config.context > 0 && n > config.context) {
    return Error{ErrorCode::kBadInput, format("there are {} ids, but --ctx allows {} tokens", n, config.context)};
  }
  if (n > model::kMaxContext) {
    return Error{ErrorCode::kBadInput,
                 format("there are {} ids, but a context holds {} at most", n, model::kMaxContext)};
  }
  if (config.context == 0) config.context = n;
  return {};
}

// log(softmax(logits)), summed in double. `out` is as long as `logits`.
void log_softmax(std::span<const float> logits, std::span<float> out) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  const double log_sum = max + std::log(sum);
  for (size_t i = 0; i < logits.size(); i++) out[i] = static_cast<float>(logits[i] - log_sum);
}

Status write_logprobs(engine::Engine& engine, std::span<const int32_t> ids, gguf::OutputFile& out) {
  ASSIGN_OR_RETURN(model::SequenceState sequence, engine.make_sequence());
  std::vector<float> row(static_cast<size_t>(engine.n_vocab()));
  std::vector<int32_t> rows;
  return engine.prefill(sequence, ids, [&](int64_t, int64_t n) -> Status {
    rows.resize(static_cast<size_t>(n));
    std::iota(rows.begin(), rows.end(), 0);
    return engine.logits(rows, [&](int64_t, std::span<const float> logits) {
      log_softmax(logits, row);
      return out.append(std::as_bytes(std::span(row)));
    });
  });
}

Status eval(const Settings& settings) {
  RETURN_IF_ERROR(require(settings, Key::kModel, "a model: strata eval logprobs MODEL"));
  RETURN_IF_ERROR(require(settings, Key::kIdsFile, "--ids-file FILE"));
  RETURN_IF_ERROR(require(settings, Key::kOut, "--out FILE"));
  ASSIGN_OR_RETURN(engine::EngineConfig config, engine::config_from(settings, kernels::KvType::kF32));
  RETURN_IF_ERROR(check_output(settings.text(Key::kOut)));
  ASSIGN_OR_RETURN(const auto model, open_model(settings.text(Key::kModel)));
  ASSIGN_OR_RETURN(const model::HParams hp, read_hparams(*model));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, read_ids(settings.text(Key::kIdsFile), hp.n_vocab));
  RETURN_IF_ERROR(fit_context(config, ids.size()));

  gguf::OutputFile out(settings.text(Key::kOut));
  RETURN_IF_ERROR(out.open());
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::open(*model, config, stats));
  const int64_t start_ns = real_clock().now_ns();
  RETURN_IF_ERROR(write_logprobs(*engine, ids, out));
  RETURN_IF_ERROR(out.commit());
  if (settings.on(Key::kStats)) {
    const int64_t duration_ns = real_clock().now_ns() - start_ns;
    write_stderr(stats.to_text() + speed_text("prompt", static_cast<int64_t>(ids.size()), duration_ns));
  }
  return {};
}

}  // namespace

const Command kEvalCommand = {
    .name = "eval",
    .arguments = "logprobs MODEL --ids-file IDS --out OUT",
    .summary = "Write the log-probabilities of all tokens after each of the given ids, rows of little-endian float32",
    .scope = kScopeEval,
    .take_words = take_words,
    .run = eval,
};

}  // namespace strata::cli
