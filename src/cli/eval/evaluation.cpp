#include "cli/eval/evaluation.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/format.h"
#include "cli/ids.h"
#include "cli/streams.h"

namespace strata::cli {

void log_softmax(std::span<const float> logits, std::span<float> out) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  const double log_sum = max + std::log(sum);
  for (size_t i = 0; i < logits.size(); i++) out[i] = static_cast<float>(logits[i] - log_sum);
}

Result<std::vector<int32_t>> read_some_ids(const std::string& path, int64_t n_vocab) {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, read_ids(path, n_vocab));
  if (ids.empty()) return Error{ErrorCode::kBadInput, format("{}: there are no token ids in it", input_text(path))};
  return ids;
}

Status fit_context(engine::EngineConfig& config, size_t n, const char* what) {
  const auto wanted = static_cast<int64_t>(n);
  if (config.context > 0 && wanted > config.context) {
    return Error{ErrorCode::kBadInput,
                 format("the input is {}, but --ctx allows {}", counted(wanted, what),
                        counted(config.context, "token"))};
  }
  if (wanted > model::kMaxContext) {
    return Error{ErrorCode::kBadInput,
                 format("the input is {}, but a context holds {} at most", counted(wanted, what), model::kMaxContext)};
  }
  if (config.context == 0) config.context = wanted;
  return {};
}

Status for_each_row(engine::Engine& engine, std::span<const int32_t> ids, size_t first, const RowSink& sink) {
  ASSIGN_OR_RETURN(model::SequenceState sequence, engine.make_sequence());
  std::vector<float> row(static_cast<size_t>(engine.n_vocab()));
  std::vector<int32_t> rows;
  return engine.prefill(sequence, ids, [&](int64_t chunk_first, int64_t n) -> Status {
    rows.clear();
    for (int64_t i = 0; i < n; i++) {
      if (chunk_first + i >= static_cast<int64_t>(first)) rows.push_back(static_cast<int32_t>(i));
    }
    if (rows.empty()) return {};
    return engine.logits(rows, [&](int64_t, std::span<const float> logits) {
      log_softmax(logits, row);
      return sink(row);
    });
  });
}

}  // namespace strata::cli
