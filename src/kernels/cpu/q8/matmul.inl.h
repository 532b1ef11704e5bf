// The entry of the unit's integer products: a few rows one by one, more of them as tiles where the unit has those.
#pragma once

#include "kernels/cpu/q8/fused/product.inl.h"
#include "kernels/cpu/q8/rows.inl.h"
#include "kernels/cpu/q8/tiles.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

#if defined(__AVX2__)
constexpr bool kHasTiles = true;
constexpr size_t kQ8ScratchNeeded = sizeof(TilesScratch) > sizeof(RowsScratch) ? sizeof(TilesScratch)
                                                                               : sizeof(RowsScratch);
#else
constexpr bool kHasTiles = false;
constexpr size_t kQ8ScratchNeeded = sizeof(RowsScratch);
#endif
static_assert(kQ8ScratchNeeded + 64 <= kQ8ScratchBytes);

static void matmul_q8(const Matrix& w, int64_t row_begin, int64_t row_end, const uint8_t* x, int64_t n_tokens,
                      bool tiles, const Q8Out& out, void* scratch) {
  const uintptr_t address = (reinterpret_cast<uintptr_t>(scratch) + 63) / 64 * 64;
  const Q8Call call{w, q8_format(w.type), x, out};
  ASSERT(call.format.kind != ActFormat::kNone);
#if defined(__AVX2__)
  if (tiles) return tiles_product(call, row_begin, row_end, n_tokens, reinterpret_cast<void*>(address));
#endif
  ASSERT(!tiles);
#if defined(__AVX2__)
  if (fused_rows(call, row_begin, row_end, n_tokens, reinterpret_cast<uint8_t*>(address))) return;
#endif
  rows_product(call, row_begin, row_end, n_tokens, reinterpret_cast<void*>(address));
}

}  // namespace strata::kernels::STRATA_ISA_NS
