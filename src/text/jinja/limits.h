// What one template may cost. A template comes with a model file and is as hostile as the rest of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace strata::text::jinja {

struct Limits {
  int64_t steps = 10'000'000;        // evaluated nodes, visited items, and 64 bytes of text looked at
  size_t output_bytes = 16 * kMiB;   // of the rendered text
  size_t memory_bytes = 512 * kMiB;  // all values made while rendering; nothing is given back before the end
  size_t list_items = 1'000'000;     // of one list
  int depth = 1000;                  // nodes evaluated inside one another, macro calls included
};

inline constexpr size_t kMaxSourceBytes = kMiB;
inline constexpr int kMaxNesting = 200;      // of blocks and expressions in the source, and of data
inline constexpr size_t kMaxNameBytes = 64;  // of what messages quote

}  // namespace strata::text::jinja
