// Whether the sum over experts is formed in rank order, told by its bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "device/support.h"

namespace strata::test {

inline constexpr int kCombineRanks = 4;
inline constexpr int64_t kCombineRows = 3;

// One column for each way to place 1e8, 1, -1e8 and 3 among the ranks: 1 and 3 get lost beside 1e8, or they don't.
inline std::vector<std::array<float, kCombineRanks>> combine_columns() {
  std::array<float, kCombineRanks> column = {-1e8f, 1, 3, 1e8f};
  std::vector<std::array<float, kCombineRanks>> columns;
  do columns.push_back(column);
  while (std::next_permutation(column.begin(), column.end()));
  return columns;
}

// The weighted sums of all columns, the ranks taken in this order. The weights are powers of two, so only the order of
// the sums rounds.
inline std::vector<float> combine_reference(const std::array<int, kCombineRanks>& order) {
  std::vector<float> sums;
  for (const auto& column : combine_columns()) {
    float total = 0;
    for (const int rank : order) total += 0.5f * column[static_cast<size_t>(rank)];
    sums.push_back(total);
  }
  return sums;
}

// Runs Combine through a stream of the host device and compares the bits with the sum in the order 0, 1, 2, 3.
inline bool combine_sums_in_rank_order() {
  const auto columns = combine_columns();
  const auto n = static_cast<int64_t>(columns.size());
  device::host::HostDevice device(host_options());
  const Grid<float> rows(device, kCombineRows * kCombineRanks, n, 0, 0);
  const Grid<float> weights(device, kCombineRows, kCombineRanks, 0, 0);
  const Grid<int32_t> ids(device, kCombineRows, kCombineRanks, 0, 0);
  const Grid<int32_t> live(device, 1, 1, 0, 0);
  const Grid<float> x(device, kCombineRows, n, 0, 0);
  live.at(0, 0) = kCombineRows;
  for (int64_t r = 0; r < kCombineRows; r++) {
    x.set_row(r, std::vector<float>(static_cast<size_t>(n), 0.0f));
    weights.set_row(r, std::vector<float>(kCombineRanks, 0.5f));
    ids.set_row(r, {3, 0, 2, 1});  // of the experts; the rank alone decides
    for (int64_t j = 0; j < kCombineRanks; j++) {
      for (int64_t c = 0; c < n; c++)
        rows.at(r * kCombineRanks + j, c) = columns[static_cast<size_t>(c)][static_cast<size_t>(j)];
    }
  }
  const auto stream = device.make_stream("combine");
  stream->enqueue(device::Combine{.rows = rows, .weights = weights, .ids = ids, .live = live, .x = x});
  if (!stream->synchronize().ok()) return false;
  std::array<int, kCombineRanks> order;
  std::iota(order.begin(), order.end(), 0);
  const std::vector<float> expected = combine_reference(order);
  for (int64_t r = 0; r < kCombineRows; r++) {
    if (std::memcmp(x.row(r), expected.data(), expected.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace strata::test
