#include "experts/replay.h"

#include <algorithm>

namespace strata::experts {
namespace {

class FixedCache final : public ReplayedCache {
 public:
  using ReplayedCache::ReplayedCache;
};

class AdaptiveCache final : public ReplayedCache {
 public:
  AdaptiveCache(const ExpertProfile& profile, std::span<const ExpertKey> ranking, int64_t n_used,
                const ReplayOptions& options)
      : ReplayedCache(profile, ranking, options), uses_(model_, options.adapt.half_life_rows) {
    uses_.begin_with(profile, options.adapt.prior_rows, n_used);
  }
  void end_row() override {
    if (++rows_ % options_.adapt_every != 0) return;
    for (const Move& move : choose_moves(uses_, resident_, options_.adapt.max_moves)) replace(move.out, move.in);
    uses_.fade(options_.adapt_every);
  }

 private:
  void used(ExpertKey key, bool missed) override { uses_.note(key, missed); }

  UseCounts uses_;
  int64_t rows_ = 0;
};

class LruCache final : public ReplayedCache {
 public:
  LruCache(const ExpertProfile& profile, std::span<const ExpertKey> ranking, const ReplayOptions& options)
      : ReplayedCache(profile, ranking, options), last_use_(model_.n_keys()) {}
  void end_row() override { row_++; }

 private:
  void used(ExpertKey key, bool missed) override {
    last_use_[model_.index(key)] = row_;
    if (!missed) return;
    ExpertKey oldest{key.layer, -1};
    for (int32_t e = 0; e < model_.n_experts; e++) {
      const size_t i = model_.index({key.layer, e});
      // What this row uses stays: a slot handed out in a step is not taken in that step.
      if (!resident_[i] || last_use_[i] == row_) continue;
      if (oldest.expert < 0 || last_use_[i] < last_use_[model_.index(oldest)]) oldest.expert = e;
    }
    if (oldest.expert >= 0) replace(oldest, key);
  }

  std::vector<int64_t> last_use_;  // row; 0: never
  int64_t row_ = 1;
};

template <class Cache>
std::unique_ptr<ReplayedCache> make(const ExpertProfile& profile, std::span<const ExpertKey> ranking, int64_t,
                                    const ReplayOptions& options) {
  return std::make_unique<Cache>(profile, ranking, options);
}
std::unique_ptr<ReplayedCache> make_adaptive(const ExpertProfile& profile, std::span<const ExpertKey> ranking,
                                             int64_t n_used, const ReplayOptions& options) {
  return std::make_unique<AdaptiveCache>(profile, ranking, n_used, options);
}

constexpr ReplayPolicy kPolicies[] = {
    {"fixed", make<FixedCache>}, {"adaptive", make_adaptive}, {"lru", make<LruCache>}};

}  // namespace

ReplayedCache::ReplayedCache(const ExpertProfile& profile, std::span<const ExpertKey> ranking,
                             const ReplayOptions& options)
    : model_(profile.model()), options_(options), resident_(model_.n_keys()) {
  const size_t n = std::min(ranking.size(), static_cast<size_t>(options.n_slots));
  for (const ExpertKey& key : ranking.first(n)) resident_[model_.index(key)] = true;
}

void ReplayedCache::take(int32_t layer, std::span<const uint16_t> ids) {
  // Hits come first, so that no miss of the row takes the place of an expert that the row uses.
  for (const bool resident : {true, false}) {
    for (const uint16_t id : ids) {
      const ExpertKey key{layer, id};
      if (id == kNoExpert || resident_[model_.index(key)] != resident) continue;
      pairs_++;
      hits_ += resident;
      used(key, !resident);
    }
  }
}

void ReplayedCache::replace(ExpertKey out, ExpertKey in) {
  resident_[model_.index(out)] = false;
  resident_[model_.index(in)] = true;
  moves_++;
}

std::span<const ReplayPolicy> replay_policies() { return kPolicies; }

Result<int64_t> replay(RoutingReader& recording, std::span<const std::unique_ptr<ReplayedCache>> caches) {
  RoutingBlock block;
  int64_t rows = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, recording.next(block));
    if (!more) return rows;
    rows += block.n_rows;
    for (const auto& cache : caches) {
      for (int64_t r = 0; r < block.n_rows; r++) {
        for (int32_t l = 0; l < recording.model().n_layers; l++) cache->take(l, block.row(l, r));
        cache->end_row();
      }
    }
  }
}

}  // namespace strata::experts
