#include "experts/adapt.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace strata::experts {
namespace {

// The moves of one layer, best gain first.
void add_layer_moves(const UseCounts& uses, const std::vector<bool>& resident, int32_t layer,
                     std::vector<Move>& moves) {
  const RoutedModel& model = uses.model();
  std::vector<ExpertKey> missed, held;
  for (int32_t e = 0; e < model.n_experts; e++) {
    const ExpertKey key{layer, e};
    if (resident[model.index(key)]) {
      held.push_back(key);
    } else if (uses.recent_misses(key) >= kLeastMisses) {
      missed.push_back(key);
    }
  }
  if (missed.empty() || held.empty()) return;
  const auto count = [&](ExpertKey key) { return uses.count(key); };
  std::stable_sort(missed.begin(), missed.end(), [&](ExpertKey a, ExpertKey b) { return count(a) > count(b); });
  std::stable_sort(held.begin(), held.end(), [&](ExpertKey a, ExpertKey b) { return count(a) < count(b); });
  for (size_t i = 0; i < std::min(missed.size(), held.size()); i++) {
    const double in = count(missed[i]), out = count(held[i]);
    if (!(in > 0 && in >= kLeastAdvantage * out)) break;
    moves.push_back({missed[i], held[i], in - out});
  }
}

}  // namespace

int64_t moves_at_once(const ExpertLayout& layout) {
  constexpr uint64_t kBytes = uint64_t{96} << 20;
  const uint64_t blob = std::max<uint64_t>(layout.largest_blob_bytes(), 1);
  return static_cast<int64_t>(std::clamp<uint64_t>(kBytes / blob, 1, 32));
}

UseCounts::UseCounts(RoutedModel model, double half_life_rows)
    : model_(std::move(model)),
      half_life_rows_(half_life_rows),
      counts_(model_.n_keys()),
      period_(model_.n_keys()),
      misses_(model_.n_keys()),
      earlier_misses_(model_.n_keys()) {}

void UseCounts::begin_with(const ExpertProfile& profile, double rows, int64_t n_used) {
  ASSERT(profile.model() == model_);
  for (int32_t l = 0; l < model_.n_layers; l++) {
    const double total = profile.layer_total(l);
    if (!(total > 0)) continue;
    for (int32_t e = 0; e < model_.n_experts; e++) {
      counts_[model_.index({l, e})] += profile.uses({l, e}) / total * rows * static_cast<double>(n_used);
    }
  }
}

void UseCounts::note(ExpertKey key, bool missed) {
  const size_t i = model_.index(key);
  period_[i] += 1;
  if (missed && misses_[i] < std::numeric_limits<int32_t>::max()) misses_[i]++;
}

void UseCounts::fade(int64_t rows) {
  const double half_lives = static_cast<double>(rows) / half_life_rows_;
  const double left = std::exp2(-half_lives);
  const double left_in_mean = half_lives > 0 ? (1 - left) / (half_lives * std::log(2.0)) : 1;
  for (size_t i = 0; i < counts_.size(); i++) counts_[i] = counts_[i] * left + period_[i] * left_in_mean;
  std::fill(period_.begin(), period_.end(), 0);
  std::swap(misses_, earlier_misses_);
  std::fill(misses_.begin(), misses_.end(), 0);
}

std::vector<Move> choose_moves(const UseCounts& uses, const std::vector<bool>& resident, int64_t max_moves) {
  ASSERT(resident.size() == uses.model().n_keys());
  std::vector<Move> moves;
  for (int32_t l = 0; l < uses.model().n_layers; l++) add_layer_moves(uses, resident, l, moves);
  // A layer's moves stay in their order: their gains fall, and equal ones keep it.
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.gain > b.gain; });
  if (static_cast<int64_t>(moves.size()) > max_moves) moves.resize(static_cast<size_t>(max_moves));
  return moves;
}

}  // namespace strata::experts
