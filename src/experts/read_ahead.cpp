#include "experts/read_ahead.h"

#include "base/assert.h"

namespace strata::experts {

ReadAhead::ReadAhead(const ExpertLayout& layout) {
  size_t n = 0;
  for (const LayerLayout& layer : layout.layers()) {
    first_.push_back(n);
    n += static_cast<size_t>(layer.n_experts);
  }
  asked_ = std::make_unique<std::atomic<int64_t>[]>(n);
}

void ReadAhead::note_faults(int64_t faults) {
  if (faults_.exchange(faults, std::memory_order_relaxed) != faults) period_.fetch_add(1, std::memory_order_relaxed);
}

bool ReadAhead::wanted(ExpertKey key) {
  const int64_t period = period_.load(std::memory_order_relaxed);
  std::atomic<int64_t>& asked = asked_[first_[static_cast<size_t>(key.layer)] + static_cast<size_t>(key.expert)];
  return asked.exchange(period, std::memory_order_relaxed) != period;
}

}  // namespace strata::experts
