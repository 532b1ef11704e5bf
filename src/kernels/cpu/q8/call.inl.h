// What a call of the unit's integer products multiplies, and where sums go.
#pragma once

#include "kernels/cpu/q8/activations.inl.h"
#include "kernels/cpu/q8/formats.inl.h"
#include "kernels/cpu/simd.h"
#include "kernels/kernels.h"

namespace strata::kernels::STRATA_ISA_NS {

// Weight rows whose sums are formed together.
constexpr int kStripRows = 16;
// Columns unpacked at a time, so that all stays in the first-level cache. Multiples of every block.
constexpr int64_t kSuperChunk = 4096;
constexpr int64_t kBlockChunk = 1024;
// Tokens that share the unpacking of a row where they are multiplied one by one.
constexpr int64_t kTokensAtOnce = 64;
constexpr int64_t kMaxGroups = kBlockChunk / 16;

// One row of rounded activations.
struct ActRow {
  const int8_t* codes;
  const float* d;
  const int16_t* sums;
};
inline ActRow act_row(ActFormat format, int64_t cols, const uint8_t* row) {
  const ActRowLayout at = act_row_layout(format, cols);
  return {reinterpret_cast<const int8_t*>(row), reinterpret_cast<const float*>(row + at.d),
          reinterpret_cast<const int16_t*>(row + at.sums)};
}

#if defined(__AVX2__)
// Weight rows whose sums are formed together, a lane for each, for a few activation rows.
constexpr int kRowLanes = Vec::kLanes;
#endif

// What a call multiplies; `row` counts weight rows.
struct Q8Call {
  const Matrix& w;
  const Q8Format& format;
  const uint8_t* x;  // rows or tiles
  Q8Out out;
  const uint8_t* packed(int64_t row, int64_t column) const {
    const quant::TypeInfo& layout = kFormats.by_id[static_cast<uint32_t>(w.type)].info;
    return w.data + static_cast<size_t>(row) * w.row_bytes +
           static_cast<size_t>(column) / layout.block_elems * layout.block_bytes;
  }
  int64_t blocks(int64_t columns) const {
    return columns / kFormats.by_id[static_cast<uint32_t>(w.type)].info.block_elems;
  }
  size_t act_bytes() const { return act_row_layout(format.kind, w.cols).bytes; }
  // Row `token` of x from `column` on.
  ActRow act(int64_t token, int64_t column) const {
    const ActRow a = act_row(format.kind, w.cols, x + static_cast<size_t>(token) * act_bytes());
    return {a.codes + column, a.d + column / act_scale_cols(format.kind), a.sums + column / 16};
  }
  // The rows of x from `token` on.
  Q8Call from(int64_t token) const {
    Q8Call rest = *this;
    rest.x += static_cast<size_t>(token) * act_bytes();
    rest.out.y += token * out.y_stride;
    return rest;
  }
  // Columns that are unpacked at a time.
  int64_t chunk() const { return format.kind == ActFormat::kSuper ? kSuperChunk : kBlockChunk; }
};

#if defined(__AVX2__)
// The sums of a token with n weight rows from `row` on, or as many as a vector has, go where the call wants them.
inline void store_sums(const Q8Out& out, Vec sums, int64_t token, int64_t row, int n) {
  float* y = out.y + token * out.y_stride + row;
  if (n >= Vec::kLanes) {
    if (out.bias != nullptr) sums = sums + Vec::load(out.bias + row);
    if (out.accumulate) sums = Vec::load(y) + sums;
    return sums.store(y);
  }
  if (out.bias != nullptr) sums = sums + Vec::load_part(out.bias + row, n);
  if (out.accumulate) sums = Vec::load_part(y, n) + sums;
  sums.store_part(y, n);
}
#endif

}  // namespace strata::kernels::STRATA_ISA_NS
