// Which experts should lie in a device's cache: counts of late use, and the moves that follow from them. Arithmetic
// only; swap.h carries moves out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/profile.h"

namespace strata::experts {

struct AdaptOptions {
  // A use counts half after as many rows. Measured on recordings of the demo model with 10, 25 and 50 % of its experts
  // cached: 32 to 64 hit most (8: 0.5 % less, 512: 1 % less), and 64 moves less than half as many experts as 32. More
  // frequent decisions, or more moves, gain less than 0.2 %.
  double half_life_rows = 64;
  // What a profile stands for at the start: as many rows, routed as it says.
  double prior_rows = 32;
  int64_t max_moves = 4;  // of one decision
};
// Moves of one decision between a device's cache and RAM: as many as copy so many bytes, which a link does in two
// milliseconds beside the steps that follow. A cache that begins with the wrong experts is right after fewer tokens.
int64_t moves_at_once(const ExpertLayout& layout);
// A missed expert moves in after this many recent misses...
inline constexpr int64_t kLeastMisses = 2;
// ...and when it counts this many times as much as the one that it replaces.
inline constexpr double kLeastAdvantage = 1.5;

// How much each expert was used of late: frequency and recency in one number, a sum of uses each of which fades with
// the rows that came after it. One thread at a time.
class UseCounts {
 public:
  UseCounts(RoutedModel model, double half_life_rows);

  const RoutedModel& model() const { return model_; }
  // Begins with the uses that `rows` rows routed as the profile says would leave; `n_used` experts each. The profile is
  // of the same model.
  void begin_with(const ExpertProfile& profile, double rows, int64_t n_used);
  void note(ExpertKey key, bool missed);
  // The period ends, of `rows` rows: its uses count as if they had come evenly over it, earlier ones fade by all of it.
  // After a long prompt the counts say what it used, whatever its last rows were.
  void fade(int64_t rows);

  double count(ExpertKey key) const { return counts_[model_.index(key)] + period_[model_.index(key)]; }
  // Rows that missed it in this period and the one before.
  int64_t recent_misses(ExpertKey key) const {
    return int64_t{misses_[model_.index(key)]} + earlier_misses_[model_.index(key)];
  }

 private:
  RoutedModel model_;
  double half_life_rows_;
  std::vector<double> counts_;  // [n_layers][n_experts] of the periods before
  std::vector<double> period_;  // of this one
  std::vector<int32_t> misses_, earlier_misses_;
};

// `in` takes the slot of `out`, an expert of the same layer.
struct Move {
  ExpertKey in;
  ExpertKey out;
  double gain = 0;  // difference of their counts

  bool operator==(const Move&) const = default;
};

// The moves that are worth their copies, the best gain first, at most `max_moves`. In each layer the most used of the
// experts that were missed recently replaces the least used of the `resident` ones, the next one the next one, and so
// on as long as kLeastMisses and kLeastAdvantage hold. No expert is named twice. resident [n_layers][n_experts].
std::vector<Move> choose_moves(const UseCounts& uses, const std::vector<bool>& resident, int64_t max_moves);

}  // namespace strata::experts
