// Integer products of a few rows of 8-bit activations with weight rows.
//
// The result of a (weight row, activation row) has one definition, whatever computes it: blocks in order,
//   super-blocks: y = fma(isum, d_w * d_a, y), then with mins y = fma(msum, -(dmin_w * d_a), y), where the integers
//     isum = sum_g scale[g] * sum_i (code - offset) * a and msum = sum_g min[g] * sum_i a are exact;
//   blocks: y = fma(isum, d_w * d_a, y), then with addends y = fma(asum, m_w * d_a, y).
// So its bits depend neither on the instruction set (where it has fused multiply-add) nor on what is computed beside
// it.
#pragma once

#include "kernels/cpu/q8/activations.inl.h"
#include "kernels/cpu/q8/formats.inl.h"
#include "kernels/cpu/simd.h"
#include "kernels/kernels.h"

namespace strata::kernels::STRATA_ISA_NS {

// Weight rows whose sums are formed together.
constexpr int kStripRows = 16;
// Columns unpacked at a time, so that all stays in the first-level cache. Multiples of every block.
constexpr int64_t kSuperChunk = 4096;
constexpr int64_t kBlockChunk = 1024;
// Tokens that share the unpacking of a row where they are multiplied one by one.
constexpr int64_t kTokensAtOnce = 64;
constexpr int64_t kMaxGroups = kBlockChunk / 16;

// One row of rounded activations.
struct ActRow {
  const int8_t* codes;
  const float* d;
  const int16_t* sums;
};
inline ActRow act_row(ActFormat format, int64_t cols, const uint8_t* row) {
  const ActRowLayout at = act_row_layout(format, cols);
  return {reinterpret_cast<const int8_t*>(row), reinterpret_cast<const float*>(row + at.d),
          reinterpret_cast<const int16_t*>(row + at.sums)};
}

#if defined(__AVX512F__)

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

#endif

#if defined(__AVX2__)
// Weight rows whose sums are formed together, a lane for each, for a few activation rows.
constexpr int kRowLanes = Vec::kLanes;
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)

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

#endif

// What the products of a strip are formed in; one per thread, in the caller's scratch.
struct RowsScratch {
  alignas(64) uint8_t codes[kSuperChunk];
  int16_t scales[kSuperChunk / kGroup];
  int16_t mins[kSuperChunk / kGroup];
  float d[kMaxGroups * kStripRows];  // [group or super-block][row]
  float m[kMaxGroups * kStripRows];
  float y[kTokensAtOnce];
#if defined(__AVX512F__)
  alignas(64) __m512i parts[kFewRows][kMaxGroups / 4 * kStripRows];
#elif defined(__AVX2__)
  alignas(64) __m256i parts[kFewRows][kMaxGroups / 2 * kRowLanes];
#endif
};
static_assert(kSuperChunk / kSuperCols <= kMaxGroups / 4 && kBlockChunk / 64 <= kMaxGroups / 4);
static_assert(2 * kSuperChunk / kSuperCols <= kMaxGroups / 2 && kBlockChunk / 32 <= kMaxGroups / 2);

// What a call multiplies; `row` counts weight rows.
struct Q8Call {
  const Matrix& w;
  const Q8Format& format;
  const uint8_t* x;  // rows or tiles
  Q8Out out;
  const uint8_t* packed(int64_t row, int64_t column) const {
    const quant::TypeInfo& layout = kFormats.by_id[static_cast<uint32_t>(w.type)].info;
    return w.data + static_cast<size_t>(row) * w.row_bytes +
           static_cast<size_t>(column) / layout.block_elems * layout.block_bytes;
  }
  int64_t blocks(int64_t columns) const {
    return columns / kFormats.by_id[static_cast<uint32_t>(w.type)].info.block_elems;
  }
};

static void unpack_row(const Q8Call& call, int64_t row, int64_t column, int64_t n_cols, RowsScratch& s, int lane) {
  const uint8_t* packed = call.packed(row, column);
  const int64_t n = call.blocks(n_cols);
  if (call.format.kind == Q8Class::kSuper) {
    call.format.super.unpack(packed, n, {s.codes, s.scales, s.mins, s.d + lane, s.m + lane, kStripRows});
  } else {
    call.format.block.unpack(packed, n, {s.codes, s.d + lane, s.m + lane, kStripRows});
    for (int64_t i = n_cols; i < act_cols(n_cols); i++) s.codes[i] = 0;
  }
}

#if defined(__AVX2__)
// The sums of a token with n weight rows from `row` on, or as many as a vector has, go where the call wants them.
inline void store_sums(const Q8Out& out, Vec sums, int64_t token, int64_t row, int n) {
  float* y = out.y + token * out.y_stride + row;
  if (n >= Vec::kLanes) {
    if (out.bias != nullptr) sums = sums + Vec::load(out.bias + row);
    if (out.accumulate) sums = Vec::load(y) + sums;
    return sums.store(y);
  }
  if (out.bias != nullptr) sums = sums + Vec::load_part(out.bias + row, n);
  if (out.accumulate) sums = Vec::load_part(y, n) + sums;
  sums.store_part(y, n);
}
#endif

#if defined(__AVX512F__)

template <bool kMins, bool kWide>
static void super_row(const RowsScratch& s, int64_t n_cols, int offset, const ActRow& a, const Parts& parts, int lane) {
  for (int64_t b = 0; b < n_cols / kSuperCols; b++) {
    *parts.unit(b, lane) =
        super_part<kMins, kWide>(s.codes + b * kSuperCols, s.scales + b * kSuperGroups, s.mins + b * kSuperGroups,
                                 offset, a.codes + b * kSuperCols, a.sums + b * kSuperGroups);
  }
}

static void row_parts(const Q8Format& format, const RowsScratch& s, int64_t n_cols, const ActRow& a, const Parts& parts,
                      int lane) {
  if (format.kind == Q8Class::kSuper) {
    const SuperFormat& super = format.super;
    if (super.mins) return super_row<true, false>(s, n_cols, super.offset, a, parts, lane);
    if (super.wide()) return super_row<false, true>(s, n_cols, super.offset, a, parts, lane);
    return super_row<false, false>(s, n_cols, super.offset, a, parts, lane);
  }
  for (int64_t u = 0; u < act_cols(n_cols) / 64; u++) {
    *parts.unit(u, lane) = add_dot4(_mm512_setzero_si512(), load512(s.codes + 64 * u), load512(a.codes + 64 * u));
  }
}

#elif defined(__AVX2__)

template <bool kWide>
static void super_row(const SuperFormat& format, const RowsScratch& s, int64_t n_cols, const ActRow& a,
                      const Parts& parts, int lane) {
  for (int64_t b = 0; b < n_cols / kSuperCols; b++) {
    const __m256i sums = load256(a.sums + b * kSuperGroups);
    *parts.unit(2 * b, lane) = super_part<kWide>(s.codes + b * kSuperCols, s.scales + b * kSuperGroups, format.offset,
                                                 a.codes + b * kSuperCols, sums);
    if (format.mins) *parts.unit(2 * b + 1, lane) = _mm256_madd_epi16(load256(s.mins + b * kSuperGroups), sums);
  }
}

template <bool kWide>
static void block_row(const RowsScratch& s, int64_t n_cols, const ActRow& a, const Parts& parts, int lane) {
  for (int64_t u = 0; u < n_cols / 32; u++) {
    *parts.unit(u, lane) = dot4<kWide>(load256(s.codes + 32 * u), load256(a.codes + 32 * u));
  }
}

static void row_parts(const Q8Format& format, const RowsScratch& s, int64_t n_cols, const ActRow& a, const Parts& parts,
                      int lane) {
  if (format.kind == Q8Class::kSuper) {
    if (format.super.wide()) return super_row<true>(format.super, s, n_cols, a, parts, lane);
    return super_row<false>(format.super, s, n_cols, a, parts, lane);
  }
  if (format.block.wide()) return block_row<true>(s, n_cols, a, parts, lane);
  block_row<false>(s, n_cols, a, parts, lane);
}

#endif

#if defined(__AVX2__)

// At most kFewRows activation rows.
static void few_rows(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, RowsScratch& s) {
  const ActFormat act = call.format.kind == Q8Class::kSuper ? ActFormat::kSuper : ActFormat::kBlock;
  const size_t act_bytes = act_row_layout(act, call.w.cols).bytes;
  const int64_t chunk = act == ActFormat::kSuper ? kSuperChunk : kBlockChunk;
  for (int64_t first = row_begin; first < row_end; first += kRowLanes) {
    const int rows = static_cast<int>(row_end - first < kRowLanes ? row_end - first : kRowLanes);
    Vec sums[kFewRows];
    for (Vec& sum : sums) sum = Vec::zero();
    for (int64_t column = 0; column < call.w.cols; column += chunk) {
      const int64_t n_cols = call.w.cols - column < chunk ? call.w.cols - column : chunk;
      const auto from = [&](int64_t t) {
        ActRow a = act_row(act, call.w.cols, call.x + static_cast<size_t>(t) * act_bytes);
        return ActRow{a.codes + column, a.d + column / act_scale_cols(act), a.sums + column / 16};
      };
      for (int r = 0; r < rows; r++) {
        unpack_row(call, first + r, column, n_cols, s, r);
        for (int64_t t = 0; t < n_tokens; t++) row_parts(call.format, s, n_cols, from(t), {s.parts[t]}, r);
      }
      for (int64_t t = 0; t < n_tokens; t++) {
        const ActRow a = from(t);
        if (act == ActFormat::kSuper) {
          finish_super({s.parts[t]}, n_cols / kSuperCols, call.format.super.mins, s.d, s.m, a.d, sums[t]);
        } else {
          finish_blocks({s.parts[t]}, n_cols, call.format.block, s.d, s.m, a, sums[t]);
        }
      }
    }
    for (int64_t t = 0; t < n_tokens; t++) store_sums(call.out, sums[t], t, first, rows);
  }
}

static void rows_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, void* scratch) {
  const ActFormat act = call.format.kind == Q8Class::kSuper ? ActFormat::kSuper : ActFormat::kBlock;
  const size_t act_bytes = act_row_layout(act, call.w.cols).bytes;
  for (int64_t t = 0; t < n_tokens; t += kFewRows) {
    Q8Call some = call;
    some.x += static_cast<size_t>(t) * act_bytes;
    some.out.y += t * call.out.y_stride;
    few_rows(some, row_begin, row_end, n_tokens - t < kFewRows ? n_tokens - t : kFewRows,
             *static_cast<RowsScratch*>(scratch));
  }
}

#else

// isum and msum of one super-block.
struct SuperSums {
  int32_t isum;
  int32_t msum;
};

static SuperSums super_sums(const SuperFormat& format, const uint8_t* codes, const int16_t* scales, const int16_t* mins,
                            const int8_t* a, const int16_t* a_sums) {
  SuperSums total{0, 0};
  for (int g = 0; g < kSuperGroups; g++) {
    int32_t dot = 0;
    for (int i = 0; i < kGroup; i++) dot += codes[kGroup * g + i] * a[kGroup * g + i];
    total.isum += scales[g] * (dot - format.offset * a_sums[g]);
    if (format.mins) total.msum += mins[g] * a_sums[g];
  }
  return total;
}

static int32_t group_sum(const uint8_t* codes, const int8_t* a, int n) {
  int32_t dot = 0;
  for (int i = 0; i < n; i++) dot += codes[i] * a[i];
  return dot;
}

// A stretch of a weight row with one activation row.
static float row_product(const Q8Format& format, const RowsScratch& s, int64_t n_cols, const ActRow& a, float y) {
  if (format.kind == Q8Class::kSuper) {
    for (int64_t b = 0; b < n_cols / kSuperCols; b++) {
      const SuperSums sums = super_sums(format.super, s.codes + b * kSuperCols, s.scales + b * kSuperGroups,
                                        s.mins + b * kSuperGroups, a.codes + b * kSuperCols, a.sums + b * kSuperGroups);
      y += static_cast<float>(sums.isum) * (s.d[b * kStripRows] * a.d[b]);
      if (format.super.mins) y -= static_cast<float>(sums.msum) * (s.m[b * kStripRows] * a.d[b]);
    }
    return y;
  }
  const BlockFormat& block = format.block;
  for (int64_t g = 0; g < n_cols / block.group; g++) {
    const int64_t at = g * block.group;
    const int32_t a_sum = a.sums[at / 16] + (block.group == 32 ? a.sums[at / 16 + 1] : 0);
    const int32_t isum = group_sum(s.codes + at, a.codes + at, block.group) - block.offset * a_sum;
    const float a_d = a.d[at / 32];
    y += static_cast<float>(isum) * (s.d[g * kStripRows] * a_d);
    if (block.addends) y += static_cast<float>(a_sum) * (s.m[g * kStripRows] * a_d);
  }
  return y;
}

static void rows_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, void* scratch) {
  RowsScratch& s = *static_cast<RowsScratch*>(scratch);
  const ActFormat act = call.format.kind == Q8Class::kSuper ? ActFormat::kSuper : ActFormat::kBlock;
  const size_t act_bytes = act_row_layout(act, call.w.cols).bytes;
  const int64_t chunk = act == ActFormat::kSuper ? kSuperChunk : kBlockChunk;
  for (int64_t first = 0; first < n_tokens; first += kTokensAtOnce) {
    const int64_t tokens = n_tokens - first < kTokensAtOnce ? n_tokens - first : kTokensAtOnce;
    for (int64_t r = row_begin; r < row_end; r++) {
      for (int64_t column = 0; column < call.w.cols; column += chunk) {
        const int64_t n_cols = call.w.cols - column < chunk ? call.w.cols - column : chunk;
        unpack_row(call, r, column, n_cols, s, 0);
        for (int64_t t = 0; t < tokens; t++) {
          const ActRow row = act_row(act, call.w.cols, call.x + static_cast<size_t>(first + t) * act_bytes);
          const ActRow a{row.codes + column, row.d + column / act_scale_cols(act), row.sums + column / 16};
          s.y[t] = row_product(call.format, s, n_cols, a, column == 0 ? 0.0f : s.y[t]);
        }
      }
      for (int64_t t = 0; t < tokens; t++) {
        float sum = s.y[t];
        if (call.out.bias != nullptr) sum += call.out.bias[r];
        float& y = call.out.y[(first + t) * call.out.y_stride + r];
        y = call.out.accumulate ? y + sum : sum;
      }
    }
  }
}

#endif

}  // namespace strata::kernels::STRATA_ISA_NS
