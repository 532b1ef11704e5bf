// Q2_K to Q6_K unpacked; the layouts are described beside their decoders in quant/decode/k.inl.h.
#pragma once

#include "kernels/cpu/q8/format.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

inline void unpack_q2_k(const uint8_t* block, const SuperPanel& out) {
  const Codes groups = load_codes(block);
  store_scales(out.scales, low_nibbles(groups));
  store_scales(out.mins, high_nibbles(groups));
  *out.d = f16_at(block + 80);
  *out.dmin = f16_at(block + 82);
  uint8_t* codes = out.codes;
  for (int half = 0; half < 2; half++) {
    const Codes low = load_codes(block + 16 + 32 * half);
    const Codes high = load_codes(block + 32 + 32 * half);
    for (int plane = 0; plane < 4; plane++, codes += 32) {
      store_codes(codes, field(low, 2 * plane, 3));
      store_codes(codes + 16, field(high, 2 * plane, 3));
    }
  }
}

inline void unpack_q3_k(const uint8_t* block, const SuperPanel& out) {
  store_scales<true>(out.scales, q3_k_scales(block + 96));
  *out.d = f16_at(block + 108);
  const Codes third[2] = {load_codes(block), load_codes(block + 16)};
  uint8_t* codes = out.codes;
  for (int half = 0; half < 2; half++) {
    const Codes low_bits[2] = {load_codes(block + 32 + 32 * half), load_codes(block + 48 + 32 * half)};
    for (int plane = 0; plane < 4; plane++) {
      for (int u = 0; u < 2; u++, codes += 16) {
        const Codes high = shifted_left(field(third[u], 4 * half + plane, 1), 2);
        store_codes(codes, field(low_bits[u], 2 * plane, 3) | high);
      }
    }
  }
}

inline void unpack_q4_k(const uint8_t* block, const SuperPanel& out) {
  const Codes groups = k_scales_and_mins(block + 4);
  store_scales(out.scales, doubled(low_word(groups)));
  store_scales(out.mins, doubled(high_word(groups)));
  *out.d = f16_at(block);
  *out.dmin = f16_at(block + 2);
  const uint8_t* qs = block + 16;
#if defined(__AVX2__)
  for (uint8_t* codes = out.codes; codes < out.codes + kSuperCols; codes += 64, qs += 32) {
    const __m256i both = load256(qs), nibble = _mm256_set1_epi8(15);
    store256(codes, _mm256_and_si256(both, nibble));
    store256(codes + 32, _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble));
  }
#else
  for (uint8_t* codes = out.codes; codes < out.codes + kSuperCols; codes += 64, qs += 32) {
    const Codes low = load_codes(qs), high = load_codes(qs + 16);
    store_codes(codes, low_nibbles(low));
    store_codes(codes + 16, low_nibbles(high));
    store_codes(codes + 32, high_nibbles(low));
    store_codes(codes + 48, high_nibbles(high));
  }
#endif
}

inline void unpack_q5_k(const uint8_t* block, const SuperPanel& out) {
  const Codes groups = k_scales_and_mins(block + 4);
  store_scales(out.scales, doubled(low_word(groups)));
  store_scales(out.mins, doubled(high_word(groups)));
  *out.d = f16_at(block);
  *out.dmin = f16_at(block + 2);
  const Codes fifth[2] = {load_codes(block + 16), load_codes(block + 32)};
  uint8_t* codes = out.codes;
  for (int g = 0; g < 8; g += 2, codes += 64) {
    for (int u = 0; u < 2; u++) {
      const Codes qs = load_codes(block + 48 + 16 * g + 16 * u);
      store_codes(codes + 16 * u, low_nibbles(qs) | shifted_left(field(fifth[u], g, 1), 4));
      store_codes(codes + 32 + 16 * u, high_nibbles(qs) | shifted_left(field(fifth[u], g + 1, 1), 4));
    }
  }
}

inline void unpack_q6_k(const uint8_t* block, const SuperPanel& out) {
  store_scales<true>(out.scales, load_codes(block + 192));
  *out.d = f16_at(block + 208);
  uint8_t* codes = out.codes;
  for (int half = 0; half < 2; half++, codes += 128) {
    const uint8_t* ql = block + 64 * half;
    const uint8_t* qh = block + 128 + 32 * half;
#if defined(__AVX2__)
    const __m256i nibble = _mm256_set1_epi8(15), bits = _mm256_set1_epi8(0x30);
    const __m256i a = load256(ql), b = load256(ql + 32), upper = load256(qh);
    const auto join = [&](__m256i four, __m256i two) {
      return _mm256_or_si256(_mm256_and_si256(four, nibble), _mm256_and_si256(two, bits));
    };
    store256(codes, join(a, _mm256_slli_epi16(upper, 4)));
    store256(codes + 32, join(b, _mm256_slli_epi16(upper, 2)));
    store256(codes + 64, join(_mm256_srli_epi16(a, 4), upper));
    store256(codes + 96, join(_mm256_srli_epi16(b, 4), _mm256_srli_epi16(upper, 2)));
#else
    for (int u = 0; u < 2; u++) {
      const Codes a = load_codes(ql + 16 * u), b = load_codes(ql + 32 + 16 * u);
      const Codes upper = load_codes(qh + 16 * u);
      uint8_t* to = codes + 16 * u;
      store_codes(to, low_nibbles(a) | (shifted_left(upper, 4) & splat(0x30)));
      store_codes(to + 32, low_nibbles(b) | (shifted_left(upper, 2) & splat(0x30)));
      store_codes(to + 64, high_nibbles(a) | (upper & splat(0x30)));
      store_codes(to + 96, high_nibbles(b) | field(upper, 2, 0x30));
    }
#endif
  }
}

constexpr Q8Format kQ8KFormats[] = {
    super_format<84, unpack_q2_k>(quant::Type::Q2_K, 0, 3, 16),
    super_format<110, unpack_q3_k>(quant::Type::Q3_K, 4, 7),
    super_format<144, unpack_q4_k>(quant::Type::Q4_K, 0, 15, 32),
    super_format<176, unpack_q5_k>(quant::Type::Q5_K, 0, 31, 32),
    super_format<210, unpack_q6_k>(quant::Type::Q6_K, 32, 63),
};

}  // namespace strata::kernels::STRATA_ISA_NS
