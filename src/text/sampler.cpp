#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"

namespace strata::text {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The stages that do something, in order.
std::vector<const StageRow*> active_stages(const SamplerParams& params) {
  if (params.mirostat > 0) return {&stage_row(StageKind::kTemperature)};
  std::vector<const StageRow*> rows;
  for (const StageKind kind : params.order) {
    const StageRow& row = stage_row(kind);
    if (row.active(params)) rows.push_back(&row);
  }
  return rows;
}

// Whether the chain comes to the most probable candidate, so that it need not be walked.
bool takes_best(const SamplerParams& params, const std::vector<const StageRow*>& rows) {
  const auto is_temperature = [](const StageRow* row) { return row->kind == StageKind::kTemperature; };
  const bool greedy = params.temp <= 0 && std::any_of(rows.begin(), rows.end(), is_temperature);
  return greedy && std::all_of(rows.begin(), rows.end(), [](const StageRow* row) { return row->keeps_best; });
}

}  // namespace

Sampler::Sampler(const SamplerParams& params, int32_t n_vocab)
    : bias_(params.logit_bias),
      picker_(make_picker(params, n_vocab)),
      uniform_(params.seed),
      candidates_(n_vocab) {
  for (const int32_t id : params.suppress) {
    if (id >= 0 && id < n_vocab) suppress_.push_back(id);
  }
  const std::vector<const StageRow*> rows = active_stages(params);
  for (const StageRow* row : rows) stages_.push_back(row->make(params, n_vocab));
  takes_best_ = takes_best(params, rows);
}

Result<Sampler> Sampler::create(const SamplerParams& params, int32_t n_vocab) {
  ASSERT(n_vocab >= 1);
  RETURN_IF_ERROR(check_sampler_params(params, n_vocab));
  return Sampler(params, n_vocab);
}

void Sampler::add_bias() {
  if (bias_.empty() && suppress_.empty()) return;
  const std::span<Candidate> items = candidates_.items();  // by id
  for (const auto& [id, bias] : bias_) {
    float& logit = items[static_cast<size_t>(id)].logit;
    // Not by adding: an infinite logit would become no number.
    logit = bias == kMinusInfinity ? kMinusInfinity : logit + bias;
  }
  for (const int32_t id : suppress_) items[static_cast<size_t>(id)].logit = kMinusInfinity;
  candidates_.changed(items.size());
}

Result<int32_t> Sampler::sample(std::span<const float> logits) {
  candidates_.reset(logits);
  add_bias();
  if (candidates_.max_logit() == kMinusInfinity) {
    return Error{ErrorCode::kInternal,
                 format("no token can be sampled: all {} logits are NaN or -inf, bias included", logits.size())};
  }
  if (takes_best_) return candidates_.best_id();
  for (const auto& stage : stages_) stage->apply(candidates_);
  return picker_->pick(candidates_, uniform_);
}

void Sampler::accept(int32_t id) {
  for (const auto& stage : stages_) stage->accept(id);
  picker_->accept(id);
}

void Sampler::reset() {
  for (const auto& stage : stages_) stage->reset();
  picker_->reset();
  uniform_.reset();
}

}  // namespace strata::text
