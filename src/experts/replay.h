// Measures cache policies on recorded routings: what share of the (row, expert) pairs a cache would have held. Every
// recorded row counts as a step of its own, as in an answer; slots are alike.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experts/adapt.h"
#include "experts/routing_file.h"

namespace strata::experts {

struct ReplayOptions {
  int64_t n_slots = 0;
  int64_t adapt_every = 4;  // rows between two decisions of "adaptive"
  AdaptOptions adapt = {};
};

// One cache of a replay. The first experts of the ranking are in it at the start.
class ReplayedCache {
 public:
  ReplayedCache(const ExpertProfile& profile, std::span<const ExpertKey> ranking, const ReplayOptions& options);
  virtual ~ReplayedCache() = default;
  // Takes a row of one layer after another, layers in order.
  void take(int32_t layer, std::span<const uint16_t> ids);
  virtual void end_row() {}

  int64_t pairs() const { return pairs_; }
  int64_t hits() const { return hits_; }
  int64_t moves() const { return moves_; }
  double hit_rate() const { return pairs_ == 0 ? 0 : static_cast<double>(hits_) / static_cast<double>(pairs_); }

 protected:
  virtual void used(ExpertKey, bool) {}
  void replace(ExpertKey out, ExpertKey in);

  RoutedModel model_;
  ReplayOptions options_;
  std::vector<bool> resident_;  // [n_layers][n_experts]

 private:
  int64_t pairs_ = 0, hits_ = 0, moves_ = 0;
};

// What can be measured: "fixed" keeps the experts of the start; "adaptive" is what the engine does (adapt.h), with
// moves that take no time; "lru" replaces at every miss the expert of the layer that was used longest ago, which no
// link could keep up with: a yardstick.
struct ReplayPolicy {
  const char* name;
  std::unique_ptr<ReplayedCache> (*make)(const ExpertProfile& profile, std::span<const ExpertKey> ranking,
                                         int64_t n_used, const ReplayOptions& options);
};
std::span<const ReplayPolicy> replay_policies();

// Runs all of a recording through the caches. kBadInput when it is damaged.
Result<int64_t> replay(RoutingReader& recording, std::span<const std::unique_ptr<ReplayedCache>> caches);

}  // namespace strata::experts
