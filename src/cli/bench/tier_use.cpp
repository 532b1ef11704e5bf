#include "cli/bench/tier_use.h"

#include <algorithm>

namespace strata::cli {

TierUse TierUse::now(const Stats& stats) {
  const auto count = [&](Counter counter) { return static_cast<double>(stats.get(counter)); };
  return {.hits = count(Counter::kCacheHits),
          .pairs = count(Counter::kCacheHits) + count(Counter::kCacheMisses),
          .cpu_bytes = count(Counter::kExpertBytes),
          .linked_bytes = count(Counter::kLinkedBytes),
          .streamed_bytes = count(Counter::kStreamedBytes),
          .moved_bytes = count(Counter::kCacheUploadBytes),
          .nodes = count(Counter::kGraphNodes)};
}

TierUse TierUse::operator-(const TierUse& earlier) const {
  return {hits - earlier.hits,
          pairs - earlier.pairs,
          cpu_bytes - earlier.cpu_bytes,
          linked_bytes - earlier.linked_bytes,
          streamed_bytes - earlier.streamed_bytes,
          moved_bytes - earlier.moved_bytes,
          nodes - earlier.nodes};
}

TierUse& TierUse::operator+=(const TierUse& other) {
  hits += other.hits;
  pairs += other.pairs;
  cpu_bytes += other.cpu_bytes;
  linked_bytes += other.linked_bytes;
  streamed_bytes += other.streamed_bytes;
  moved_bytes += other.moved_bytes;
  nodes += other.nodes;
  return *this;
}

TierUse TierUse::operator/(double n) const {
  return {hits / n, pairs / n, cpu_bytes / n, linked_bytes / n, streamed_bytes / n, moved_bytes / n, nodes / n};
}

double least_seconds(const TierUse& use, double all_bytes, double dense_bytes, const TierRates& rates) {
  if (!(rates.device > 0 && rates.cpu > 0)) return 0;
  if (!(rates.link > 0) && use.link_bytes() > 0) return 0;
  const double elsewhere = use.cpu_bytes + use.linked_bytes;
  const double n = rates.together ? rates.devices : 1;
  const double own = std::max(all_bytes - dense_bytes - elsewhere, 0.0);
  const double shared = elsewhere / (rates.cpu + n * rates.link);
  const double streamed = use.streamed_bytes > 0 ? use.streamed_bytes / (n * rates.link) : 0;
  return use.nodes * rates.node_seconds / n + dense_bytes / (n * rates.device) +
         std::max({own / (n * rates.device), shared, streamed});
}

double link_busy(const TierUse& use, double seconds, const TierRates& rates) {
  return rates.link > 0 && seconds > 0 ? use.link_bytes() / (rates.devices * rates.link) / seconds : 0;
}

}  // namespace strata::cli
