// Plain numbers: F32, F16, BF16 decode; F64 and the integers are known, but are not weights of a product.
#pragma once

#include "quant/decode/format.inl.h"

namespace STRATA_DECODE_NS {

inline void decode_f32(const uint8_t* in, float* out, size_t n) {
  if (n > 0) std::memcpy(out, in, n * sizeof(float));
}

inline void decode_f16(const uint8_t* in, float* out, size_t n) {
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(in + 2 * i));
    _mm512_storeu_ps(out + i, _mm512_maskz_cvtph_ps(0xFFFF, halves));
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(load_codes(in + 2 * i).v));
#endif
  for (; i < n; i++) out[i] = f16_at(in + 2 * i);
}

inline void decode_bf16(const uint8_t* in, float* out, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i upper = load_codes(in + 2 * i).v;
    const __m128i zero = _mm_setzero_si128();
    _mm_storeu_ps(out + i, _mm_castsi128_ps(_mm_unpacklo_epi16(zero, upper)));
    _mm_storeu_ps(out + i + 4, _mm_castsi128_ps(_mm_unpackhi_epi16(zero, upper)));
  }
  for (; i < n; i++) {
    const uint32_t bits = static_cast<uint32_t>(u16_at(in + 2 * i)) << 16;
    std::memcpy(out + i, &bits, sizeof bits);
  }
}

constexpr Format kPlainFormats[] = {
    {{quant::Type::F32, "F32", 1, 4, true, decode_f32}, {f32_field(0)}},
    {{quant::Type::F16, "F16", 1, 2, true, decode_f16}, {f16_field(0)}},
    {{quant::Type::BF16, "BF16", 1, 2, true, decode_bf16}, {{0, 2, 0x7F80}}},
    {{quant::Type::I8, "I8", 1, 1, true, nullptr}, {}},
    {{quant::Type::I16, "I16", 1, 2, true, nullptr}, {}},
    {{quant::Type::I32, "I32", 1, 4, true, nullptr}, {}},
    {{quant::Type::I64, "I64", 1, 8, true, nullptr}, {}},
    {{quant::Type::F64, "F64", 1, 8, true, nullptr}, {{0, 8, 0x7FF0000000000000}}},
};

}  // namespace STRATA_DECODE_NS
