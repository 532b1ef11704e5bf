// What the products of strips with tiles start from: unpacked weight rows, and the parts of a tile.
#pragma once

#include "kernels/cpu/q8/lanes.inl.h"

#if defined(__AVX2__)

namespace strata::kernels::STRATA_ISA_NS {

constexpr int kActRows = kTileRows;

// Up to kSuperCols columns of a strip; rows that are not there hold anything.
struct Strip {
  alignas(64) uint8_t codes[kStripRows][kSuperCols];
  alignas(64) int16_t scales[kStripRows][kSuperGroups];
  alignas(64) int16_t mins[kStripRows][kSuperGroups];
  alignas(64) float d[kSuperGroups][kStripRows];  // [group][row]; super-blocks use group 0
  alignas(64) float m[kSuperGroups][kStripRows];
};

struct ActTile {
  const int8_t* codes;
  const float* d;
  const int16_t* pairs16;
  const int16_t* pairs32;
  const int32_t* totals;
  const int32_t* sums16;
  const int32_t* sums32;
};
inline ActTile act_tile(ActFormat format, int64_t cols, const uint8_t* tile) {
  const ActTileLayout at = act_tile_layout(format, cols);
  return {reinterpret_cast<const int8_t*>(tile),
          reinterpret_cast<const float*>(tile + at.d),
          reinterpret_cast<const int16_t*>(tile + at.pairs16),
          reinterpret_cast<const int16_t*>(tile + at.pairs32),
          reinterpret_cast<const int32_t*>(tile + at.totals),
          reinterpret_cast<const int32_t*>(tile + at.sums16),
          reinterpret_cast<const int32_t*>(tile + at.sums32)};
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
