#include "experts/streamed_ring.h"

#include <algorithm>

#include "base/bytes.h"

namespace strata::experts {
namespace {

constexpr int64_t kBanks = 4;
constexpr int64_t kLeastBanks = 2;
constexpr int64_t kRowsPerExpert = 12;

}  // namespace

RingPlan RingPlan::make(const ExpertLayout& layout, uint64_t budget_bytes) {
  int64_t n_experts = 0;
  for (const LayerLayout& layer : layout.layers()) n_experts = std::max<int64_t>(n_experts, layer.n_experts);
  const uint64_t place = align_up(layout.largest_blob_bytes(), kSlotAlignment);
  if (n_experts == 0 || budget_bytes / place < kLeastBanks) return {};
  const auto room = static_cast<int64_t>(std::min<uint64_t>(budget_bytes / place, INT32_MAX));
  const int64_t quarter = (n_experts + kBanks - 1) / kBanks;
  const auto copied = static_cast<int64_t>(std::min<uint64_t>(kBankBytes / place, INT32_MAX));
  const int64_t wanted = std::clamp<int64_t>(copied, 1, quarter);
  return {.n_banks = std::min(kBanks, room),
          .bank_places = std::clamp<int64_t>(room / kBanks, 1, wanted),
          .place_bytes = place};
}

int64_t auto_stream_rows(int64_t n_experts, int64_t n_used) {
  if (n_used == 0) return INT64_MAX;
  return (kRowsPerExpert * n_experts + n_used - 1) / n_used;
}

}  // namespace strata::experts
