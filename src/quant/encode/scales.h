// Super-blocks whose groups have a signed scale each: the scales become codes under one f16.
#pragma once

#include "quant/encode/numbers.h"

namespace strata::quant {

// Stores d and writes code[g] in -kRange..kRange-1 so that d * code[g] is near scales[g]; the extreme one has -kRange.
// Returns d as it is read back.
template <int kGroups, int kRange>
float scale_codes(const float* scales, uint8_t* d_at, int* codes) {
  const float d = store_f16(d_at, extreme(scales, kGroups) / -kRange);
  for (int g = 0; g < kGroups; g++) codes[g] = round_even(ratio_or_zero(scales[g], d), -kRange, kRange - 1);
  return d;
}

}  // namespace strata::quant
