#include "engine/adaptation.h"

#include <utility>

#include "base/log.h"

namespace strata::engine {
namespace {

// After a failure so many decisions are left out: a drive or device that has failed once is not asked at every turn.
constexpr int64_t kPause = 64;

class CacheTier final : public ChangingTier {
 public:
  CacheTier(const experts::ExpertCache& cache, std::unique_ptr<experts::ExpertSwaps> swaps)
      : cache_(cache), swaps_(std::move(swaps)) {}
  bool holds(experts::ExpertKey key) const override { return cache_.slot(key) >= 0; }
  bool idle() const override { return swaps_->state() == experts::SwapState::kIdle; }
  Status begin(std::span<const experts::Move> moves) override { return swaps_->begin(moves); }
  Status advance() override { return swaps_->advance(); }
  Status settle() override { return swaps_->settle(); }

 private:
  const experts::ExpertCache& cache_;
  std::unique_ptr<experts::ExpertSwaps> swaps_;
};

class CopyTier final : public ChangingTier {
 public:
  explicit CopyTier(experts::ResidentSource& copy) : copy_(copy) {}
  bool holds(experts::ExpertKey key) const override { return copy_.holds(key); }
  bool idle() const override { return true; }
  Status begin(std::span<const experts::Move> moves) override { return copy_.replace(moves); }
  Status advance() override { return {}; }
  Status settle() override { return {}; }

 private:
  experts::ResidentSource& copy_;
};

}  // namespace

template <class Spec>
Adaptation::Adaptation(const Spec& spec, int64_t max_moves, int32_t first_layer, int32_t last_layer,
                       std::unique_ptr<ChangingTier> tier)
    : layout_(spec.layout),
      first_layer_(first_layer),
      last_layer_(last_layer),
      every_(spec.every),
      max_moves_(max_moves),
      uses_(spec.prior.model(), spec.options.half_life_rows),
      tier_(std::move(tier)),
      resident_(spec.prior.model().n_keys()) {
  uses_.begin_with(spec.prior, spec.options.prior_rows, spec.n_used);
}

Result<std::unique_ptr<Adaptation>> Adaptation::create(const AdaptationSpec& spec) {
  const int64_t max_moves = experts::moves_at_once(spec.layout);
  ASSIGN_OR_RETURN(std::unique_ptr<experts::ExpertSwaps> swaps,
                   experts::ExpertSwaps::create({.device = spec.device,
                                                 .compute = spec.compute,
                                                 .cache = spec.cache,
                                                 .source = spec.source,
                                                 .layout = spec.layout,
                                                 .stats = spec.stats,
                                                 .resident = spec.resident,
                                                 .max_moves = max_moves}));
  return std::unique_ptr<Adaptation>(new Adaptation(spec, max_moves, spec.first_layer, spec.last_layer,
                                                    std::make_unique<CacheTier>(spec.cache, std::move(swaps))));
}

std::unique_ptr<Adaptation> Adaptation::create(const CopyAdaptationSpec& spec) {
  const auto n_layers = static_cast<int32_t>(spec.layout.layers().size());
  return std::unique_ptr<Adaptation>(
      new Adaptation(spec, spec.options.max_moves, 0, n_layers, std::make_unique<CopyTier>(spec.copy)));
}

uint64_t Adaptation::bytes_needed(const experts::ExpertLayout& layout, bool resident) {
  return experts::ExpertSwaps::bytes_needed(layout, experts::moves_at_once(layout), resident);
}

void Adaptation::routed(int32_t layer, const device::In<int32_t>& ids) {
  if (layer < first_layer_ || layer >= last_layer_) return;
  if (layer <= heard_layer_ || heard_layer_ < 0) rows_ += ids.rows;  // a step begins
  heard_layer_ = layer;
  for (int64_t r = 0; r < ids.rows; r++) {
    for (int64_t j = 0; j < ids.cols; j++) {
      const experts::ExpertKey key{layer, ids.row(r)[j]};
      uses_.note(key, !tier_->holds(key));
    }
  }
}

void Adaptation::between_steps() {
  steps_++;
  if (!tier_->idle()) return report(tier_->advance());
  if (steps_ < every_) return;
  steps_ = 0;
  decide();
}

void Adaptation::decide() {
  if (pause_ > 0) {
    pause_--;
  } else {
    const experts::RoutedModel& model = uses_.model();
    for (int32_t l = first_layer_; l < last_layer_; l++) {
      for (int32_t e = 0; e < layout_.layer(l).n_experts; e++) {
        resident_[model.index({l, e})] = tier_->holds({l, e});
      }
    }
    report(tier_->begin(experts::choose_moves(uses_, resident_, max_moves_)));
  }
  uses_.fade(std::exchange(rows_, 0));
}

bool Adaptation::settle() {
  if (tier_->idle()) return true;
  report(tier_->settle());
  return tier_->idle();
}

void Adaptation::report(const Status& status) {
  if (status.ok()) return;
  pause_ = kPause;
  log_warning("experts could not change places, they stay where they were: {}", status.error().message);
}

}  // namespace strata::engine
