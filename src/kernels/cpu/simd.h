// One vector of floats as wide as the instruction set of this translation unit, for code that is written once and
// compiled per ISA. max and min give their argument when either side is NaN: limit.min(x) keeps the NaN of x.
// STRATA_ISA_NS names the unit's namespace, so that no inline function of a wider unit can be merged into a narrower
// one by the linker.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
// GCC 12 writes "undefined" vectors as self-initialised variables and then warns of them where they are inlined
// (GCC bug 105593); the warnings are placed in this header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#if !defined(STRATA_ISA_NS)
#error "STRATA_ISA_NS must be defined by the including unit"
#endif

namespace strata::kernels::STRATA_ISA_NS {

// One float16 in little-endian bytes to float32, exact. The product with 2^112 moves the exponent bias from 15 to 127,
// for subnormals too.
static inline float half_to_float(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof half);
  const uint32_t magnitude = half & 0x7fffu;
  uint32_t bits = magnitude << 13;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  value *= 0x1p112f;
  std::memcpy(&bits, &value, sizeof bits);
  if (magnitude >= 0x7c00u) bits |= 0x7f800000u;
  bits |= (half & 0x8000u) << 16;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

#if defined(__AVX512F__)

struct Vec {
  static constexpr int kLanes = 16;
  __m512 v;
  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec set(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  // this + a * b, rounded once where the ISA has fused multiply-add
  Vec fma(Vec a, Vec b) const { return {_mm512_fmadd_ps(a.v, b.v, v)}; }
  Vec operator+(Vec o) const { return {_mm512_add_ps(v, o.v)}; }
  Vec operator-(Vec o) const { return {_mm512_sub_ps(v, o.v)}; }
  Vec operator*(Vec o) const { return {_mm512_mul_ps(v, o.v)}; }
  Vec operator/(Vec o) const { return {_mm512_div_ps(v, o.v)}; }
  Vec max(Vec o) const { return {_mm512_max_ps(v, o.v)}; }
  Vec min(Vec o) const { return {_mm512_min_ps(v, o.v)}; }
  Vec abs() const { return {_mm512_abs_ps(v)}; }
  // Nearest integer, ties to even; |x| < 2^22
  Vec round() const { return {_mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  // 2^n for integers n in [-126, 127]
  static Vec pow2(Vec n) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23))};
  }
  // a in the lanes where the sign bit of x is set, else b
  static Vec select_negative(Vec x, Vec a, Vec b) {
    return {_mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x.v)), b.v, a.v)};
  }
  // The first n lanes, 0 < n < kLanes; the others load as 0 and are not stored. Nothing past them is touched.
  static Vec load_part(const float* p, int n) { return {_mm512_maskz_loadu_ps(part_mask(n), p)}; }
  void store_part(float* p, int n) const { _mm512_mask_storeu_ps(p, part_mask(n), v); }
  static Vec load_half(const uint8_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }

 private:
  static __mmask16 part_mask(int n) { return static_cast<__mmask16>((1u << n) - 1); }
};

#elif defined(__AVX2__)

struct Vec {
  static constexpr int kLanes = 8;
  __m256 v;
  static Vec zero() { return {_mm256_setzero_ps()}; }
  static Vec set(float x) { return {_mm256_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  Vec fma(Vec a, Vec b) const { return {_mm256_fmadd_ps(a.v, b.v, v)}; }
  Vec operator+(Vec o) const { return {_mm256_add_ps(v, o.v)}; }
  Vec operator-(Vec o) const { return {_mm256_sub_ps(v, o.v)}; }
  Vec operator*(Vec o) const { return {_mm256_mul_ps(v, o.v)}; }
  Vec operator/(Vec o) const { return {_mm256_div_ps(v, o.v)}; }
  Vec max(Vec o) const { return {_mm256_max_ps(v, o.v)}; }
  Vec min(Vec o) const { return {_mm256_min_ps(v, o.v)}; }
  Vec abs() const { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), v)}; }
  Vec round() const { return {_mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static Vec pow2(Vec n) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127)), 23))};
  }
  static Vec select_negative(Vec x, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, x.v)}; }
  static Vec load_part(const float* p, int n) { return {_mm256_maskload_ps(p, part_mask(n))}; }
  void store_part(float* p, int n) const { _mm256_maskstore_ps(p, part_mask(n), v); }
  static Vec load_half(const uint8_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }

 private:
  static __m256i part_mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

#else

// Four lanes in GCC's vector extension: SSE2 on the x86-64 baseline.
struct Vec {
  static constexpr int kLanes = 4;
  typedef float Lanes __attribute__((vector_size(16)));
  typedef int32_t Bits __attribute__((vector_size(16)));
  Lanes v;
  static Vec zero() { return {Lanes{0, 0, 0, 0}}; }
  static Vec set(float x) { return {Lanes{x, x, x, x}}; }
  static Vec load(const float* p) { Vec r; std::memcpy(&r.v, p, sizeof r.v); return r; }
  void store(float* p) const { std::memcpy(p, &v, sizeof v); }
  Vec fma(Vec a, Vec b) const { return {v + a.v * b.v}; }
  Vec operator+(Vec o) const { return {v + o.v}; }
  Vec operator-(Vec o) const { return {v - o.v}; }
  Vec operator*(Vec o) const { return {v * o.v}; }
  Vec operator/(Vec o) const { return {v / o.v}; }
  Vec max(Vec o) const { return {v > o.v ? v : o.v}; }
  Vec min(Vec o) const { return {v < o.v ? v : o.v}; }
  Vec abs() const { return {v < 0 ? -v : v}; }
  // Adding and taking away 1.5 * 2^23 leaves no bits below one.
  Vec round() const { return {(v + 12582912.0f) - 12582912.0f}; }
  static Vec pow2(Vec n) {
    const Bits exponent = (__builtin_convertvector(n.v, Bits) + 127) << 23;
    Vec r;
    std::memcpy(&r.v, &exponent, sizeof r.v);
    return r;
  }
  static Vec select_negative(Vec x, Vec a, Vec b) {
    Bits sign;
    std::memcpy(&sign, &x.v, sizeof sign);
    return {sign < 0 ? a.v : b.v};
  }
  static Vec load_part(const float* p, int n) {
    Vec r = zero();
    for (int i = 0; i < n; i++) r.v[i] = p[i];
    return r;
  }
  void store_part(float* p, int n) const {
    for (int i = 0; i < n; i++) p[i] = v[i];
  }
  static Vec load_half(const uint8_t* p) {
    Vec r;
    for (int i = 0; i < kLanes; i++) r.v[i] = half_to_float(p + 2 * i);
    return r;
  }
};

#endif

// The first n lanes of x, 0 < n; a whole vector when at least that many are left.
inline Vec load_upto(const float* p, int64_t n) {
  return n >= Vec::kLanes ? Vec::load(p) : Vec::load_part(p, static_cast<int>(n));
}
inline void store_upto(Vec x, float* p, int64_t n) {
  if (n >= Vec::kLanes) {
    x.store(p);
  } else {
    x.store_part(p, static_cast<int>(n));
  }
}

// Sum of the lanes, pairwise from the halves down: one fixed order per ISA.
#if defined(__AVX2__)
inline float sum(__m128 x) {
  const __m128 pair = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
inline float sum(__m256 x) { return sum(_mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1))); }
#endif
#if defined(__AVX512F__)
inline float sum(__m512 x) { return sum(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1))); }
#endif
#if defined(__AVX2__)
inline float sum(Vec x) { return sum(x.v); }
#else
inline float sum(Vec x) { return (x.v[0] + x.v[2]) + (x.v[1] + x.v[3]); }
#endif

}  // namespace strata::kernels::STRATA_ISA_NS
