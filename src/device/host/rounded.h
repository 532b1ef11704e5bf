// Activations rounded to 8 bits on the pool, as the integer products of kernels/q8.h take them.
#pragma once

#include "device/host/compute.h"

namespace strata::device::host {

// Float rows that are to be rounded: row i is rows(i).
struct FloatRows {
  const float* data;
  int64_t stride;
  const int32_t* order = nullptr;  // row i is row order[i] / per_row of data; null: row i
  int64_t per_row = 1;
  const float* row(int64_t i) const { return data + (order == nullptr ? i : order[i] / per_row) * stride; }
  FloatRows from(int64_t first) const {
    return order == nullptr ? FloatRows{data + first * stride, stride}
                            : FloatRows{data, stride, order + first, per_row};
  }
};

// Rounded rows as matmul_q8 takes them.
struct RoundedRows {
  const uint8_t* data;
  int64_t n;
  bool tiles;
};

// Whether n rows are multiplied as tiles.
bool in_tiles(const kernels::Kernels& kernels, int64_t n);
// Bytes that up to n rounded rows of `cols` elements take at the most, whatever the kernels.
size_t rounded_bytes(kernels::ActFormat format, int64_t cols, int64_t n);
// Scratch per thread, in floats, for rounding and then multiplying rows of `cols` elements.
int64_t rounding_scratch(kernels::ActFormat format, int64_t cols);

// Rounds n <= kTileRows rows, to a tile or side by side. scratch: rounding_scratch().
void round_some(const kernels::Kernels& kernels, kernels::ActFormat format, const FloatRows& x, int64_t cols, int64_t n,
                bool tile, uint8_t* to, float* scratch);
// Bytes from the first of many rounded rows to row `first`, of tiles a multiple of kTileRows.
size_t rounded_offset(kernels::ActFormat format, int64_t cols, bool tiles, int64_t first);
// Rounds all n rows, shared out over the pool.
RoundedRows round_rows(Compute& compute, kernels::ActFormat format, const FloatRows& x, int64_t cols, int64_t n,
                       uint8_t* to);

// Rounds all n rows twice, shared out over the pool: row i becomes the rounded rows 2i and 2i + 1, the second being
// what the first left. The pool's threads use rounding_twice_scratch() of their scratch.
RoundedRows round_rows_twice(Compute& compute, kernels::ActFormat format, const FloatRows& x, int64_t cols, int64_t n,
                             uint8_t* to);
int64_t rounding_twice_scratch(kernels::ActFormat format, int64_t cols);

}  // namespace strata::device::host
