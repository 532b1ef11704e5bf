// The elements of the KV cache: float32 values become elements, and rows of elements become float32 again.
#pragma once

#include "kernels/cpu/decode.inl.h"
#include "kernels/cpu/simd.h"
#include "quant/type.h"

namespace strata::kernels::STRATA_ISA_NS {

// Round to nearest even, cut at the largest finite half.
static void store_halves(const float* x, uint8_t* dst, int64_t n) {
  int64_t i = 0;
#if defined(__AVX2__)
  const __m256 top = _mm256_set1_ps(65504.0f);
  const __m256 bottom = _mm256_set1_ps(-65504.0f);
  for (; i + 8 <= n; i += 8) {
    const __m256 value = _mm256_max_ps(bottom, _mm256_min_ps(top, _mm256_loadu_ps(x + i)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + 2 * i), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; i++) {
    const uint16_t half = quant::f32_to_f16(x[i]);
    std::memcpy(dst + 2 * i, &half, sizeof half);
  }
}

// Round to nearest even on the bits; NaN stays one.
static void store_bfloats(const float* x, uint8_t* dst, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const uint32_t nan = bits >> 16 | 0x40;
    const auto value = static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? nan : rounded);
    std::memcpy(dst + 2 * i, &value, sizeof value);
  }
}

// The largest magnitude of 32 values; NaN when one of them is not finite.
static inline float magnitude_of_32(const float* x) {
  Vec largest = Vec::zero();
  Vec poison = Vec::zero();  // 0 * x: NaN for what is not finite
  for (int i = 0; i < 32; i += Vec::kLanes) {
    const Vec value = Vec::load(x + i);
    largest = largest.max(value.abs());
    poison = poison.fma(value, Vec::zero());
  }
  float lane[Vec::kLanes];
  largest.store(lane);
  float magnitude = 0;
  for (const float l : lane) magnitude = l > magnitude ? l : magnitude;
  return magnitude + sum(poison);
}

// Scale and codes as quant's encoder of Q8_0 makes them, which rounds halves away from zero with the scale as it was
// before it became a float16. An element that is not finite makes the scale NaN, so that it shows.
static void store_q8_block(const float* x, uint8_t* block) {
  const float d = magnitude_of_32(x) / 127.0f;
  const float inverse = d != 0 ? 1 / d : 0;
  const uint16_t scale = quant::f32_to_f16(d);
  std::memcpy(block, &scale, sizeof scale);
  for (int i = 0; i < 32; i++) {
    const float value = x[i] * inverse;
    const float raised = value > -127.0f ? value : -127.0f;
    const float in_range = raised < 127.0f ? raised : 127.0f;
    const auto whole = static_cast<int32_t>(in_range);
    const float rest = in_range - static_cast<float>(whole);
    block[2 + i] = static_cast<uint8_t>(whole + (rest >= 0.5f) - (rest <= -0.5f));
  }
}

static void kv_store(KvType type, const float* x, uint8_t* dst, int64_t n) {
  switch (type) {
    case KvType::kF32: std::memcpy(dst, x, kv_bytes(type, n)); return;
    case KvType::kF16: store_halves(x, dst, n); return;
    case KvType::kBf16: store_bfloats(x, dst, n); return;
    case KvType::kQ8_0:
      for (int64_t i = 0; i < n; i += kv_block(type)) store_q8_block(x + i, dst + kv_bytes(type, i));
      return;
  }
}

// A vector of elements of two bytes as float32.
struct HalfElements {
  static Vec load(const uint8_t* p) { return Vec::load_half(p); }
};
struct BfloatElements {
  static Vec load(const uint8_t* p) {
#if defined(__AVX512F__)
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, bits), 16))};
#elif defined(__AVX2__)
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
#else
    uint16_t half[Vec::kLanes];
    std::memcpy(half, p, sizeof half);
    uint32_t bits[Vec::kLanes];
    for (int i = 0; i < Vec::kLanes; i++) bits[i] = uint32_t{half[i]} << 16;
    Vec x;
    std::memcpy(&x.v, bits, sizeof bits);
    return x;
#endif
  }
};

template <class Elements>
static inline void two_byte_row(const uint8_t* from, int n, float* to) {
  int i = 0;
  for (; i + Vec::kLanes <= n; i += Vec::kLanes) Elements::load(from + 2 * i).store(to + i);
  if (i == n) return;
  uint8_t rest[2 * Vec::kLanes] = {};
  std::memcpy(rest, from + 2 * i, static_cast<size_t>(n - i) * 2);
  Elements::load(rest).store_part(to + i, n - i);
}

// n elements of one row of the cache as float32, exactly.
static inline void kv_load(KvType type, const uint8_t* from, int n, float* to) {
  switch (type) {
    case KvType::kF32: std::memcpy(to, from, kv_bytes(type, n)); return;
    case KvType::kF16: two_byte_row<HalfElements>(from, n, to); return;
    case KvType::kBf16: two_byte_row<BfloatElements>(from, n, to); return;
    case KvType::kQ8_0: decode(quant::Type::Q8_0, from, to, static_cast<size_t>(n)); return;
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
