// Ternary super-blocks of 256: TQ1_0 (five base-3 digits per byte) and TQ2_0 (2 bits). (digit - 1) * d
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

// The leading base-3 digit less one of fractions x / 256: (3x >> 8) - 1, which steps at 86 and 171.
inline Codes ternary_digits(Codes x) {
  const __m128i one = _mm_cmpeq_epi8(_mm_max_epu8(x.v, splat(86).v), x.v);  // -1 where x >= 86
  const __m128i two = _mm_cmpeq_epi8(_mm_max_epu8(x.v, splat(171).v), x.v);
  return splat(-1) - Codes{one} - Codes{two};
}

// Four bytes, then 3, 9 and 27 times them.
inline Codes times_powers_of_3(const uint8_t* bytes) {
  uint8_t times[16];
  for (int i = 0; i < 4; i++) {
    const uint32_t x = bytes[i];
    times[i] = static_cast<uint8_t>(x);
    times[4 + i] = static_cast<uint8_t>(x * 3);
    times[8 + i] = static_cast<uint8_t>(x * 9);
    times[12 + i] = static_cast<uint8_t>(x * 27);
  }
  return load_codes(times);
}

// 0: qs[48]; 48: qh[4]; 52: f16 d. Digit n of a byte is the leading digit of byte * 3^n mod 256. Elements 0..159 are
// digits 0..4 of qs[0..31], then 160..239 those of qs[32..47], then 240..255 digits 0..3 of qh.
inline void decode_block_tq1_0(const uint8_t* block, float* out) {
  const float d = f16_at(block + 52);
  Codes a = load_codes(block), b = load_codes(block + 16), c = load_codes(block + 32);
  for (int n = 0; n < 5; n++) {
    store_scaled(out + 32 * n, ternary_digits(a), d);
    store_scaled(out + 32 * n + 16, ternary_digits(b), d);
    store_scaled(out + 160 + 16 * n, ternary_digits(c), d);
    a = a + a + a;
    b = b + b + b;
    c = c + c + c;
  }
  store_scaled(out + 240, ternary_digits(times_powers_of_3(block + 48)), d);
}

// 0: qs[64], in the 2-bit planes of Q2_K; 64: f16 d. Code 3 is legal and means +2d.
inline void decode_block_tq2_0(const uint8_t* block, float* out) {
  const float d = f16_at(block + 64);
  for (int half = 0; half < 2; half++) {
    const Codes low = load_codes(block + 32 * half);
    const Codes high = load_codes(block + 32 * half + 16);
    for (int plane = 0; plane < 4; plane++, out += 32) {
      store_scaled(out, field(low, 2 * plane, 3) - splat(1), d);
      store_scaled(out + 16, field(high, 2 * plane, 3) - splat(1), d);
    }
  }
}

constexpr Format kTernaryFormats[] = {
    block_format<256, 54, decode_block_tq1_0>(quant::Type::TQ1_0, "TQ1_0", true, f16_field(52)),
    block_format<256, 66, decode_block_tq2_0>(quant::Type::TQ2_0, "TQ2_0", true, f16_field(64)),
};

}  // namespace STRATA_DECODE_NS
