// One and two bits with one scale, neighbouring elements in one byte: Q1_0 (blocks of 128) and Q2_0 (64).
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

// 0: f16 d; 2: qs[16]. Bit i set: +d, clear: -d.
inline void decode_block_q1_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int i = 0; i < 128; i += 16) {
    const Codes set = mask_of_bits(u16_at(block + 2 + i / 8));
    store_scaled(out + i, (set & splat(2)) - splat(1), d);
  }
}

// Four neighbouring 2-bit codes of a byte, one per byte of the word.
inline uint32_t spread_pairs(uint32_t byte) {
  return (byte | byte << 6 | byte << 12 | byte << 18) & 0x03030303u;
}

// 0: f16 d; 2: qs[16]. d * (q - 1)
inline void decode_block_q2_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int i = 0; i < 64; i += 16) {
    const uint8_t* qs = block + 2 + i / 4;
    const Codes q = codes_of(spread_pairs(qs[0]), spread_pairs(qs[1]), spread_pairs(qs[2]), spread_pairs(qs[3]));
    store_scaled(out + i, q - splat(1), d);
  }
}

constexpr Format kBitsFormats[] = {
    block_format<128, 18, decode_block_q1_0>(quant::Type::Q1_0, "Q1_0", true, f16_field(0)),
    block_format<64, 18, decode_block_q2_0>(quant::Type::Q2_0, "Q2_0", true, f16_field(0)),
};

}  // namespace STRATA_DECODE_NS
