// Runs of consecutive rows of one sequence, which recurrent operations go through in order.
#pragma once

#include <cstdint>

namespace strata::kernels::cuda {

// [max_segments][3] = slot, first row, rows; count[0] are in use. Device pointers, the stride counts elements.
struct Segments {
  const int32_t* count;
  const int32_t* segments;
  int64_t stride;
  int64_t max_segments;
};

}  // namespace strata::kernels::cuda
