#include "experts/read_ahead.h"

namespace strata::experts {

ReadAhead::ReadAhead(const ExpertLayout& layout)
    : layout_(layout), asked_(std::make_unique<std::atomic<int64_t>[]>(layout.n_experts())) {}

void ReadAhead::note_faults(int64_t faults) {
  if (faults_.exchange(faults, std::memory_order_relaxed) != faults) period_.fetch_add(1, std::memory_order_relaxed);
}

bool ReadAhead::wanted(ExpertKey key) {
  const int64_t period = period_.load(std::memory_order_relaxed);
  return asked_[layout_.index(key)].exchange(period, std::memory_order_relaxed) != period;
}

}  // namespace strata::experts
