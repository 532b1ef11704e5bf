// Blocks of 32 with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1. Where codes are nibbles, byte j holds element j
// (low) and element j + 16 (high); bit i of qh is the fifth bit of element i.
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

// 0: f16 d; 2: qs[16]. d * (q - 8)
inline void decode_block_q4_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  const Codes qs = load_codes(block + 2);
  store_scaled(out, low_nibbles(qs) - splat(8), d);
  store_scaled(out + 16, high_nibbles(qs) - splat(8), d);
}

// 0: f16 d; 2: f16 m; 4: qs[16]. d * q + m
inline void decode_block_q4_1(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  const float m = f16_at(block + 2);
  const Codes qs = load_codes(block + 4);
  store_scaled(out, low_nibbles(qs), d, m);
  store_scaled(out + 16, high_nibbles(qs), d, m);
}

// 0: f16 d; 2: u32 qh; 6: qs[16]. d * (q - 16)
inline void decode_block_q5_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  const uint32_t qh = u32_at(block + 2);
  const Codes qs = load_codes(block + 6);
  // A clear fifth bit leaves -16, a set one cancels it.
  store_scaled(out, low_nibbles(qs) - (mask_of_bits(~qh) & splat(16)), d);
  store_scaled(out + 16, high_nibbles(qs) - (mask_of_bits(~qh >> 16) & splat(16)), d);
}

// 0: f16 d; 2: f16 m; 4: u32 qh; 8: qs[16]. d * q + m
inline void decode_block_q5_1(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  const float m = f16_at(block + 2);
  const uint32_t qh = u32_at(block + 4);
  const Codes qs = load_codes(block + 8);
  store_scaled(out, low_nibbles(qs) | (mask_of_bits(qh) & splat(16)), d, m);
  store_scaled(out + 16, high_nibbles(qs) | (mask_of_bits(qh >> 16) & splat(16)), d, m);
}

// 0: f16 d; 2: i8 qs[32]. d * q
inline void decode_block_q8_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  store_scaled(out, load_codes(block + 2), d);
  store_scaled(out + 16, load_codes(block + 18), d);
}

// 0: f16 d; 2: f16 sum of the values, for dot products only; 4: i8 qs[32]. d * q
inline void decode_block_q8_1(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  store_scaled(out, load_codes(block + 4), d);
  store_scaled(out + 16, load_codes(block + 20), d);
}

constexpr Format kBlocks32Formats[] = {
    block_format<32, 18, decode_block_q4_0>(quant::Type::Q4_0, "Q4_0", true, f16_field(0)),
    block_format<32, 20, decode_block_q4_1>(quant::Type::Q4_1, "Q4_1", true, f16_field(0), f16_field(2)),
    block_format<32, 22, decode_block_q5_0>(quant::Type::Q5_0, "Q5_0", true, f16_field(0)),
    block_format<32, 24, decode_block_q5_1>(quant::Type::Q5_1, "Q5_1", true, f16_field(0), f16_field(2)),
    block_format<32, 34, decode_block_q8_0>(quant::Type::Q8_0, "Q8_0", true, f16_field(0)),
    block_format<32, 36, decode_block_q8_1>(quant::Type::Q8_1, "Q8_1", false, f16_field(0)),
};

}  // namespace STRATA_DECODE_NS
