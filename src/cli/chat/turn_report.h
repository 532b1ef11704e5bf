// What is told about an answer after it.
#pragma once

#include <cstdint>
#include <string>

#include "base/stats.h"
#include "engine/request.h"

namespace strata::cli {

// Counters of where expert bytes came from.
struct ExpertReads {
  int64_t arena = 0;   // leases
  int64_t mapped = 0;  // leases
  int64_t file_bytes = 0;

  static ExpertReads of(const Stats& stats);
};

// "prompt 14 tokens (+120 kept) at 50.1/s, answer 30 tokens at 20.5/s; experts: 960 from RAM". The experts are those
// since `before`.
std::string turn_line(const engine::RequestResult& result, const ExpertReads& before, const ExpertReads& after);

// Why an answer is not as long as it would have become, as a sentence without its period; "" for one that ended by
// itself or with a stop string.
std::string cut_reason(const engine::RequestResult& result, int64_t context, int64_t repeat_stop_tokens);

}  // namespace strata::cli
