// What all decoders are written in: unaligned loads, exact scale conversions, and sixteen codes at a time that are
// unpacked as bytes and stored as floats.
//
// The files of this folder are compiled several times: once as the baseline (quant/type.cpp) and once per instruction
// set of kernels/cpu. STRATA_DECODE_NS names the namespace of the including unit, so that the linker cannot merge a
// function of a wider unit into a narrower one; for the same reason they use no inline function from elsewhere.
#pragma once

#include <cstdint>
#include <cstring>

#include <immintrin.h>

#include "quant/codebooks.h"
#include "quant/type.h"

#if !defined(STRATA_DECODE_NS)
#error "STRATA_DECODE_NS must be defined by the including unit"
#endif

namespace STRATA_DECODE_NS {

inline uint16_t u16_at(const uint8_t* p) {
  uint16_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline uint32_t u32_at(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline float float_of_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// binary16 to float32, exact; signalling NaNs become quiet, as the hardware's conversion does it.
inline float f16_value(uint16_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(h);
#else
  // The half's exponent and mantissa read as a float are 2^112 too small, subnormals included.
  const float magnitude = float_of_bits(static_cast<uint32_t>(h & 0x7FFF) << 13) * 0x1p112f;
  uint32_t bits;
  std::memcpy(&bits, &magnitude, sizeof bits);
  const uint32_t special = (h & 0x7C00) == 0x7C00 ? 0x7F800000u : 0u;
  const uint32_t quiet = special != 0 && (h & 0x3FF) != 0 ? 0x00400000u : 0u;
  return float_of_bits(bits | special | quiet | static_cast<uint32_t>(h & 0x8000) << 16);
#endif
}
inline float f16_at(const uint8_t* p) { return f16_value(u16_at(p)); }

// Sixteen bytes: packed fields or, once unpacked, signed codes.
struct Codes {
  __m128i v;
  Codes operator&(Codes o) const { return {_mm_and_si128(v, o.v)}; }
  Codes operator|(Codes o) const { return {_mm_or_si128(v, o.v)}; }
  Codes operator^(Codes o) const { return {_mm_xor_si128(v, o.v)}; }
  Codes operator+(Codes o) const { return {_mm_add_epi8(v, o.v)}; }
  Codes operator-(Codes o) const { return {_mm_sub_epi8(v, o.v)}; }
};

inline Codes splat(int x) { return {_mm_set1_epi8(static_cast<char>(x))}; }
inline Codes load_codes(const void* p) { return {_mm_loadu_si128(static_cast<const __m128i_u*>(p))}; }
// Code j of each word in its byte j.
inline Codes codes_of(uint64_t low, uint64_t high) {
  return {_mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low))};
}
inline Codes codes_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return codes_of(uint64_t{b} << 32 | a, uint64_t{d} << 32 | c);
}

// (x >> shift) & mask of every byte; mask has at most 8 - shift bits.
inline Codes field(Codes x, int shift, int mask) { return Codes{_mm_srli_epi16(x.v, shift)} & splat(mask); }
inline Codes low_nibbles(Codes x) { return x & splat(15); }
inline Codes high_nibbles(Codes x) { return field(x, 4, 15); }
// x << shift of every byte, for values that stay below 256.
inline Codes shifted_left(Codes x, int shift) { return {_mm_slli_epi16(x.v, shift)}; }

// Byte i is -1 where bit i of `bits` is set, else 0.
inline Codes mask_of_bits(uint32_t bits) {
  const __m128i pair = _mm_cvtsi32_si128(static_cast<int>(bits));
#if defined(__SSSE3__)
  const __m128i spread = _mm_shuffle_epi8(pair, _mm_set_epi64x(0x0101010101010101, 0));  // 8 x low, 8 x high byte
#else
  const __m128i doubled = _mm_unpacklo_epi8(pair, pair);
  const __m128i spread = _mm_shuffle_epi32(_mm_shufflelo_epi16(doubled, 0x50), 0x50);
#endif
  const __m128i bit = _mm_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  return {_mm_cmpeq_epi8(_mm_and_si128(spread, bit), bit)};
}

// -x where the mask is -1.
inline Codes negated(Codes x, Codes mask) { return (x ^ mask) - mask; }

// table[index] for indices 0..15.
inline Codes lookup(const int8_t* table, Codes index) {
#if defined(__SSSE3__)
  return {_mm_shuffle_epi8(load_codes(table).v, index.v)};
#else
  uint8_t i[16];
  int8_t value[16];
  std::memcpy(i, &index, sizeof i);
  for (int j = 0; j < 16; j++) value[j] = table[i[j]];
  return load_codes(value);
#endif
}

#if defined(__AVX512F__)
// The zeroing forms with full masks are the plain conversions; GCC 12 warns of its own headers' undefined pass-through
// operand in those.
inline __m512 float_codes(Codes x) {
  return _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_maskz_cvtepi8_epi32(0xFFFF, x.v));
}
#elif !defined(__AVX2__)
// Four codes from position 4 * kPart on, as floats.
template <int kPart>
inline __m128 float_codes(Codes x) {
  const __m128i pairs = kPart < 2 ? _mm_unpacklo_epi8(x.v, x.v) : _mm_unpackhi_epi8(x.v, x.v);
  const __m128i wide = kPart % 2 == 0 ? _mm_unpacklo_epi16(pairs, pairs) : _mm_unpackhi_epi16(pairs, pairs);
  return _mm_cvtepi32_ps(_mm_srai_epi32(wide, 24));
}
#endif

// out[i] = scale * codes[i]
inline void store_scaled(float* out, Codes codes, float scale) {
#if defined(__AVX512F__)
  _mm512_storeu_ps(out, _mm512_mul_ps(float_codes(codes), _mm512_set1_ps(scale)));
#elif defined(__AVX2__)
  const __m256 s = _mm256_set1_ps(scale);
  const __m256i low = _mm256_cvtepi8_epi32(codes.v);
  const __m256i high = _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(codes.v, codes.v));
  _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(low), s));
  _mm256_storeu_ps(out + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(high), s));
#else
  const __m128 s = _mm_set1_ps(scale);
  _mm_storeu_ps(out, _mm_mul_ps(float_codes<0>(codes), s));
  _mm_storeu_ps(out + 4, _mm_mul_ps(float_codes<1>(codes), s));
  _mm_storeu_ps(out + 8, _mm_mul_ps(float_codes<2>(codes), s));
  _mm_storeu_ps(out + 12, _mm_mul_ps(float_codes<3>(codes), s));
#endif
}

// out[i] = scale * codes[i] + offset; the products are exact, so a fused multiply-add rounds alike.
inline void store_scaled(float* out, Codes codes, float scale, float offset) {
#if defined(__AVX512F__)
  _mm512_storeu_ps(out, _mm512_fmadd_ps(float_codes(codes), _mm512_set1_ps(scale), _mm512_set1_ps(offset)));
#elif defined(__AVX2__)
  const __m256 s = _mm256_set1_ps(scale);
  const __m256 o = _mm256_set1_ps(offset);
  const __m256i low = _mm256_cvtepi8_epi32(codes.v);
  const __m256i high = _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(codes.v, codes.v));
  _mm256_storeu_ps(out, _mm256_fmadd_ps(_mm256_cvtepi32_ps(low), s, o));
  _mm256_storeu_ps(out + 8, _mm256_fmadd_ps(_mm256_cvtepi32_ps(high), s, o));
#else
  const __m128 s = _mm_set1_ps(scale);
  const __m128 o = _mm_set1_ps(offset);
  _mm_storeu_ps(out, _mm_add_ps(_mm_mul_ps(float_codes<0>(codes), s), o));
  _mm_storeu_ps(out + 4, _mm_add_ps(_mm_mul_ps(float_codes<1>(codes), s), o));
  _mm_storeu_ps(out + 8, _mm_add_ps(_mm_mul_ps(float_codes<2>(codes), s), o));
  _mm_storeu_ps(out + 12, _mm_add_ps(_mm_mul_ps(float_codes<3>(codes), s), o));
#endif
}

}  // namespace STRATA_DECODE_NS
