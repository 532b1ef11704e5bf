// Partial sums of sixteen weight rows with a row of activations, and how they are added up: 512 bits.
#pragma once

#include "kernels/cpu/q8/call.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

inline __m512i load512(const void* p) { return _mm512_loadu_si512(p); }

// acc + pairwise products of int16.
inline __m512i add_pairs(__m512i acc, __m512i a, __m512i b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpwssd_epi32(acc, a, b);
#else
  return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
#endif
}
// Four neighbouring products of unsigned codes and signed activations in each int32.
inline __m512i add_dot4(__m512i acc, __m512i codes, __m512i a) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(acc, codes, a);
#else
  const __m512i ones = _mm512_set1_epi16(1);
  const __m512i low = _mm512_and_si512(codes, _mm512_set1_epi8(0x7F));
  const __m512i top = _mm512_and_si512(_mm512_srli_epi16(codes, 7), _mm512_set1_epi8(1));
  acc = _mm512_add_epi32(acc, _mm512_madd_epi16(_mm512_maddubs_epi16(low, a), ones));
  return _mm512_add_epi32(acc, _mm512_slli_epi32(_mm512_madd_epi16(_mm512_maddubs_epi16(top, a), ones), 7));
#endif
}

// The same of codes below 128, without what was there before.
inline __m512i dot4_small(__m512i codes, __m512i a) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, a);
#else
  return _mm512_madd_epi16(_mm512_maddubs_epi16(codes, a), _mm512_set1_epi16(1));
#endif
}

// Partial sums of a strip: element [unit][row]; a unit is a super-block, or 64 columns of a block type.
struct Parts {
  __m512i* at;
  __m512i* unit(int64_t u, int row) const { return at + u * kStripRows + row; }
};

inline __m512i add_halves(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
inline __m512i add_quads(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

// Sums of 4 lanes each: quad[k] lane l*4 + i = the sum of lanes 4l..4l+3 of row 4k + i.
inline void sum_quads(const __m512i* rows, __m512i quad[4]) {
  for (int k = 0; k < 4; k++) {
    const __m512i* r = rows + 4 * k;
    quad[k] = add_quads(add_halves(r[0], r[1]), add_halves(r[2], r[3]));
  }
}

// Sums of all 16 lanes of each row.
inline __m512i sum_rows(const __m512i* rows) {
  __m512i q[4];
  sum_quads(rows, q);
  const __m512i x = _mm512_add_epi32(_mm512_shuffle_i32x4(q[0], q[1], 0x44), _mm512_shuffle_i32x4(q[0], q[1], 0xEE));
  const __m512i y = _mm512_add_epi32(_mm512_shuffle_i32x4(q[2], q[3], 0x44), _mm512_shuffle_i32x4(q[2], q[3], 0xEE));
  return _mm512_add_epi32(_mm512_shuffle_i32x4(x, y, 0x88), _mm512_shuffle_i32x4(x, y, 0xDD));
}

// Sums of the lower and of the upper 8 lanes of each row.
inline void sum_row_halves(const __m512i* rows, __m512i out[2]) {
  __m512i q[4];
  sum_quads(rows, q);
  const __m512i x = _mm512_add_epi32(_mm512_shuffle_i32x4(q[0], q[1], 0x88), _mm512_shuffle_i32x4(q[0], q[1], 0xDD));
  const __m512i y = _mm512_add_epi32(_mm512_shuffle_i32x4(q[2], q[3], 0x88), _mm512_shuffle_i32x4(q[2], q[3], 0xDD));
  out[0] = _mm512_shuffle_i32x4(x, y, 0x88);
  out[1] = _mm512_shuffle_i32x4(x, y, 0xDD);
}

// Sums of each 4 lanes of each row.
inline void sum_row_quads(const __m512i* rows, __m512i out[4]) {
  __m512i q[4];
  sum_quads(rows, q);
  const __m512i a = _mm512_shuffle_i32x4(q[0], q[1], 0x44), b = _mm512_shuffle_i32x4(q[0], q[1], 0xEE);
  const __m512i c = _mm512_shuffle_i32x4(q[2], q[3], 0x44), d = _mm512_shuffle_i32x4(q[2], q[3], 0xEE);
  out[0] = _mm512_shuffle_i32x4(a, c, 0x88);
  out[1] = _mm512_shuffle_i32x4(a, c, 0xDD);
  out[2] = _mm512_shuffle_i32x4(b, d, 0x88);
  out[3] = _mm512_shuffle_i32x4(b, d, 0xDD);
}

// A super-block's sums for one row: 16 partial isums, or with mins 8 of isum and 8 of msum.
template <bool kMins, bool kWide>
inline __m512i super_part(const uint8_t* codes, const int16_t* scales, const int16_t* mins, int offset, const int8_t* a,
                          const int16_t* a_sums) {
  const __m256i s = load256(scales);
  const __m256i sums = load256(a_sums);
  __m512i acc = _mm512_setzero_si512();
  if constexpr (kWide) {
    const __m512i wide_scales = _mm512_maskz_cvtepi16_epi32(0xFFFF, s);
    for (int j = 0; j < 4; j++) {
      const __m512i group =
          _mm512_add_epi32(_mm512_set1_epi32(4 * j), _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0));
      const __m512i products = add_dot4(_mm512_setzero_si512(), load512(codes + 64 * j), load512(a + 64 * j));
      acc = _mm512_add_epi32(acc,
                             _mm512_mullo_epi32(products, _mm512_maskz_permutexvar_epi32(0xFFFF, group, wide_scales)));
    }
  } else {
    const __m512i spread = _mm512_zextsi256_si512(s);
    const __m512i eighths = _mm512_set_epi16(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0,
                                             0, 0, 0, 0, 0, 0, 0);
    for (int j = 0; j < 4; j++) {
      const __m512i pairs = _mm512_maddubs_epi16(load512(codes + 64 * j), load512(a + 64 * j));
      const __m512i group = _mm512_add_epi16(eighths, _mm512_set1_epi16(static_cast<int16_t>(4 * j)));
      acc = add_pairs(acc, pairs, _mm512_permutexvar_epi16(group, spread));
    }
  }
  if (offset != 0) {
    const __m256i scaled = _mm256_mullo_epi16(s, _mm256_set1_epi16(static_cast<int16_t>(-offset)));
    acc = _mm512_add_epi32(acc, _mm512_zextsi256_si512(_mm256_madd_epi16(scaled, sums)));
  }
  if constexpr (kMins) {
    const __m256i isums = _mm256_add_epi32(_mm512_castsi512_si256(acc), _mm512_extracti64x4_epi64(acc, 1));
    acc = _mm512_inserti64x4(_mm512_castsi256_si512(isums), _mm256_madd_epi16(load256(mins), sums), 1);
  }
  return acc;
}

static void finish_super(const Parts& parts, int64_t n, bool mins, const float* d, const float* dmin, const float* a_d,
                         Vec& sums) {
  __m512 y = sums.v;
  for (int64_t b = 0; b < n; b++) {
    const __m512 da = _mm512_set1_ps(a_d[b]);
    const __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(d + b * kStripRows), da);
    if (mins) {
      __m512i half[2];
      sum_row_halves(parts.unit(b, 0), half);
      y = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, half[0]), scale, y);
      const __m512 min_scale = _mm512_mul_ps(_mm512_loadu_ps(dmin + b * kStripRows), da);
      y = _mm512_fnmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, half[1]), min_scale, y);
    } else {
      y = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, sum_rows(parts.unit(b, 0))), scale, y);
    }
  }
  sums.v = y;
}

// One group's isums of 16 rows join y.
inline __m512 add_group(__m512 y, __m512i sums, int offset, int32_t a_sum, const float* d, const float* m, float a_d) {
  const __m512i isum = _mm512_sub_epi32(sums, _mm512_set1_epi32(offset * a_sum));
  const __m512 da = _mm512_set1_ps(a_d);
  y = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, isum), _mm512_mul_ps(_mm512_loadu_ps(d), da), y);
  if (m != nullptr) {
    y = _mm512_fmadd_ps(_mm512_set1_ps(static_cast<float>(a_sum)), _mm512_mul_ps(_mm512_loadu_ps(m), da), y);
  }
  return y;
}

static void finish_blocks(const Parts& parts, int64_t cols, const BlockFormat& format, const float* d, const float* m,
                          const ActRow& a, Vec& sums) {
  __m512 y = sums.v;
  if (format.group == 16) {
    for (int64_t g = 0; g < cols / 16; g += 4) {
      __m512i quads[4];
      sum_row_quads(parts.unit(g / 4, 0), quads);
      for (int i = 0; i < 4 && g + i < cols / 16; i++) {
        const int64_t at = g + i;
        y = add_group(y, quads[i], format.offset, a.sums[at], d + at * kStripRows,
                      format.addends ? m + at * kStripRows : nullptr, a.d[at / 2]);
      }
    }
  } else {
    for (int64_t g = 0; g < cols / 32; g += 2) {
      __m512i half[2];
      sum_row_halves(parts.unit(g / 2, 0), half);
      for (int i = 0; i < 2 && g + i < cols / 32; i++) {
        const int64_t at = g + i;
        y = add_group(y, half[i], format.offset, a.sums[2 * at] + a.sums[2 * at + 1], d + at * kStripRows,
                      format.addends ? m + at * kStripRows : nullptr, a.d[at]);
      }
    }
  }
  sums.v = y;
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
