// One vector of floats as wide as the instruction set of this translation unit, for code that is written once and
// compiled per ISA. STRATA_ISA_NS names the unit's namespace, so that no inline function of a wider unit can be merged
// into a narrower one by the linker.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if !defined(STRATA_ISA_NS)
#error "STRATA_ISA_NS must be defined by the including unit"
#endif

namespace strata::kernels::STRATA_ISA_NS {

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
};

#else

// Four lanes in GCC's vector extension: SSE2 on the x86-64 baseline.
struct Vec {
  static constexpr int kLanes = 4;
  typedef float Lanes __attribute__((vector_size(16)));
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
};

#endif

// Sum of the lanes, pairwise from the halves down: one fixed order per ISA.
inline float sum(Vec x) {
  float lane[Vec::kLanes];
  x.store(lane);
  for (int width = Vec::kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; i++) lane[i] += lane[i + width];
  }
  return lane[0];
}

}  // namespace strata::kernels::STRATA_ISA_NS
