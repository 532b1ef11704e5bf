// Four-bit codes into a table of 16 unevenly spaced values: IQ4_NL (blocks of 32) and IQ4_XS (256).
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

// 0: f16 d; 2: qs[16], element j in the low nibble of byte j, j + 16 in the high one. d * value
inline void decode_block_iq4_nl(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  const Codes qs = load_codes(block + 2);
  store_scaled(out, lookup(quant::kIq4nl, low_nibbles(qs)), d);
  store_scaled(out + 16, lookup(quant::kIq4nl, high_nibbles(qs)), d);
}

// 0: f16 d; 2: u16, upper two scale bits per group of 32; 4: sl[4], lower four; 8: qs[128], 16 bytes per group as in
// IQ4_NL. (d * (scale - 32)) * value
inline void decode_block_iq4_xs(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  const int upper = u16_at(block + 2);
  for (int g = 0; g < 8; g++, out += 32) {
    const int bits = (block[4 + g / 2] >> (g % 2 * 4) & 15) | (upper >> (2 * g) & 3) << 4;
    const float scale = d * static_cast<float>(bits - 32);
    const Codes qs = load_codes(block + 8 + 16 * g);
    store_scaled(out, lookup(quant::kIq4nl, low_nibbles(qs)), scale);
    store_scaled(out + 16, lookup(quant::kIq4nl, high_nibbles(qs)), scale);
  }
}

constexpr Format kIq4Formats[] = {
    block_format<32, 18, decode_block_iq4_nl>(quant::Type::IQ4_NL, "IQ4_NL", true, f16_field(0)),
    block_format<256, 136, decode_block_iq4_xs>(quant::Type::IQ4_XS, "IQ4_XS", true, f16_field(0)),
};

}  // namespace STRATA_DECODE_NS
