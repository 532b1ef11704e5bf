// Rounding activations to 8 bits, and sixteen rounded rows as a tile. The formats are in kernels/q8.h.
#pragma once

#include "kernels/cpu/q8/format.inl.h"
#include "kernels/cpu/simd.h"
#include "kernels/q8.h"

namespace strata::kernels::STRATA_ISA_NS {

// The extremes of n values, 0 among them, and whether all are numbers; n is a multiple of 32.
struct Extremes {
  float most;
  float least;
  bool numbers;
};
static Extremes extremes(const float* x, int n) {
  Vec most = Vec::zero(), least = Vec::zero();
  Vec poison = Vec::zero();  // 0 * x: NaN for what is not finite
  for (int i = 0; i < n; i += Vec::kLanes) {
    const Vec v = Vec::load(x + i);
    most = most.max(v);
    least = least.min(v);
    poison = poison.fma(v, Vec::zero());
  }
  float high[Vec::kLanes], low[Vec::kLanes];
  most.store(high);
  least.store(low);
  Extremes all{0, 0, sum(poison) == 0};
  for (int l = 0; l < Vec::kLanes; l++) {
    all.most = high[l] > all.most ? high[l] : all.most;
    all.least = low[l] < all.least ? low[l] : all.least;
  }
  return all;
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
  // Codes with 128 added are unsigned, and their absolute differences from 0 are summed by eights.
  const __m128i shifted = (Codes{load_codes(codes)} ^ splat(0x80)).v;
  const __m128i eights = _mm_sad_epu8(shifted, _mm_setzero_si128());
  const int total = _mm_cvtsi128_si32(eights) + _mm_cvtsi128_si32(_mm_unpackhi_epi64(eights, eights));
  return static_cast<int16_t>(total - 16 * 128);
}

// The first element of largest magnitude.
static float signed_largest(const float* x, int n, const Extremes& all) {
  if (all.most != -all.least) return all.most > -all.least ? all.most : all.least;
  for (int i = 0; i < n; i++) {
    if (std::fabs(x[i]) == all.most) return x[i];
  }
  return 0;
}

// d and codes of n elements that share them.
static float quantize_group(ActFormat format, const float* x, int n, int8_t* codes) {
  const Extremes all = extremes(x, n);
  if (!all.numbers) {
    std::memset(codes, 1, static_cast<size_t>(n));
    return __builtin_nanf("");
  }
  const float d = (all.most > -all.least ? all.most : -all.least) / 127.0f;
  const float inverse = format == ActFormat::kSuper ? -127.0f / signed_largest(x, n, all) : 1.0f / d;
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
