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

void round_some(const Kernels& kernels, ActFormat format, const FloatRows& x, int64_t cols, int64_t n, bool tile,
                uint8_t* to, float* scratch) {
  const size_t row_bytes = kernels::act_row_layout(format, cols).bytes;
  uint8_t* rows = tile ? reinterpret_cast<uint8_t*>(scratch) : to;
  const uint8_t* row[kTileRows];
  for (int64_t i = 0; i < n; i++) {
    uint8_t* at = rows + static_cast<size_t>(i) * row_bytes;
    kernels.quantize_row(format, x.row(i), cols, at);
    row[i] = at;
  }
  if (tile) kernels.pack_tile(format, row, static_cast<int>(n), cols, to);
}

size_t rounded_offset(ActFormat format, int64_t cols, bool tiles, int64_t first) {
  return tiles ? static_cast<size_t>(first / kTileRows) * kernels::act_tile_layout(format, cols).bytes
               : static_cast<size_t>(first) * kernels::act_row_layout(format, cols).bytes;
}

RoundedRows round_rows(Compute& compute, ActFormat format, const FloatRows& x, int64_t cols, int64_t n, uint8_t* to) {
  const bool tiles = in_tiles(compute.kernels(), n);
  compute.pool().for_each((n + kTileRows - 1) / kTileRows, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t first = begin * kTileRows; first < std::min(n, end * kTileRows); first += kTileRows) {
      round_some(compute.kernels(), format, x.from(first), cols, std::min<int64_t>(n - first, kTileRows), tiles,
                 to + rounded_offset(format, cols, tiles, first),
                 compute.scratch(worker, rounding_scratch(format, cols)));
    }
  });
  return {to, n, tiles};
}

namespace {

// left = x - what the rounded row stands for
void subtract_rounded(ActFormat format, const float* x, const uint8_t* row, int64_t cols, float* left) {
  const auto* codes = reinterpret_cast<const int8_t*>(row);
  const auto* d = reinterpret_cast<const float*>(row + kernels::act_row_layout(format, cols).d);
  const int64_t width = kernels::act_scale_cols(format);
  for (int64_t i = 0; i < cols; i += width) {
    for (int64_t j = i; j < i + width; j++) left[j] = x[j] - d[i / width] * static_cast<float>(codes[j]);
  }
}

}  // namespace

int64_t rounding_twice_scratch(ActFormat format, int64_t cols) { return rounding_scratch(format, cols) + cols; }

RoundedRows round_rows_twice(Compute& compute, ActFormat format, const FloatRows& x, int64_t cols, int64_t n,
                             uint8_t* to) {
  const Kernels& kernels = compute.kernels();
  const bool tiles = in_tiles(kernels, 2 * n);
  const size_t row_bytes = kernels::act_row_layout(format, cols).bytes;
  constexpr int64_t kPairs = kTileRows / 2;
  compute.pool().for_each((n + kPairs - 1) / kPairs, 1, [&](int64_t begin, int64_t end, int worker) {
    float* left = compute.scratch(worker, rounding_twice_scratch(format, cols));
    for (int64_t first = begin * kPairs; first < std::min(n, end * kPairs); first += kPairs) {
      const int64_t count = std::min<int64_t>(n - first, kPairs);
      uint8_t* place = to + rounded_offset(format, cols, tiles, 2 * first);
      uint8_t* rows = tiles ? reinterpret_cast<uint8_t*>(left + cols) : place;
      const uint8_t* row[kTileRows];
      for (int64_t i = 0; i < count; i++) {
        uint8_t* at = rows + static_cast<size_t>(2 * i) * row_bytes;
        kernels.quantize_row(format, x.row(first + i), cols, at);
        subtract_rounded(format, x.row(first + i), at, cols, left);
        kernels.quantize_row(format, left, cols, at + row_bytes);
        row[2 * i] = at;
        row[2 * i + 1] = at + row_bytes;
      }
      if (tiles) kernels.pack_tile(format, row, static_cast<int>(2 * count), cols, place);
    }
  });
  return {to, 2 * n, tiles};
}

}  // namespace strata::device::host
