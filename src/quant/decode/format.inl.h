// One registration row per type, and how a row of blocks is decoded with the function of one block.
#pragma once

#include "quant/decode/codes.inl.h"

namespace STRATA_DECODE_NS {

// A number of the block that has to be finite: it is not while all `exponent` bits of its little-endian word are set.
struct ScaleField {
  uint32_t offset;    // bytes from the start of the block
  uint32_t bytes;     // 1, 2, 4 or 8; 0: no such field
  uint64_t exponent;  // mask
};
constexpr ScaleField f16_field(uint32_t offset) { return {offset, 2, 0x7C00}; }
constexpr ScaleField f32_field(uint32_t offset) { return {offset, 4, 0x7F800000}; }

struct Format {
  quant::TypeInfo info;
  ScaleField scales[2];
};

// kBlock reads exactly kBytes bytes and writes kElems floats; neither pointer needs alignment.
template <uint32_t kElems, uint32_t kBytes, void (*kBlock)(const uint8_t*, float*)>
inline void decode_blocks(const uint8_t* blocks, float* out, size_t n) {
  for (const uint8_t* end = blocks + n / kElems * kBytes; blocks != end; blocks += kBytes, out += kElems) {
    kBlock(blocks, out);
  }
}

template <uint32_t kElems, uint32_t kBytes, void (*kBlock)(const uint8_t*, float*)>
constexpr Format block_format(quant::Type type, const char* name, bool in_files, ScaleField a = {}, ScaleField b = {}) {
  return {{type, name, kElems, kBytes, in_files, decode_blocks<kElems, kBytes, kBlock>}, {a, b}};
}

}  // namespace STRATA_DECODE_NS
