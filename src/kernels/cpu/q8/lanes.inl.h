// Vectors of a 32-bit lane for each of a tile's sixteen activation rows: one register of 512 bits or two of 256.
#pragma once

#include "kernels/cpu/q8/rows.inl.h"

#if defined(__AVX2__)

namespace strata::kernels::STRATA_ISA_NS {

#if defined(__AVX512F__)

// A lane holds an int32, two int16 or four bytes, as the operation says.
struct IntLanes {
  __m512i v;
  static IntLanes zero() { return {_mm512_setzero_si512()}; }
  static IntLanes set(int32_t x) { return {_mm512_set1_epi32(x)}; }
  static IntLanes load(const void* p) { return {load512(p)}; }
  void store(void* p) const { _mm512_storeu_si512(p, v); }
  IntLanes operator+(IntLanes o) const { return {_mm512_add_epi32(v, o.v)}; }
  IntLanes operator-(IntLanes o) const { return {_mm512_sub_epi32(v, o.v)}; }
  IntLanes operator*(IntLanes o) const { return {_mm512_mullo_epi32(v, o.v)}; }
  IntLanes shifted_left(unsigned bits) const { return {_mm512_slli_epi32(v, bits)}; }
  // Each int16 apart.
  IntLanes add_words(IntLanes o) const { return {_mm512_add_epi16(v, o.v)}; }
  // Bytes 0 and 2, and 1 and 3 of each lane as signed int16.
  IntLanes even_bytes() const { return {_mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8)}; }
  IntLanes odd_bytes() const { return {_mm512_srai_epi16(v, 8)}; }
};
// Unsigned bytes times signed ones, two neighbouring products added up in each int16.
inline IntLanes dot_bytes(IntLanes codes, IntLanes a) { return {_mm512_maddubs_epi16(codes.v, a.v)}; }
// Two products of int16 added up in each lane.
inline IntLanes dot_words(IntLanes a, IntLanes b) { return {_mm512_madd_epi16(a.v, b.v)}; }
inline IntLanes add_dot_words(IntLanes acc, IntLanes a, IntLanes b) { return {add_pairs(acc.v, a.v, b.v)}; }

struct FloatLanes {
  __m512 v;
  static FloatLanes set(float x) { return {_mm512_set1_ps(x)}; }
  static FloatLanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static FloatLanes of(IntLanes x) { return {_mm512_maskz_cvtepi32_ps(0xFFFF, x.v)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  FloatLanes operator*(FloatLanes o) const { return {_mm512_mul_ps(v, o.v)}; }
  // this + a * b and this - a * b, rounded once
  FloatLanes fma(FloatLanes a, FloatLanes b) const { return {_mm512_fmadd_ps(a.v, b.v, v)}; }
  FloatLanes fnma(FloatLanes a, FloatLanes b) const { return {_mm512_fnmadd_ps(a.v, b.v, v)}; }
};

#else

struct IntLanes {
  __m256i low, high;
  static IntLanes zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static IntLanes set(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static IntLanes load(const void* p) { return {load256(p), load256(static_cast<const uint8_t*>(p) + 32)}; }
  void store(void* p) const {
    store256(static_cast<uint8_t*>(p), low);
    store256(static_cast<uint8_t*>(p) + 32, high);
  }
  IntLanes operator+(IntLanes o) const { return {_mm256_add_epi32(low, o.low), _mm256_add_epi32(high, o.high)}; }
  IntLanes operator-(IntLanes o) const { return {_mm256_sub_epi32(low, o.low), _mm256_sub_epi32(high, o.high)}; }
  IntLanes operator*(IntLanes o) const { return {_mm256_mullo_epi32(low, o.low), _mm256_mullo_epi32(high, o.high)}; }
  IntLanes add_words(IntLanes o) const { return {_mm256_add_epi16(low, o.low), _mm256_add_epi16(high, o.high)}; }
  IntLanes even_bytes() const {
    return {_mm256_srai_epi16(_mm256_slli_epi16(low, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(high, 8), 8)};
  }
  IntLanes odd_bytes() const { return {_mm256_srai_epi16(low, 8), _mm256_srai_epi16(high, 8)}; }
};
inline IntLanes dot_bytes(IntLanes codes, IntLanes a) {
  return {_mm256_maddubs_epi16(codes.low, a.low), _mm256_maddubs_epi16(codes.high, a.high)};
}
inline IntLanes dot_words(IntLanes a, IntLanes b) {
  return {_mm256_madd_epi16(a.low, b.low), _mm256_madd_epi16(a.high, b.high)};
}
inline IntLanes add_dot_words(IntLanes acc, IntLanes a, IntLanes b) { return acc + dot_words(a, b); }

struct FloatLanes {
  __m256 low, high;
  static FloatLanes set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static FloatLanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static FloatLanes of(IntLanes x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }
  void store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
  FloatLanes operator*(FloatLanes o) const { return {_mm256_mul_ps(low, o.low), _mm256_mul_ps(high, o.high)}; }
  FloatLanes fma(FloatLanes a, FloatLanes b) const {
    return {_mm256_fmadd_ps(a.low, b.low, low), _mm256_fmadd_ps(a.high, b.high, high)};
  }
  FloatLanes fnma(FloatLanes a, FloatLanes b) const {
    return {_mm256_fnmadd_ps(a.low, b.low, low), _mm256_fnmadd_ps(a.high, b.high, high)};
  }
};

#endif

// Four bytes, the same for every row.
inline IntLanes broadcast(const void* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof word);
  return IntLanes::set(word);
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
