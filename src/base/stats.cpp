#include "base/stats.h"

#include "base/assert.h"

namespace strata {
namespace {

constexpr size_t kCounters = static_cast<size_t>(Counter::kCount);

constexpr std::array<const char*, kCounters> kNames = {
#define X(id, name, help) name,
    STRATA_COUNTERS(X)
#undef X
};

}  // namespace

const char* counter_name(Counter counter) {
  ASSERT(static_cast<size_t>(counter) < kCounters);
  return kNames[static_cast<size_t>(counter)];
}

void Stats::reset() {
  for (std::atomic<int64_t>& value : values_) value.store(0, std::memory_order_relaxed);
}

std::string Stats::to_text() const {
  std::string text;
  for (size_t i = 0; i < kCounters; ++i) {
    const int64_t value = get(static_cast<Counter>(i));
    if (value == 0) continue;
    text += kNames[i];
    text += ' ';
    text += std::to_string(value);
    text += '\n';
  }
  return text;
}

}  // namespace strata
