// Rounding activations to 8 bits, and sixteen rounded rows as a tile. The formats are in kernels/q8.h.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/q8.h"

namespace strata::kernels::STRATA_ISA_NS {

// Largest magnitude of n values and whether all are numbers; n is a multiple of 32.
static float largest_magnitude(const float* x, int n, bool* numbers) {
  Vec best = Vec::zero();
  Vec poison = Vec::zero();  // 0 * x: NaN for what is not finite
  for (int i = 0; i < n; i += Vec::kLanes) {
    const Vec v = Vec::load(x + i);
    best = best.max(v.abs());
    poison = poison.fma(v, Vec::zero());
  }
  float lane[Vec::kLanes];
  best.store(lane);
  float largest = 0;
  for (const float l : lane) largest = l > largest ? l : largest;
  const float bad = sum(poison);
  *numbers = bad == 0;
  return largest;
}

// codes[i] = round-half-even(x[i] * inverse), clamped to [-127, 127].
static void round_codes(const float* x, int n, float inverse, int8_t* codes) {
#if defined(__AVX512F__)
  const __m512 scale = _mm512_set1_ps(inverse);
  for (int i = 0; i < n; i += 16) {
    const __m512i rounded = _mm512_maskz_cvtps_epi32(0xFFFF, _mm512_mul_ps(_mm512_loadu_ps(x + i), scale));
    const __m512i clamped = _mm512_maskz_max_epi32(
        0xFFFF, _mm512_maskz_min_epi32(0xFFFF, rounded, _mm512_set1_epi32(127)), _mm512_set1_epi32(-127));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_maskz_cvtepi32_epi8(0xFFFF, clamped));
  }
#else
  for (int i = 0; i < n; i += Vec::kLanes) {
    const Vec rounded = Vec::set(127.0f).min(Vec::set(-127.0f).max((Vec::load(x + i) * Vec::set(inverse)).round()));
    float lane[Vec::kLanes];
    rounded.store(lane);
    for (int l = 0; l < Vec::kLanes; l++) codes[i + l] = static_cast<int8_t>(lane[l]);
  }
#endif
}

// To float16 and back, as quant::f32_to_f16 rounds.
static float rounded_to_half(float x) {
#if defined(__F16C__)
  return _cvtsh_ss(_cvtss_sh(x < 65504.0f ? x : 65504.0f, _MM_FROUND_TO_NEAREST_INT));
#else
  return f16_value(quant::f32_to_f16(x));
#endif
}

static int16_t sum_of_16(const int8_t* codes) {
  int total = 0;
  for (int i = 0; i < 16; i++) total += codes[i];
  return static_cast<int16_t>(total);
}

// The first element of largest magnitude.
static float signed_largest(const float* x, int n, float magnitude) {
  for (int i = 0; i < n; i++) {
    if (std::fabs(x[i]) == magnitude) return x[i];
  }
  return 0;
}

// d and codes of n elements that share them.
static float quantize_group(ActFormat format, const float* x, int n, int8_t* codes) {
  bool numbers;
  const float largest = largest_magnitude(x, n, &numbers);
  if (!numbers) {
    std::memset(codes, 1, static_cast<size_t>(n));
    return __builtin_nanf("");
  }
  const float d = largest / 127.0f;
  const float inverse = format == ActFormat::kSuper ? -127.0f / signed_largest(x, n, largest) : 1.0f / d;
  if (!(std::fabs(inverse) < __builtin_inff())) {  // all zero, or as good as
    std::memset(codes, 0, static_cast<size_t>(n));
    return 0;
  }
  round_codes(x, n, inverse, codes);
  return format == ActFormat::kSuper ? 1.0f / inverse : rounded_to_half(d);
}

static void quantize_row(ActFormat format, const float* x, int64_t cols, uint8_t* row) {
  const ActRowLayout at = act_row_layout(format, cols);
  auto* codes = reinterpret_cast<int8_t*>(row);
  auto* d = reinterpret_cast<float*>(row + at.d);
  auto* sums = reinterpret_cast<int16_t*>(row + at.sums);
  const int64_t width = act_scale_cols(format);
  for (int64_t i = 0; i < cols; i += width)
    d[i / width] = quantize_group(format, x + i, static_cast<int>(width), codes + i);
  for (int64_t i = cols; i < act_cols(cols); i++) codes[i] = 0;
  for (int64_t i = 0; i < act_cols(cols); i += 16) sums[i / 16] = sum_of_16(codes + i);
}

// Sixteen words of each row, transposed: to[word][row].
static void transpose_words(const uint8_t* const* rows, size_t offset, uint8_t* to) {
  for (int word = 0; word < 16; word++) {
    for (int r = 0; r < kTileRows; r++) {
      std::memcpy(to + (word * kTileRows + r) * 4, rows[r] + offset + word * 4, 4);
    }
  }
}

static void pack_tile(ActFormat format, const uint8_t* const* rows, int n_rows, int64_t cols, uint8_t* tile) {
  const ActRowLayout from = act_row_layout(format, cols);
  const ActTileLayout to = act_tile_layout(format, cols);
  const int64_t n = act_cols(cols);
  // Rows that are not there take part as the first one; nobody reads what becomes of them.
  const uint8_t* row[kTileRows];
  for (int r = 0; r < kTileRows; r++) row[r] = rows[r < n_rows ? r : 0];
  for (int64_t i = 0; i < n; i += 64) {
    transpose_words(row, static_cast<size_t>(i), tile + i * kTileRows);
  }
  auto* d = reinterpret_cast<float*>(tile + to.d);
  const int64_t n_scales = act_scales(format, cols);
  for (int r = 0; r < kTileRows; r++) {
    const auto* row_d = reinterpret_cast<const float*>(row[r] + from.d);
    const auto* sums = reinterpret_cast<const int16_t*>(row[r] + from.sums);
    for (int64_t i = 0; i < n_scales; i++) d[i * kTileRows + r] = row_d[i];
    if (format == ActFormat::kSuper) {
      auto* pairs16 = reinterpret_cast<int16_t*>(tile + to.pairs16);
      auto* pairs32 = reinterpret_cast<int16_t*>(tile + to.pairs32);
      auto* totals = reinterpret_cast<int32_t*>(tile + to.totals);
      for (int64_t i = 0; i < n / 16; i++) pairs16[(i / 2 * kTileRows + r) * 2 + i % 2] = sums[i];
      for (int64_t i = 0; i < n / 32; i++) {
        pairs32[(i / 2 * kTileRows + r) * 2 + i % 2] = static_cast<int16_t>(sums[2 * i] + sums[2 * i + 1]);
      }
      for (int64_t i = 0; i < n / 256; i++) {
        int32_t total = 0;
        for (int j = 0; j < 16; j++) total += sums[16 * i + j];
        totals[i * kTileRows + r] = total;
      }
    } else {
      auto* sums16 = reinterpret_cast<int32_t*>(tile + to.sums16);
      auto* sums32 = reinterpret_cast<int32_t*>(tile + to.sums32);
      for (int64_t i = 0; i < n / 16; i++) sums16[i * kTileRows + r] = sums[i];
      for (int64_t i = 0; i < n / 32; i++) sums32[i * kTileRows + r] = sums[2 * i] + sums[2 * i + 1];
    }
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
