#include "experts/link_share.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace strata::experts {

std::vector<int32_t> link_shares(int64_t n_experts, int64_t blob_bytes, const LinkRates& rates,
                                 std::optional<double> fraction) {
  const auto blob = static_cast<double>(blob_bytes);
  std::vector<int32_t> shares{0};
  if (!fraction) {
    ASSERT(rates.link > 0);
    ASSERT(rates.cpu > 0);
  }
  for (int32_t m = 1; m <= n_experts; m++) {
    if (fraction) {
      shares.push_back(static_cast<int32_t>(std::lround(std::clamp(*fraction, 0.0, 1.0) * m)));
      continue;
    }
    // The later end of the two sides falls with the linked ones, then rises.
    const auto end = [&](int32_t linked) {
      const double device_s = linked == 0 ? 0 : linked * blob / rates.link + rates.link_s;
      return std::max(device_s, (m - linked) * blob / rates.cpu);
    };
    int32_t best = shares.back();
    while (best < m && end(best + 1) < end(best)) best++;
    shares.push_back(best);
  }
  return shares;
}

}  // namespace strata::experts
