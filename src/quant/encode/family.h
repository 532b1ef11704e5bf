// One registration row per type with a quantiser; a file per family of types, as in decode/.
#pragma once

#include <span>

#include "quant/encode.h"

namespace strata::quant {

struct EncoderRow {
  Type type;
  EncodeFn encode;
};

// kBlock reads kElems floats and writes all of kBytes bytes.
template <uint32_t kElems, uint32_t kBytes, void (*kBlock)(const float*, uint8_t*)>
void encode_blocks(const float* values, uint8_t* blocks, size_t n) {
  for (const float* end = values + n / kElems * kElems; values != end; values += kElems, blocks += kBytes) {
    kBlock(values, blocks);
  }
}

std::span<const EncoderRow> plain_encoders();
std::span<const EncoderRow> blocks32_encoders();
std::span<const EncoderRow> bits_encoders();
std::span<const EncoderRow> ternary_encoders();
std::span<const EncoderRow> fp4_encoders();
std::span<const EncoderRow> k_affine_encoders();
std::span<const EncoderRow> k_symmetric_encoders();
std::span<const EncoderRow> iq4_encoders();

}  // namespace strata::quant
