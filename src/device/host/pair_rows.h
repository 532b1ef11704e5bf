// The weighted sum of the rows of a token's experts.
#pragma once

#include <algorithm>

#include "base/mutation.h"
#include "device/host/compute.h"
#include "device/ops/op.h"

namespace strata::device::host {

// x[r] += sum over ranks j of weights[r][j] * row_of(r * k + j) for the live rows, in rank order; row_of gives null for
// pairs that add nothing.
template <class RowOf>
void add_pair_rows(Compute& compute, const In<float>& weights, const In<int32_t>& live, const InOut<float>& x,
                   const RowOf& row_of) {
  const int64_t k = weights.cols;
  constexpr int64_t kColumns = 256;  // at a time, whose sums stay in registers or the first-level cache
  compute.pool().for_each(live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin * x.cols; at < end * x.cols;) {
      const int64_t r = at / x.cols, first = at % x.cols;
      const int64_t n = std::min(kColumns, x.cols - first);
      float totals[kColumns] = {};
      for (int64_t j = 0; j < k; j++) {
        const int64_t rank = mutated(Mutation::kSumInArrivalOrder) ? k - 1 - j : j;
        const float* row = row_of(r * k + rank);
        if (row == nullptr) continue;
        const float weight = weights.row(r)[rank];
        for (int64_t i = 0; i < n; i++) totals[i] += weight * row[first + i];
      }
      float* to = x.row(r) + first;
      for (int64_t i = 0; i < n; i++) to[i] += totals[i];
      at += n;
    }
  });
}

}  // namespace strata::device::host
