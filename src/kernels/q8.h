// Activations rounded to 8 bits, for integer products with packed weights (the fast path).
//
// Two formats, as the weights want them. kSuper: codes of 256 elements share a scale d = x_max / -127, x_max being the
// element of largest magnitude (Q8_K of GGML). kBlock: codes of 32 elements share d = max|x| / 127 rounded to float16
// (Q8_0). Codes are round-half-even(x / d with the unrounded d), in [-127, 127]; both keep the sums of 16 codes. An
// element that is not finite makes its d NaN or infinite, so that it shows in every product.
//
// A row lies in memory as
//   int8  codes [cols rounded up to 64, zeros behind]
//   float d     [one per 256 or 32]
//   int16 sums  [one per 16 codes]
// and sixteen rows that a prompt's products take together as a tile:
//   int8  codes [cols' / 4][16 rows][4]
//   float d     [one per 256 or 32][16]
//   kSuper: int16 pairs16 [cols / 32][16][2], sums of two neighbouring 16s; int16 pairs32 [cols / 64][16][2], of two
//           neighbouring 32s; int32 totals [cols / 256][16]
//   kBlock: int32 sums16 [cols' / 16][16]; int32 sums32 [cols' / 32][16]
// where cols' is cols rounded up to 64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/type.h"

namespace strata::kernels {

enum class ActFormat : uint8_t { kNone, kSuper, kBlock };

// What a weight type's integer products want; kNone for types that have none (F32, F16, BF16).
ActFormat act_format(quant::Type weight);

// Rows of a tile.
inline constexpr int kTileRows = 16;
// Up to this many rows are multiplied one by one, more of them as tiles.
inline constexpr int kFewRows = 4;

// Scratch of a product, for each thread.
inline constexpr size_t kQ8ScratchBytes = 128 * 1024;

inline int64_t act_cols(int64_t cols) { return (cols + 63) / 64 * 64; }
inline int64_t act_scale_cols(ActFormat format) { return format == ActFormat::kSuper ? 256 : 32; }
inline int64_t act_scales(ActFormat format, int64_t cols) {
  return (cols + act_scale_cols(format) - 1) / act_scale_cols(format);
}

// Where a product goes: y[token * y_stride + weight row], with `accumulate` added to what is there.
struct Q8Out {
  float* y;
  int64_t y_stride;
  const float* bias = nullptr;  // [weight rows], added to the sums, or null
  bool accumulate = false;
};

// Offsets of a row's parts in bytes; `bytes` is the distance from row to row.
struct ActRowLayout {
  size_t d, sums, bytes;
};
inline ActRowLayout act_row_layout(ActFormat format, int64_t cols) {
  const size_t d = static_cast<size_t>(act_cols(cols));
  const size_t sums = d + static_cast<size_t>(act_scales(format, cols)) * sizeof(float);
  const size_t end = sums + static_cast<size_t>(act_cols(cols)) / 16 * sizeof(int16_t);
  return {d, sums, (end + 63) / 64 * 64};
}

// Offsets of a tile's parts in bytes.
struct ActTileLayout {
  size_t d, pairs16, pairs32, totals, sums16, sums32, bytes;
};
inline ActTileLayout act_tile_layout(ActFormat format, int64_t cols) {
  constexpr size_t kRow = kTileRows * sizeof(int32_t);  // a number of 4 bytes for each row
  const size_t n = static_cast<size_t>(act_cols(cols));
  ActTileLayout at{};
  at.d = n * kTileRows;
  size_t end = at.d + static_cast<size_t>(act_scales(format, cols)) * kRow;
  const auto take = [&end](size_t count) {
    const size_t begin = end;
    end += count * kRow;
    return begin;
  };
  if (format == ActFormat::kSuper) {
    at.pairs16 = take(n / 32);
    at.pairs32 = take(n / 64);
    at.totals = take(n / 256);
  } else {
    at.sums16 = take(n / 16);
    at.sums32 = take(n / 32);
  }
  at.bytes = end;
  return at;
}

}  // namespace strata::kernels
