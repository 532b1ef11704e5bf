// Reading the segments of a step on the device.
#pragma once

#include "kernels/cuda/segments.h"

namespace strata::kernels::cuda {

struct Segment {
  int64_t slot, first, rows;
};
__device__ __forceinline__ Segment segment(const Segments& map, int64_t i) {
  const int32_t* s = map.segments + i * map.stride;
  return {s[0], s[1], s[2]};
}
// The segment that a row is in; of rows in none, rows is 0.
__device__ __forceinline__ Segment segment_of(const Segments& map, int64_t row) {
  for (int64_t i = 0; i < *map.count; i++) {
    const Segment s = segment(map, i);
    if (row >= s.first && row < s.first + s.rows) return s;
  }
  return {0, 0, 0};
}

}  // namespace strata::kernels::cuda
