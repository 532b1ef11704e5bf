// Quantisers: float32 values to packed blocks, the way back from TypeInfo::decode (docs/FORMATS.md lists sources).
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/type.h"

namespace strata::quant {

// Encodes n values (a multiple of block_elems) into row_bytes(type, n) bytes with any alignment. Blocks are encoded one
// by one, so the bytes depend neither on how a tensor is cut into calls nor on the machine. Any thread.
//
// Finite values give finite scales: one that is too large for its field is clamped, so that what decodes is the nearest
// that the type can say. Of a block with infinite or NaN values only its size is specified; callers look first.
using EncodeFn = void (*)(const float* values, uint8_t* blocks, size_t n);

// null for types without a quantiser: IQ1, IQ2 and IQ3 (a search of codebooks that is of use only with a measured
// importance of every weight), F64 and the integers. The activation formats Q8_1 and Q8_K have one.
EncodeFn find_encoder(Type type);

}  // namespace strata::quant
