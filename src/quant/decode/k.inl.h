// Super-blocks of 256 with scales per group of 16 or 32: Q2_K to Q6_K, and the activation format Q8_K.
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

// 0: S[16], scale (low nibble) and min (high nibble) of 16 elements; 16: qs[64]; 80: f16 d; 82: f16 dmin.
// 32 bytes of qs hold 128 elements: elements l, l + 32, l + 64, l + 96 in bits 0-1, 2-3, 4-5, 6-7 of byte l.
// (d * scale) * q - dmin * min
inline void decode_block_q2_k(const uint8_t* block, float* out) {
  const Codes groups = load_codes(block);
  float scale[16], offset[16];
  store_scaled(scale, low_nibbles(groups), f16_at(block + 80));
  store_scaled(offset, high_nibbles(groups), -f16_at(block + 82));
  for (int half = 0; half < 2; half++) {
    const Codes low = load_codes(block + 16 + 32 * half);
    const Codes high = load_codes(block + 32 + 32 * half);
    for (int plane = 0; plane < 4; plane++, out += 32) {
      const int g = 8 * half + 2 * plane;
      store_scaled(out, field(low, 2 * plane, 3), scale[g], offset[g]);
      store_scaled(out + 16, field(high, 2 * plane, 3), scale[g + 1], offset[g + 1]);
    }
  }
}

// The sixteen 6-bit scales of Q3_K, packed in 12 bytes: low nibbles in bytes 0-7, upper two bits in bytes 8-11.
inline Codes q3_k_scales(const uint8_t* s) {
  const uint32_t a0 = u32_at(s), a1 = u32_at(s + 4), a2 = u32_at(s + 8);
  const uint32_t nibble = 0x0F0F0F0F, upper = 0x30303030;
  return codes_of((a0 & nibble) | ((a2 << 4) & upper), (a1 & nibble) | ((a2 << 2) & upper),
                  ((a0 >> 4) & nibble) | (a2 & upper), ((a1 >> 4) & nibble) | ((a2 >> 2) & upper)) -
         splat(32);
}

// 0: hm[32], third bits: bit i / 32 of byte i % 32; 32: qs[64] as in Q2_K; 96: S[12]; 108: f16 d.
// (d * scale) * (q - 4)
inline void decode_block_q3_k(const uint8_t* block, float* out) {
  float scale[16];
  store_scaled(scale, q3_k_scales(block + 96), f16_at(block + 108));
  const Codes third[2] = {load_codes(block), load_codes(block + 16)};
  for (int half = 0; half < 2; half++) {
    const Codes low_bits[2] = {load_codes(block + 32 + 32 * half), load_codes(block + 48 + 32 * half)};
    for (int plane = 0; plane < 4; plane++) {
      for (int u = 0; u < 2; u++, out += 16) {
        const Codes high = shifted_left(field(third[u], 4 * half + plane, 1), 2);
        const Codes q = (field(low_bits[u], 2 * plane, 3) | high) - splat(4);
        store_scaled(out, q, scale[8 * half + 2 * plane + u]);
      }
    }
  }
}

// The 6-bit scales (bytes 0-7) and mins (bytes 8-15) of Q4_K and Q5_K from their 12 bytes.
inline Codes k_scales_and_mins(const uint8_t* s) {
  const uint32_t w0 = u32_at(s), w1 = u32_at(s + 4), w2 = u32_at(s + 8);
  const uint32_t six = 0x3F3F3F3F, nibble = 0x0F0F0F0F, upper = 0x30303030;
  return codes_of(w0 & six, (w2 & nibble) | ((w0 >> 2) & upper), w1 & six,
                  ((w2 >> 4) & nibble) | ((w1 >> 2) & upper));
}

// 0: f16 d; 2: f16 dmin; 4: S[12]; 16: qs[128]. Groups of 32: 32 bytes of qs hold an even group (low nibbles) and the
// next one (high nibbles). (d * scale) * q - dmin * min
inline void decode_block_q4_k(const uint8_t* block, float* out) {
  const Codes groups = k_scales_and_mins(block + 4);
  float scale[16], offset[16];  // scale[0..7] and offset[8..15] count
  store_scaled(scale, groups, f16_at(block));
  store_scaled(offset, groups, -f16_at(block + 2));
  for (int g = 0; g < 8; g += 2, out += 64) {
    const Codes low = load_codes(block + 16 + 16 * g);
    const Codes high = load_codes(block + 32 + 16 * g);
    store_scaled(out, low_nibbles(low), scale[g], offset[8 + g]);
    store_scaled(out + 16, low_nibbles(high), scale[g], offset[8 + g]);
    store_scaled(out + 32, high_nibbles(low), scale[g + 1], offset[9 + g]);
    store_scaled(out + 48, high_nibbles(high), scale[g + 1], offset[9 + g]);
  }
}

// 0: f16 d; 2: f16 dmin; 4: S[12]; 16: qh[32], fifth bits: bit g of byte l; 48: qs[128] as in Q4_K.
inline void decode_block_q5_k(const uint8_t* block, float* out) {
  const Codes groups = k_scales_and_mins(block + 4);
  float scale[16], offset[16];  // scale[0..7] and offset[8..15] count
  store_scaled(scale, groups, f16_at(block));
  store_scaled(offset, groups, -f16_at(block + 2));
  const Codes fifth[2] = {load_codes(block + 16), load_codes(block + 32)};
  for (int g = 0; g < 8; g += 2, out += 64) {
    for (int u = 0; u < 2; u++) {
      const Codes qs = load_codes(block + 48 + 16 * g + 16 * u);
      const Codes even = low_nibbles(qs) | shifted_left(field(fifth[u], g, 1), 4);
      const Codes odd = high_nibbles(qs) | shifted_left(field(fifth[u], g + 1, 1), 4);
      store_scaled(out + 16 * u, even, scale[g], offset[8 + g]);
      store_scaled(out + 32 + 16 * u, odd, scale[g + 1], offset[9 + g]);
    }
  }
}

// 0: ql[128], low nibbles; 128: qh[64], upper two bits in the planes of Q2_K; 192: i8 scales[16]; 208: f16 d.
// 64 bytes of ql serve 128 elements: planes 0, 1 in the low nibbles of its two halves, planes 2, 3 in the high ones.
// (d * scale) * (q - 32)
inline void decode_block_q6_k(const uint8_t* block, float* out) {
  float scale[16];
  store_scaled(scale, load_codes(block + 192), f16_at(block + 208));
  for (int half = 0; half < 2; half++, out += 128) {
    const uint8_t* ql = block + 64 * half;
    const uint8_t* qh = block + 128 + 32 * half;
    const float* s = scale + 8 * half;
    for (int u = 0; u < 2; u++) {
      const Codes a = load_codes(ql + 16 * u), b = load_codes(ql + 32 + 16 * u);
      const Codes upper = load_codes(qh + 16 * u);
      float* to = out + 16 * u;
      store_scaled(to, (low_nibbles(a) | shifted_left(field(upper, 0, 3), 4)) - splat(32), s[u]);
      store_scaled(to + 32, (low_nibbles(b) | shifted_left(field(upper, 2, 3), 4)) - splat(32), s[2 + u]);
      store_scaled(to + 64, (high_nibbles(a) | shifted_left(field(upper, 4, 3), 4)) - splat(32), s[4 + u]);
      store_scaled(to + 96, (high_nibbles(b) | shifted_left(field(upper, 6, 3), 4)) - splat(32), s[6 + u]);
    }
  }
}

// 0: f32 d; 4: i8 qs[256]; 260: i16 sums of 16 codes, for dot products only. d * q, rounded once.
inline void decode_block_q8_k(const uint8_t* block, float* out) {
  const float d = float_of_bits(u32_at(block));
  for (int i = 0; i < 256; i += 16) store_scaled(out + i, load_codes(block + 4 + i), d);
}

constexpr Format kKFormats[] = {
    block_format<256, 84, decode_block_q2_k>(quant::Type::Q2_K, "Q2_K", true, f16_field(80), f16_field(82)),
    block_format<256, 110, decode_block_q3_k>(quant::Type::Q3_K, "Q3_K", true, f16_field(108)),
    block_format<256, 144, decode_block_q4_k>(quant::Type::Q4_K, "Q4_K", true, f16_field(0), f16_field(2)),
    block_format<256, 176, decode_block_q5_k>(quant::Type::Q5_K, "Q5_K", true, f16_field(0), f16_field(2)),
    block_format<256, 210, decode_block_q6_k>(quant::Type::Q6_K, "Q6_K", true, f16_field(208)),
    block_format<256, 292, decode_block_q8_k>(quant::Type::Q8_K, "Q8_K", false, f32_field(0)),
};

}  // namespace STRATA_DECODE_NS
