// Products of a few activation rows straight from the packed blocks of the common types: decoding a token is bound by
// how fast weights can be read, and every store to the cache on the way shows.
//
// The results are those of q8/rows.inl.h: the integers are the same, only their partial sums are laid out otherwise.
// Activations are put in the order in which a type's codes come out of their bytes, once for all weight rows of a call.
#pragma once

#include "kernels/cpu/q8/rows.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// Orders of the 128 columns of a stretch: as they are; 0-31, 64-95, 32-63, 96-127 (nibbles of 32 bytes); the lower
// halves of four groups of 32, then the upper ones (nibbles of 16 bytes).
enum class ActOrder : uint8_t { kPlain, kNibbles32, kNibbles16 };

// How the sums of a unit lie in its parts: all 16 lanes of a super-block; 8 lanes of each of two groups of 32; 4 lanes
// of each of four groups of 32.
enum class PartShape : uint8_t { kSuper, kTwoGroups, kFourGroups };

// One row's stretch.
struct FusedRow {
  const uint8_t* packed;
  int64_t n_cols;
  const int8_t* a;        // in the type's order
  const int16_t* sums16;  // of the activations, in their own order
  const int16_t* sums32;
  int lane;
  __m512i* parts;    // [unit][kStripRows]
  __m128i* mins;     // [super-block][kStripRows]: 4 partial msums
  uint16_t* half_d;  // [group or super-block][kStripRows]: float16 scales as they stand, or
  float* d;          // the same as floats
  uint16_t* half_m;
};

struct FusedFormat {
  quant::Type type;
  void (*row)(const FusedRow& row);
  ActOrder order;
  PartShape shape;
  bool half_scales;  // writes half_d (and half_m); else d
};

// Bytes ahead of the block at hand that are asked for; measured best of 0 to 4096.
constexpr size_t kPrefetchBytes = 2048;

// Asks for the bytes of a block far ahead to be brought near, a block at a time: in bursts they would fill the queue of
// outstanding lines and hold up the loads behind them.
template <size_t kBytes>
inline void prefetch_block(const uint8_t* p) {
  for (size_t i = 0; i < kBytes; i += 64) __builtin_prefetch(p + kPrefetchBytes + i, 0, 3);
}

inline __m512i two_halves(const uint8_t* low, const uint8_t* high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(load256(low)), load256(high), 1);
}
inline __m512i four_quarters(const uint8_t* p, size_t distance) {
  const auto at = [&](int i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + static_cast<size_t>(i) * distance));
  };
  const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(at(0)), at(1), 1);
  const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(at(2)), at(3), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
inline __m512i low_nibbles(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
inline __m512i high_nibbles(__m512i x) { return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15)); }
inline __m512i bytes_table(const int8_t* table, int offset) {
  return _mm512_maskz_broadcast_i32x4(0xFFFF, (Codes{load_codes(table)} + splat(offset)).v);
}
inline uint64_t u64_at(const uint8_t* p) {
  uint64_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

// Sixteen int16 lanes of `first`, then sixteen of `second`.
inline __m512i pick_words(__m512i words, int first, int second) {
  const __m512i index = _mm512_inserti64x4(_mm512_set1_epi16(static_cast<int16_t>(first)),
                                           _mm256_set1_epi16(static_cast<int16_t>(second)), 1);
  return _mm512_permutexvar_epi16(index, words);
}

// Q4_K and Q5_K: scales and mins of eight groups, each a byte of a word.
struct KScales {
  uint64_t scales, mins;
};
inline KScales k_scales(const uint8_t* s) {
  const uint32_t w0 = u32_at(s), w1 = u32_at(s + 4), w2 = u32_at(s + 8);
  const uint32_t six = 0x3F3F3F3F, nibble = 0x0F0F0F0F, upper = 0x30303030;
  return {(w0 & six) | static_cast<uint64_t>((w2 & nibble) | ((w0 >> 2) & upper)) << 32,
          (w1 & six) | static_cast<uint64_t>(((w2 >> 4) & nibble) | ((w1 >> 2) & upper)) << 32};
}
inline __m128i words_of(uint64_t bytes) { return _mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))); }

template <bool kFive>
static void fused_k4(const FusedRow& r) {
  constexpr int kBytes = kFive ? 176 : 144;
  const uint8_t* block = r.packed;
  for (int64_t b = 0; b < r.n_cols / kSuperCols; b++, block += kBytes) {
    prefetch_block<kBytes>(block);
    const KScales s = k_scales(block + 4);
    const __m512i scales = _mm512_zextsi128_si512(words_of(s.scales));
    const int8_t* a = r.a + b * kSuperCols;
    __m512i fifth = _mm512_setzero_si512();
    if constexpr (kFive) fifth = _mm512_maskz_broadcast_i64x4(0xFF, load256(block + 16));
    __m512i acc = _mm512_setzero_si512();
    for (int h = 0; h < 2; h++) {
      const __m512i qs = load512(block + (kFive ? 48 : 16) + 64 * h);
      __m512i even = low_nibbles(qs), odd = high_nibbles(qs);
      if constexpr (kFive) {
        // Bit g of a byte is the fifth bit of group g: groups 4h and 4h + 2, then 4h + 1 and 4h + 3, move to bit 4.
        const __m512i first = h == 0 ? _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1)
                                     : _mm512_inserti64x4(_mm512_set1_epi16(0), _mm256_set1_epi16(0), 1);
        const __m512i bit = _mm512_set1_epi8(16);
        const __m512i second = h == 0 ? _mm512_inserti64x4(_mm512_set1_epi16(3), _mm256_set1_epi16(1), 1) : first;
        if (h == 0) {
          even = _mm512_ternarylogic_epi32(even, _mm512_sllv_epi16(fifth, first), bit, 0xF8);
          odd = _mm512_ternarylogic_epi32(odd, _mm512_sllv_epi16(fifth, second), bit, 0xF8);
        } else {
          const __m512i down0 = _mm512_inserti64x4(_mm512_set1_epi16(0), _mm256_set1_epi16(2), 1);
          const __m512i down1 = _mm512_inserti64x4(_mm512_set1_epi16(1), _mm256_set1_epi16(3), 1);
          even = _mm512_ternarylogic_epi32(even, _mm512_srlv_epi16(fifth, down0), bit, 0xF8);
          odd = _mm512_ternarylogic_epi32(odd, _mm512_srlv_epi16(fifth, down1), bit, 0xF8);
        }
      }
      acc = add_pairs(acc, _mm512_maddubs_epi16(even, load512(a + 128 * h)), pick_words(scales, 4 * h, 4 * h + 2));
      acc = add_pairs(acc, _mm512_maddubs_epi16(odd, load512(a + 128 * h + 64)),
                      pick_words(scales, 4 * h + 1, 4 * h + 3));
    }
    const int64_t at = b * kStripRows + r.lane;
    r.parts[at] = acc;
    r.mins[at] = _mm_madd_epi16(words_of(s.mins), _mm_loadu_si128(reinterpret_cast<const __m128i*>(r.sums32 + 8 * b)));
    r.half_d[at] = u16_at(block);
    r.half_m[at] = u16_at(block + 2);
  }
}

static void fused_q6_k(const FusedRow& r) {
  const uint8_t* block = r.packed;
  const __m512i nibble = _mm512_set1_epi8(15), upper = _mm512_set1_epi8(0x3F);
  const __m512i up = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1);
  const __m512i down = _mm512_inserti64x4(_mm512_set1_epi16(0), _mm256_set1_epi16(2), 1);
  const __m512i eighths =
      _mm512_set_epi16(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  for (int64_t b = 0; b < r.n_cols / kSuperCols; b++, block += 210) {
    prefetch_block<210>(block);
    const __m256i narrow = _mm256_cvtepi8_epi16(load_codes(block + 192).v);
    const __m512i scales = _mm512_zextsi256_si512(narrow);
    const int8_t* a = r.a + b * kSuperCols;
    // The codes are 32 more than what they stand for.
    __m512i acc = _mm512_zextsi256_si512(_mm256_madd_epi16(_mm256_slli_epi16(narrow, 5), load256(r.sums16 + 16 * b)));
    acc = _mm512_sub_epi32(_mm512_setzero_si512(), acc);
    for (int h = 0; h < 2; h++) {
      const __m512i ql = load512(block + 64 * h);
      const __m512i qh = _mm512_maskz_broadcast_i64x4(0xFF, load256(block + 128 + 32 * h));
      // nibble ? first : second, then six bits
      const __m512i low = _mm512_ternarylogic_epi32(nibble, ql, _mm512_sllv_epi16(qh, up), 0xCA);
      const __m512i high =
          _mm512_ternarylogic_epi32(nibble, _mm512_srli_epi16(ql, 4), _mm512_srlv_epi16(qh, down), 0xCA);
      for (int k = 0; k < 2; k++) {
        const __m512i codes = _mm512_and_si512(k == 0 ? low : high, upper);
        const __m512i group = _mm512_add_epi16(eighths, _mm512_set1_epi16(static_cast<int16_t>(8 * h + 4 * k)));
        acc = add_pairs(acc, _mm512_maddubs_epi16(codes, load512(a + 128 * h + 64 * k)),
                        _mm512_permutexvar_epi16(group, scales));
      }
    }
    r.parts[b * kStripRows + r.lane] = acc;
    r.half_d[b * kStripRows + r.lane] = u16_at(block + 208);
  }
}

static void fused_iq4_xs(const FusedRow& r) {
  const uint8_t* block = r.packed;
  const __m512i table = bytes_table(quant::kIq4nl, kIq4Offset);
  const __m512i quarters = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  for (int64_t b = 0; b < r.n_cols / kSuperCols; b++, block += 136) {
    const uint64_t bits =
        _pdep_u64(u32_at(block + 4), 0x0F0F0F0F0F0F0F0F) | _pdep_u64(u16_at(block + 2), 0x3030303030303030);
    const __m128i words = _mm_sub_epi16(words_of(bits), _mm_set1_epi16(32));
    const __m512i scales = _mm512_zextsi256_si512(_mm256_cvtepi16_epi32(words));
    const int8_t* a = r.a + b * kSuperCols;
    const __m128i offset =
        _mm_madd_epi16(_mm_slli_epi16(words, 7), _mm_loadu_si128(reinterpret_cast<const __m128i*>(r.sums32 + 8 * b)));
    __m512i acc = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_zextsi128_si512(offset));
    for (int h = 0; h < 2; h++) {
      const __m512i qs = load512(block + 8 + 64 * h);
      __m512i products =
          add_dot4(_mm512_setzero_si512(), _mm512_shuffle_epi8(table, low_nibbles(qs)), load512(a + 128 * h));
      products = add_dot4(products, _mm512_shuffle_epi8(table, high_nibbles(qs)), load512(a + 128 * h + 64));
      const __m512i group = _mm512_add_epi32(quarters, _mm512_set1_epi32(4 * h));
      acc = _mm512_add_epi32(acc, _mm512_mullo_epi32(products, _mm512_maskz_permutexvar_epi32(0xFFFF, group, scales)));
    }
    r.parts[b * kStripRows + r.lane] = acc;
    r.half_d[b * kStripRows + r.lane] = u16_at(block);
  }
}

// Pairs of blocks of 32, then one that may be left.
static void fused_q8_0(const FusedRow& r) {
  const uint8_t* block = r.packed;
  const __m512i top = _mm512_set1_epi8(-128);
  const int64_t n = r.n_cols / 32;
  for (int64_t g = 0; g + 2 <= n; g += 2, block += 68) {
    prefetch_block<68>(block);
    const __m512i codes = _mm512_xor_si512(two_halves(block + 2, block + 36), top);
    r.parts[g / 2 * kStripRows + r.lane] = add_dot4(_mm512_setzero_si512(), codes, load512(r.a + 32 * g));
    r.half_d[g * kStripRows + r.lane] = u16_at(block);
    r.half_d[(g + 1) * kStripRows + r.lane] = u16_at(block + 34);
  }
  if (n % 2 == 0) return;
  const __m512i codes = _mm512_zextsi256_si512(_mm256_xor_si256(load256(block + 2), _mm512_castsi512_si256(top)));
  r.parts[n / 2 * kStripRows + r.lane] = add_dot4(_mm512_setzero_si512(), codes, load512(r.a + 32 * (n - 1)));
  r.half_d[(n - 1) * kStripRows + r.lane] = u16_at(block);
}

// Four blocks with nibbles of 16 bytes at a time. What a type has beside: the codes of nibbles, the fifth bits.
struct Q40 {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0, kAddend = 0;
  static __m512i codes(__m512i nibbles) { return nibbles; }
};
struct Q41 {
  static constexpr size_t kBytes = 20, kNibbles = 4, kFifth = 0, kAddend = 2;
  static __m512i codes(__m512i nibbles) { return nibbles; }
};
struct Q50 {
  static constexpr size_t kBytes = 22, kNibbles = 6, kFifth = 2, kAddend = 0;
  static __m512i codes(__m512i nibbles) { return nibbles; }
};
struct Q51 {
  static constexpr size_t kBytes = 24, kNibbles = 8, kFifth = 4, kAddend = 2;
  static __m512i codes(__m512i nibbles) { return nibbles; }
};
struct Iq4Nl {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0, kAddend = 0;
  static __m512i codes(__m512i nibbles) { return _mm512_shuffle_epi8(bytes_table(quant::kIq4nl, kIq4Offset), nibbles); }
};
struct Mxfp4 {
  static constexpr size_t kBytes = 17, kNibbles = 1, kFifth = 0, kAddend = 0;
  static __m512i codes(__m512i nibbles) { return _mm512_shuffle_epi8(bytes_table(quant::kFp4X2, kFp4Offset), nibbles); }
};

template <class Type>
static void fused_nibbles(const FusedRow& r) {
  const uint8_t* block = r.packed;
  const int64_t n = r.n_cols / 32;
  for (int64_t g = 0; g < n; g += 4) {
    const int64_t here = n - g < 4 ? n - g : 4;
    prefetch_block<4 * Type::kBytes>(block);
    // A last stretch of fewer blocks is taken from a copy with blocks of anything behind.
    uint8_t copy[4 * Type::kBytes];
    if (here < 4) {
      std::memset(copy, 0, sizeof copy);
      std::memcpy(copy, block, static_cast<size_t>(here) * Type::kBytes);
      block = copy;
    }
    const __m512i nibbles = four_quarters(block + Type::kNibbles, Type::kBytes);
    __m512i low = Type::codes(low_nibbles(nibbles)), high = Type::codes(high_nibbles(nibbles));
    if constexpr (Type::kFifth > 0) {
      const auto bits = [&](int i) {
        return uint64_t{u32_at(block + static_cast<size_t>(i) * Type::kBytes + Type::kFifth)};
      };
      const uint64_t b01 = bits(0) | bits(1) << 32, b23 = bits(2) | bits(3) << 32;
      constexpr uint64_t kLow = 0x0000FFFF0000FFFF;
      const uint64_t lows = _pext_u64(b01, kLow) | _pext_u64(b23, kLow) << 32;
      const uint64_t highs = _pext_u64(b01, ~kLow) | _pext_u64(b23, ~kLow) << 32;
      const __m512i bit = _mm512_set1_epi8(16);
      low = _mm512_mask_or_epi32(low, 0xFFFF, low, _mm512_maskz_mov_epi8(lows, bit));
      high = _mm512_mask_or_epi32(high, 0xFFFF, high, _mm512_maskz_mov_epi8(highs, bit));
    }
    __m512i acc = add_dot4(_mm512_setzero_si512(), low, load512(r.a + 32 * g));
    acc = add_dot4(acc, high, load512(r.a + 32 * g + 64));
    r.parts[g / 4 * kStripRows + r.lane] = acc;
    for (int64_t i = 0; i < here; i++) {
      const int64_t at = (g + i) * kStripRows + r.lane;
      const uint8_t* one = block + static_cast<size_t>(i) * Type::kBytes;
      if constexpr (Type::kNibbles == 1) {
        r.d[at] = half_e8m0(one[0]);
      } else {
        r.half_d[at] = u16_at(one);
      }
      if constexpr (Type::kAddend > 0) r.half_m[at] = u16_at(one + Type::kAddend);
    }
    block += 4 * Type::kBytes;
  }
}

constexpr FusedFormat kFusedFormats[] = {
    {quant::Type::Q4_K, fused_k4<false>, ActOrder::kNibbles32, PartShape::kSuper, true},
    {quant::Type::Q5_K, fused_k4<true>, ActOrder::kNibbles32, PartShape::kSuper, true},
    {quant::Type::Q6_K, fused_q6_k, ActOrder::kPlain, PartShape::kSuper, true},
    {quant::Type::IQ4_XS, fused_iq4_xs, ActOrder::kNibbles16, PartShape::kSuper, true},
    {quant::Type::Q8_0, fused_q8_0, ActOrder::kPlain, PartShape::kTwoGroups, true},
    {quant::Type::Q4_0, fused_nibbles<Q40>, ActOrder::kNibbles16, PartShape::kFourGroups, true},
    {quant::Type::Q4_1, fused_nibbles<Q41>, ActOrder::kNibbles16, PartShape::kFourGroups, true},
    {quant::Type::Q5_0, fused_nibbles<Q50>, ActOrder::kNibbles16, PartShape::kFourGroups, true},
    {quant::Type::Q5_1, fused_nibbles<Q51>, ActOrder::kNibbles16, PartShape::kFourGroups, true},
    {quant::Type::IQ4_NL, fused_nibbles<Iq4Nl>, ActOrder::kNibbles16, PartShape::kFourGroups, true},
    {quant::Type::MXFP4, fused_nibbles<Mxfp4>, ActOrder::kNibbles16, PartShape::kFourGroups, false},
};

// null for types without one.
static const FusedFormat* fused_format(quant::Type type) {
  for (const FusedFormat& format : kFusedFormats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

// Columns of a stretch, so that its parts stay in the first-level cache.
constexpr int64_t kFusedCols = 2048;

struct FusedScratch {
  alignas(64) int8_t a[kFewRows][kFusedCols + 128];
  alignas(64) int16_t sums32[kFewRows][kFusedCols / 32 + 8];
  alignas(64) __m512i parts[kFusedCols / 64 * kStripRows];
  alignas(64) __m128i mins[kFusedCols / kSuperCols * kStripRows];
  alignas(64) uint16_t half_d[kFusedCols / 32 * kStripRows];
  alignas(64) uint16_t half_m[kFusedCols / 32 * kStripRows];
  alignas(64) float d[kFusedCols / 32 * kStripRows];
  alignas(64) float m[kFusedCols / 32 * kStripRows];
};

// Puts n columns (a multiple of 64, zeros behind up to 128) in order.
static void order_activations(ActOrder order, const int8_t* from, int64_t n, int8_t* to) {
  for (int64_t i = 0; i < n; i += 128) {
    const __m512i a = load512(from + i);
    const __m512i b = i + 64 < n ? load512(from + i + 64) : _mm512_setzero_si512();
    __m512i first = a, second = b;
    if (order == ActOrder::kNibbles32) {
      first = _mm512_shuffle_i64x2(a, b, 0x44);
      second = _mm512_shuffle_i64x2(a, b, 0xEE);
    } else if (order == ActOrder::kNibbles16) {
      first = _mm512_shuffle_i64x2(a, b, 0x88);
      second = _mm512_shuffle_i64x2(a, b, 0xDD);
    }
    _mm512_storeu_si512(to + i, first);
    _mm512_storeu_si512(to + i + 64, second);
  }
}

// Partial sums of four lanes for each of 16 rows: their sums, in order of rows.
inline __m512i sum_min_parts(const __m128i* rows) {
  const auto four = [&](int k) { return load512(rows + 4 * k); };
  const __m512i x = add_halves(four(0), four(1)), y = add_halves(four(2), four(3));
  // lane l of 4: rows l, 4 + l, 8 + l, 12 + l
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return _mm512_maskz_permutexvar_epi32(0xFFFF, order, add_quads(x, y));
}

static void to_floats(const uint16_t* halves, int64_t n, float* floats) {
  for (int64_t i = 0; i < n; i += 16) {
    _mm512_storeu_ps(floats + i, _mm512_maskz_cvtph_ps(0xFFFF, load256(halves + i)));
  }
}

static __m512 finish_fused(const Q8Call& call, const FusedFormat& fused, const ActRow& a, const int16_t* sums32,
                           int64_t n_cols, FusedScratch& s, __m512 y) {
  const bool super = fused.shape == PartShape::kSuper;
  const int64_t n_scales = n_cols / (super ? kSuperCols : 32);
  const bool mins = super ? call.format.super.mins() : call.format.block.addends;
  if (fused.half_scales) to_floats(s.half_d, n_scales * kStripRows, s.d);
  if (mins) to_floats(s.half_m, n_scales * kStripRows, s.m);
  if (super) {
    for (int64_t b = 0; b < n_scales; b++) {
      const __m512 da = _mm512_set1_ps(a.d[b]);
      const __m512 scale = _mm512_mul_ps(_mm512_load_ps(s.d + b * kStripRows), da);
      y = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, sum_rows(s.parts + b * kStripRows)), scale, y);
      if (!mins) continue;
      const __m512 min_scale = _mm512_mul_ps(_mm512_load_ps(s.m + b * kStripRows), da);
      y = _mm512_fnmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, sum_min_parts(s.mins + b * kStripRows)), min_scale, y);
    }
    return y;
  }
  const int per_unit = fused.shape == PartShape::kTwoGroups ? 2 : 4;
  for (int64_t g = 0; g < n_scales; g += per_unit) {
    __m512i sums[4];
    const __m512i* rows = s.parts + g / per_unit * kStripRows;
    if (per_unit == 2) {
      sum_row_halves(rows, sums);
    } else {
      sum_row_quads(rows, sums);
    }
    for (int i = 0; i < per_unit && g + i < n_scales; i++) {
      const int64_t at = g + i;
      y = add_group(y, sums[i], call.format.block.offset, sums32[at], s.d + at * kStripRows,
                    mins ? s.m + at * kStripRows : nullptr, a.d[at]);
    }
  }
  return y;
}

// At most kFewRows activation rows. A strip is read from memory for the first of them; the others find it in the cache.
static void fused_rows(const Q8Call& call, const FusedFormat& fused, int64_t row_begin, int64_t row_end,
                       int64_t n_tokens, FusedScratch& s) {
  const bool whole = call.w.cols <= kFusedCols;
  const auto prepare = [&](int64_t t, const ActRow& a, int64_t n_cols) {
    order_activations(fused.order, a.codes, act_cols(n_cols), s.a[t]);
    for (int64_t i = 0; i < n_cols / 32; i++) s.sums32[t][i] = static_cast<int16_t>(a.sums[2 * i] + a.sums[2 * i + 1]);
  };
  if (whole) {
    for (int64_t t = 0; t < n_tokens; t++) prepare(t, call.act(t, 0), call.w.cols);
  }
  for (int64_t first = row_begin; first < row_end; first += kStripRows) {
    const int rows = static_cast<int>(row_end - first < kStripRows ? row_end - first : kStripRows);
    Vec sums[kFewRows];
    for (Vec& sum : sums) sum = Vec::zero();
    for (int64_t column = 0; column < call.w.cols; column += kFusedCols) {
      const int64_t n_cols = call.w.cols - column < kFusedCols ? call.w.cols - column : kFusedCols;
      for (int64_t t = 0; t < n_tokens; t++) {
        const ActRow a = call.act(t, column);
        if (!whole) prepare(t, a, n_cols);
        for (int r = 0; r < rows; r++) {
          fused.row({call.packed(first + r, column), n_cols, s.a[t], a.sums, s.sums32[t], r, s.parts, s.mins, s.half_d,
                     s.d, s.half_m});
        }
        sums[t].v = finish_fused(call, fused, a, s.sums32[t], n_cols, s, sums[t].v);
      }
    }
    for (int64_t t = 0; t < n_tokens; t++) store_sums(call.out, sums[t], t, first, rows);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
