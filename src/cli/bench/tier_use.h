// Where the bytes of experts came from while a test ran on a device with memory of its own, and how fast it could have
// gone at the most.
#pragma once

#include <cstdint>
#include <string>

#include "base/stats.h"

namespace strata::cli {

// Differences of counters, of one repetition or the sum of several.
struct TierUse {
  double hits = 0, pairs = 0;    // (token, expert) pairs whose expert was in the device's cache, and all
  double cpu_bytes = 0;          // of experts that the CPU read
  double linked_bytes = 0;       // of experts that the device read from RAM
  double streamed_bytes = 0;     // of experts that came to the device for prompts
  double moved_bytes = 0;        // of experts that came into the cache, for good or after a loan
  double nodes = 0;              // of graphs, that the device went through

  static TierUse now(const Stats& stats);
  TierUse operator-(const TierUse& earlier) const;
  TierUse& operator+=(const TierUse& other);
  TierUse operator/(double n) const;

  double link_bytes() const { return linked_bytes + streamed_bytes + moved_bytes; }
};

// Bytes a second and seconds; 0 where it is not known.
struct TierRates {
  double device = 0;        // that the device's memory yields
  double cpu = 0;           // that the computing threads read
  double link = 0;          // that come over the link
  double node_seconds = 0;  // that a node of a graph takes which does nothing
  int devices = 1;          // that share the layers; of several, the rates are those of each, in the mean
  bool together = false;    // they work at the same time, else one after the other
};

// Seconds that a repetition takes at least: `dense_bytes` of `all_bytes` are read by the device; then, at the same
// time, it reads its own experts, what streams comes over the link, and the CPU and the link share the others out. Each
// node of a graph takes its time beside that. Devices that work together have as many times the rates. 0 where a rate
// is missing.
double least_seconds(const TierUse& use, double all_bytes, double dense_bytes, const TierRates& rates);

// Of the time, the share in which the link was busy at its rate, in the mean of the devices.
double link_busy(const TierUse& use, double seconds, const TierRates& rates);

}  // namespace strata::cli
