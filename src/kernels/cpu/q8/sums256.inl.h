// Partial sums of eight weight rows with a row of activations, and how they are added up: 256 bits.
#pragma once

#include "kernels/cpu/q8/call.inl.h"

#if defined(__AVX2__) && !defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// Partial sums: element [unit][row]; units are a super-block's isum and msum in turn, or 32 columns of a block type.
struct Parts {
  __m256i* at;
  __m256i* unit(int64_t u, int row) const { return at + u * kRowLanes + row; }
};

// What dot4<true> takes off its codes.
constexpr int kWideShift = 128;

// Four neighbouring products added up in each int32. kWide: of codes of all 8 bits less kWideShift, their signs moved
// to the activations; else of codes up to 128.
template <bool kWide>
inline __m256i dot4(__m256i codes, __m256i a) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (!kWide) return _mm256_madd_epi16(_mm256_maddubs_epi16(codes, a), ones);
  const __m256i w = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
  return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)), ones);
}

// Sums of the lower and of the upper 4 lanes of rows: each half of quad[k] has those of rows 4k to 4k + 3.
inline void sum_quads(const __m256i* rows, __m256i quad[2]) {
  for (int k = 0; k < 2; k++) {
    const __m256i* r = rows + 4 * k;
    quad[k] = _mm256_hadd_epi32(_mm256_hadd_epi32(r[0], r[1]), _mm256_hadd_epi32(r[2], r[3]));
  }
}
inline void sum_row_halves(const __m256i* rows, __m256i out[2]) {
  __m256i q[2];
  sum_quads(rows, q);
  out[0] = _mm256_permute2x128_si256(q[0], q[1], 0x20);
  out[1] = _mm256_permute2x128_si256(q[0], q[1], 0x31);
}
inline __m256i sum_rows(const __m256i* rows) {
  __m256i half[2];
  sum_row_halves(rows, half);
  return _mm256_add_epi32(half[0], half[1]);
}

// A super-block's partial isums for one row.
template <bool kWide>
inline __m256i super_part(const uint8_t* codes, const int16_t* scales, int offset, const int8_t* a, __m256i a_sums) {
  __m256i acc = _mm256_setzero_si256();
  for (int j = 0; j < 8; j++) {
    const __m256i c = load256(codes + 32 * j), x = load256(a + 32 * j);
    if constexpr (kWide) {
      const __m256i s = _mm256_set_m128i(_mm_set1_epi32(scales[2 * j + 1]), _mm_set1_epi32(scales[2 * j]));
      acc = _mm256_add_epi32(acc, _mm256_mullo_epi32(dot4<true>(c, x), s));
    } else {
      const __m256i s = _mm256_set_m128i(_mm_set1_epi16(scales[2 * j + 1]), _mm_set1_epi16(scales[2 * j]));
      acc = _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(c, x), s));
    }
  }
  const int left = kWide ? offset - kWideShift : offset;
  if (left == 0) return acc;
  const __m256i scaled = _mm256_mullo_epi16(load256(scales), _mm256_set1_epi16(static_cast<int16_t>(-left)));
  return _mm256_add_epi32(acc, _mm256_madd_epi16(scaled, a_sums));
}

static void finish_super(const Parts& parts, int64_t n, bool mins, const float* d, const float* dmin, const float* a_d,
                         Vec& sums) {
  __m256 y = sums.v;
  for (int64_t b = 0; b < n; b++) {
    const __m256 da = _mm256_set1_ps(a_d[b]);
    const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(d + b * kStripRows), da);
    y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum_rows(parts.unit(2 * b, 0))), scale, y);
    if (!mins) continue;
    const __m256 min_scale = _mm256_mul_ps(_mm256_loadu_ps(dmin + b * kStripRows), da);
    y = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(sum_rows(parts.unit(2 * b + 1, 0))), min_scale, y);
  }
  sums.v = y;
}

// One group's isums of 8 rows join y.
inline __m256 add_group(__m256 y, __m256i sums, int offset, int32_t a_sum, const float* d, const float* m, float a_d) {
  const __m256i isum = _mm256_sub_epi32(sums, _mm256_set1_epi32(offset * a_sum));
  const __m256 da = _mm256_set1_ps(a_d);
  y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum), _mm256_mul_ps(_mm256_loadu_ps(d), da), y);
  if (m == nullptr) return y;
  return _mm256_fmadd_ps(_mm256_set1_ps(static_cast<float>(a_sum)), _mm256_mul_ps(_mm256_loadu_ps(m), da), y);
}

static void finish_blocks(const Parts& parts, int64_t cols, const BlockFormat& format, const float* d, const float* m,
                          const ActRow& a, Vec& sums) {
  __m256 y = sums.v;
  const int offset = format.wide() ? format.offset - kWideShift : format.offset;
  const auto add = [&](int64_t group, __m256i isums, int32_t a_sum, float a_d) {
    const float* addends = format.addends ? m + group * kStripRows : nullptr;
    y = add_group(y, isums, offset, a_sum, d + group * kStripRows, addends, a_d);
  };
  for (int64_t u = 0; u < cols / 32; u++) {
    if (format.group == 32) {
      add(u, sum_rows(parts.unit(u, 0)), a.sums[2 * u] + a.sums[2 * u + 1], a.d[u]);
    } else {
      __m256i half[2];
      sum_row_halves(parts.unit(u, 0), half);
      add(2 * u, half[0], a.sums[2 * u], a.d[u]);
      add(2 * u + 1, half[1], a.sums[2 * u + 1], a.d[u]);
    }
  }
  sums.v = y;
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
