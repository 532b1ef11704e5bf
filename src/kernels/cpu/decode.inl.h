// Decoding of weight blocks, compiled for this unit from the decoders of quant/decode.
#pragma once

#include "base/assert.h"
#include "kernels/kernels.h"

#define STRATA_DECODE_NS strata::kernels::STRATA_ISA_NS
#include "quant/decode/all.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

static void decode(quant::Type type, const uint8_t* blocks, float* out, size_t n) {
  const uint32_t id = static_cast<uint32_t>(type);
  ASSERT(id < kIdEnd);
  const quant::DecodeFn decode_row = kFormats.by_id[id].info.decode;
  ASSERT(decode_row != nullptr);
  decode_row(blocks, out, n);
}

}  // namespace strata::kernels::STRATA_ISA_NS
