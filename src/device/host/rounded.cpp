#include "device/host/rounded.h"

#include <algorithm>

namespace strata::device::host {

using kernels::ActFormat;
using kernels::Kernels;
using kernels::kFewRows;
using kernels::kQ8ScratchBytes;
using kernels::kTileRows;

bool in_tiles(const Kernels& kernels, int64_t n) { return kernels.has_tiles && n > kFewRows; }

size_t rounded_bytes(ActFormat format, int64_t cols, int64_t n) {
  const size_t as_rows = static_cast<size_t>(n) * kernels::act_row_layout(format, cols).bytes;
  const size_t n_tiles = static_cast<size_t>((n + kTileRows - 1) / kTileRows);
  return std::max(as_rows, n_tiles * kernels::act_tile_layout(format, cols).bytes);
}

int64_t rounding_scratch(ActFormat format, int64_t cols) {
  const size_t rows = kTileRows * kernels::act_row_layout(format, cols).bytes;
  return static_cast<int64_t>(std::max(rows, kQ8ScratchBytes) / sizeof(float));
}

void round_tile(const Kernels& kernels, ActFormat format, const FloatRows& x, int64_t cols, int64_t n, uint8_t* tile,
                float* scratch) {
  const size_t row_bytes = kernels::act_row_layout(format, cols).bytes;
  const uint8_t* rows[kTileRows];
  for (int64_t i = 0; i < n; i++) {
    uint8_t* row = reinterpret_cast<uint8_t*>(scratch) + static_cast<size_t>(i) * row_bytes;
    kernels.quantize_row(format, x.row(i), cols, row);
    rows[i] = row;
  }
  kernels.pack_tile(format, rows, static_cast<int>(n), cols, tile);
}

RoundedRows round_rows(Compute& compute, ActFormat format, const FloatRows& x, int64_t cols, int64_t n, uint8_t* to) {
  const Kernels& kernels = compute.kernels();
  const bool tiles = in_tiles(kernels, n);
  const size_t row_bytes = kernels::act_row_layout(format, cols).bytes;
  const size_t tile_bytes = kernels::act_tile_layout(format, cols).bytes;
  compute.pool().for_each((n + kTileRows - 1) / kTileRows, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t first = begin * kTileRows; first < std::min(n, end * kTileRows); first += kTileRows) {
      const int64_t count = std::min<int64_t>(n - first, kTileRows);
      if (tiles) {
        round_tile(kernels, format, x.from(first), cols, count,
                   to + static_cast<size_t>(first / kTileRows) * tile_bytes,
                   compute.scratch(worker, rounding_scratch(format, cols)));
        continue;
      }
      for (int64_t i = first; i < first + count; i++) {
        kernels.quantize_row(format, x.row(i), cols, to + static_cast<size_t>(i) * row_bytes);
      }
    }
  });
  return {to, n, tiles};
}

}  // namespace strata::device::host
