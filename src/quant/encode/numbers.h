// What all quantisers are written in: rounding to codes within a range, the extremes of a block, fields of a block.
//
// The roundings take any float: what lies outside the range becomes its nearer end, NaN its lower one. They are plain
// selections and conversions, which compilers turn into vector code.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/bytes.h"
#include "quant/type.h"

namespace strata::quant {

inline float clamped(float x, float low, float high) {
  const float raised = x > low ? x : low;
  return raised < high ? raised : high;
}

// Half to even, still as a float. Range within +-2^22.
inline float nearest_even(float x, float low, float high) {
  constexpr float kOnes = 12582912.0f;  // 1.5 * 2^23: the last bit of floats of this size counts ones
  return (clamped(x, low, high) + kOnes) - kOnes;
}
inline int round_even(float x, int low, int high) {
  return static_cast<int>(nearest_even(x, static_cast<float>(low), static_cast<float>(high)));
}

// Half away from zero.
inline int round_away(float x, int low, int high) {
  const float in_range = clamped(x, static_cast<float>(low), static_cast<float>(high));
  const int whole = static_cast<int>(in_range);
  const float rest = in_range - static_cast<float>(whole);
  return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

inline int truncated(float x, int low, int high) {
  return static_cast<int>(clamped(x, static_cast<float>(low), static_cast<float>(high)));
}

inline float inverse_or_zero(float x) { return x != 0 ? 1 / x : 0; }
inline float ratio_or_zero(float x, float y) { return y != 0 ? x / y : 0; }

inline float max_magnitude(const float* x, int n) {
  float max = 0;
  for (int i = 0; i < n; i++) max = std::fabs(x[i]) > max ? std::fabs(x[i]) : max;
  return max;
}

// The element of largest magnitude, with its sign; the first of several.
inline float extreme(const float* x, int n) {
  float magnitude = 0, value = 0;
  for (int i = 0; i < n; i++) {
    if (std::fabs(x[i]) > magnitude) {
      magnitude = std::fabs(x[i]);
      value = x[i];
    }
  }
  return value;
}

// Stores a scale and returns what decoders will read.
inline float store_f16(uint8_t* to, float value) {
  const uint16_t half = f32_to_f16(value);
  store_le(to, half);
  return f16_to_f32(half);
}

// Codes 0..15: code j in the low nibble of byte j, code n / 2 + j in the high one.
template <class Code>
void store_nibbles(uint8_t* to, const Code* codes, int n) {
  for (int j = 0; j < n / 2; j++) to[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[n / 2 + j] & 15) << 4);
}

// Two bits of each of 128 codes, in the planes of the 256-element types: codes l, l + 32, l + 64, l + 96 in byte l.
inline void store_planes(uint8_t* to, const uint8_t* codes) {
  for (int l = 0; l < 32; l++) {
    to[l] = static_cast<uint8_t>((codes[l] & 3) | (codes[32 + l] & 3) << 2 | (codes[64 + l] & 3) << 4 |
                                 (codes[96 + l] & 3) << 6);
  }
}

}  // namespace strata::quant
