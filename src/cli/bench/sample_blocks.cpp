#include "cli/bench/sample_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "base/format.h"

namespace strata::cli {
namespace {

// Different blocks; the rest repeats them.
constexpr size_t kDistinctBlocks = 257;
// A random scale fits one time in ten or so, whatever its format.
constexpr int kMaxTries = 100000;
constexpr float kLeastPeak = 1e-3f;
constexpr float kMostPeak = 1e3f;

// The largest magnitude of a block; infinite when it has a value that is not finite.
float peak(const quant::TypeInfo& type, const uint8_t* block, std::vector<float>& values) {
  values.resize(type.block_elems);
  type.decode(block, values.data(), values.size());
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return INFINITY;
    largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

// Random bytes until they are a good block: that needs no knowledge of the format.
bool make_block(const quant::TypeInfo& type, Random& random, uint8_t* block, std::vector<float>& values) {
  for (int i = 0; i < kMaxTries; i++) {
    for (uint32_t b = 0; b < type.block_bytes; b++) block[b] = static_cast<uint8_t>(random.below(256));
    const float largest = peak(type, block, values);
    if (largest >= kLeastPeak && largest <= kMostPeak) return true;
  }
  return false;
}

}  // namespace

Status fill_with_blocks(const quant::TypeInfo& type, Random& random, std::span<std::byte> out) {
  ASSERT(type.decode != nullptr);
  ASSERT(out.size() % type.block_bytes == 0);
  const size_t n_blocks = std::min(out.size() / type.block_bytes, kDistinctBlocks);
  std::vector<uint8_t> blocks(n_blocks * type.block_bytes);
  std::vector<float> values;
  for (size_t i = 0; i < n_blocks; i++) {
    if (make_block(type, random, blocks.data() + i * type.block_bytes, values)) continue;
    return Error{ErrorCode::kInternal, format("no random bytes make a usable block of type {}", type.name)};
  }
  for (size_t at = 0; at < out.size(); at += blocks.size()) {
    std::memcpy(out.data() + at, blocks.data(), std::min(blocks.size(), out.size() - at));
  }
  return {};
}

}  // namespace strata::cli
