#include "base/clock.h"
#include "base/format.h"
#include "base/output_file.h"
#include "cli/eval/evaluation.h"
#include "cli/model_choice.h"
#include "cli/speed.h"
#include "cli/streams.h"

namespace strata::cli {

namespace {

Status check_inputs_stay(const std::string& out, const gguf::Model& model, const std::string& ids_file) {
  std::vector<std::string> inputs = {ids_file};
  for (const gguf::Shard& shard : model.shards()) inputs.push_back(shard.path);
  for (const std::string& input : inputs) {
    if (!would_replace(out, input)) continue;
    return Error{ErrorCode::kBadInput, format("--out {} would replace {}, which is read; give another name",
                                              path_text(out), input_text(input))};
  }
  return {};
}

}  // namespace

Status eval_logprobs(const Settings& settings) {
  ASSIGN_OR_RETURN(engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFloat));
  ASSIGN_OR_RETURN(const auto model, open_model(settings.text(Key::kModel)));
  RETURN_IF_ERROR(check_inputs_stay(settings.text(Key::kOut), *model, settings.text(Key::kIdsFile)));
  OutputFile out(settings.text(Key::kOut));
  RETURN_IF_ERROR(out.open());
  ASSIGN_OR_RETURN(const model::HParams hp, read_hparams(*model));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, read_some_ids(settings.text(Key::kIdsFile), hp.n_vocab));
  RETURN_IF_ERROR(fit_context(config, ids.size(), "id"));
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, open_engine(settings, *model, config, stats));
  const int64_t start_ns = real_clock().now_ns();
  RETURN_IF_ERROR(for_each_row(*engine, ids, 0, [&](std::span<const float> row) {
    return out.append(std::as_bytes(row));
  }));
  RETURN_IF_ERROR(out.commit());
  if (settings.on(Key::kStats)) {
    const int64_t duration_ns = real_clock().now_ns() - start_ns;
    write_stderr(stats.to_text() + speed_text("prompt", static_cast<int64_t>(ids.size()), duration_ns));
  }
  return {};
}

}  // namespace strata::cli
