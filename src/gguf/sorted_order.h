// Sorting by index, for finding equal and neighbouring items. Sorting rather than hashing, so that no choice of names
// in a file makes it slow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace strata::gguf {

// The indices 0..n-1 in the order of key(i); equal keys keep their order.
template <class Key>
std::vector<uint32_t> sorted_order(size_t n, const Key& key) {
  std::vector<uint32_t> order(n);
  for (uint32_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto& key_a = key(a);
    const auto& key_b = key(b);
    return key_a < key_b || (!(key_b < key_a) && a < b);
  });
  return order;
}

}  // namespace strata::gguf
