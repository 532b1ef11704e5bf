#include "base/clock.h"
#include "base/format.h"
#include "cli/eval/evaluation.h"
#include "cli/model_choice.h"
#include "cli/speed.h"
#include "cli/streams.h"
#include "gguf/output_file.h"

namespace strata::cli {

Status eval_logprobs(const Settings& settings) {
  ASSIGN_OR_RETURN(engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFloat));
  RETURN_IF_ERROR(check_output(settings.text(Key::kOut), "--out"));
  ASSIGN_OR_RETURN(const auto model, open_model(settings.text(Key::kModel)));
  ASSIGN_OR_RETURN(const model::HParams hp, read_hparams(*model));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, read_ids(settings.text(Key::kIdsFile), hp.n_vocab));
  RETURN_IF_ERROR(fit_context(config, ids.size(), "ids"));

  gguf::OutputFile out(settings.text(Key::kOut));
  RETURN_IF_ERROR(out.open());
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::open(*model, config, stats));
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
