#include "engine/adaptation.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace strata::engine {
namespace {

// After a failure so many decisions are left out: a drive or device that has failed once is not asked at every turn.
constexpr int64_t kPause = 64;

}  // namespace

Adaptation::Adaptation(const AdaptationSpec& spec)
    : cache_(spec.cache),
      every_(spec.every),
      max_moves_(spec.options.max_moves),
      uses_(spec.prior.model(), spec.options.half_life_rows),
      resident_(spec.prior.model().n_keys()) {
  uses_.begin_with(spec.prior, spec.options.prior_rows, spec.n_used);
}

Result<std::unique_ptr<Adaptation>> Adaptation::create(const AdaptationSpec& spec) {
  std::unique_ptr<Adaptation> adaptation(new Adaptation(spec));
  ASSIGN_OR_RETURN(adaptation->swaps_, experts::ExpertSwaps::create({.device = spec.device,
                                                                     .compute = spec.compute,
                                                                     .cache = spec.cache,
                                                                     .source = spec.source,
                                                                     .layout = spec.layout,
                                                                     .stats = spec.stats,
                                                                     .resident = spec.resident,
                                                                     .max_moves = spec.options.max_moves}));
  return adaptation;
}

uint64_t Adaptation::bytes_needed(const experts::ExpertLayout& layout, bool resident) {
  return experts::ExpertSwaps::bytes_needed(layout, experts::AdaptOptions().max_moves, resident);
}

void Adaptation::routed(int32_t layer, const device::In<int32_t>& ids) {
  if (layer <= last_layer_ || last_layer_ < 0) rows_ += ids.rows;  // a step begins
  last_layer_ = layer;
  for (int64_t r = 0; r < ids.rows; r++) {
    for (int64_t j = 0; j < ids.cols; j++) {
      const experts::ExpertKey key{layer, ids.row(r)[j]};
      uses_.note(key, cache_.slot(key) < 0);
    }
  }
}

void Adaptation::between_steps() {
  steps_++;
  if (swaps_->state() != experts::SwapState::kIdle) return report(swaps_->advance());
  if (steps_ < every_) return;
  steps_ = 0;
  decide();
}

void Adaptation::decide() {
  if (pause_ > 0) {
    pause_--;
  } else {
    const experts::RoutedModel& model = uses_.model();
    std::fill(resident_.begin(), resident_.end(), false);
    for (const experts::Slot& slot : cache_.plan().slots()) {
      if (cache_.slot(slot.key) >= 0) resident_[model.index(slot.key)] = true;
    }
    report(swaps_->begin(experts::choose_moves(uses_, resident_, max_moves_)));
  }
  uses_.fade(std::exchange(rows_, 0));
}

bool Adaptation::settle() {
  if (swaps_->state() == experts::SwapState::kIdle) return true;
  report(swaps_->settle());
  return swaps_->state() == experts::SwapState::kIdle;
}

void Adaptation::report(const Status& status) {
  if (status.ok()) return;
  pause_ = kPause;
  log_warning("experts could not change places, they stay where they were: {}", status.error().message);
}

}  // namespace strata::engine
