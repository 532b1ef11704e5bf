// What integer products need of a weight type: its codes as unsigned bytes and the numbers that scale them.
//
// Two classes. In a super-block type 256 codes share a float scale; groups of 16 have integer scales (and mins):
//   w[i] = d * scale[g] * (code[i] - offset) - dmin * min[g].
// In a block type each group of 32 (or 16) codes has a float scale of its own (and an addend):
//   w[i] = d[g] * (code[i] - offset) + m[g].
// Codes are unpacked into first-level cache a stretch of a row at a time; the products of q8/rows.inl.h and
// q8/tiles.inl.h know no type.
#pragma once

#include "kernels/q8.h"
#include "quant/decode/all.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

constexpr int kSuperCols = 256;  // codes of a super-block
constexpr int kGroup = 16;       // codes that share an integer scale
constexpr int kSuperGroups = kSuperCols / kGroup;

// Where the unpacked numbers of consecutive super-blocks go; element b * d_stride of d and dmin is block b's.
struct SuperPanel {
  uint8_t* codes;   // [n][256]
  int16_t* scales;  // [n][16]
  int16_t* mins;    // [n][16]; not written by types without mins
  float* d;
  float* dmin;
  int64_t d_stride;
};

// The same for groups of a block type; element g * d_stride of d and m is group g's.
struct BlockPanel {
  uint8_t* codes;
  float* d;
  float* m;  // not written by types without addends
  int64_t d_stride;
};

struct SuperFormat {
  // Unpacks n super-blocks.
  void (*unpack)(const uint8_t* packed, int64_t n, const SuperPanel& out);
  int offset;
  int largest;   // code
  int min_cols;  // codes that share a min: 16, 32, or 0 where there are none
  bool mins() const { return min_cols != 0; }
  // Sums of two products with an int8 don't fit 16 bits.
  bool wide() const { return largest > 128; }
};

struct BlockFormat {
  // Unpacks n packed blocks.
  void (*unpack)(const uint8_t* packed, int64_t n, const BlockPanel& out);
  int group;  // codes that share a float scale: 16 or 32
  int offset;
  int largest;  // code
  bool addends;
  bool wide() const { return largest > 128; }
};

struct Q8Format {
  quant::Type type;
  ActFormat kind;  // the class, and what it wants activations rounded to; kNone: no integer products
  SuperFormat super;
  BlockFormat block;
};

// A super-block's unpacking as a loop over blocks: kBlock writes the 256 codes, 16 scales, 16 mins and d, dmin of one.
template <int kBytes, void (*kBlock)(const uint8_t*, const SuperPanel&)>
static void unpack_super(const uint8_t* packed, int64_t n, const SuperPanel& out) {
  SuperPanel at = out;
  for (int64_t b = 0; b < n; b++) {
    kBlock(packed, at);
    packed += kBytes;
    at.codes += kSuperCols;
    at.scales += kSuperGroups;
    at.mins += kSuperGroups;
    at.d += at.d_stride;
    at.dmin += at.d_stride;
  }
}

template <int kBytes, int kElems, int kGroupElems, void (*kBlock)(const uint8_t*, const BlockPanel&)>
static void unpack_blocks(const uint8_t* packed, int64_t n, const BlockPanel& out) {
  BlockPanel at = out;
  for (int64_t b = 0; b < n; b++) {
    kBlock(packed, at);
    packed += kBytes;
    at.codes += kElems;
    at.d += kElems / kGroupElems * at.d_stride;
    at.m += kElems / kGroupElems * at.d_stride;
  }
}

template <int kBytes, void (*kBlock)(const uint8_t*, const SuperPanel&)>
constexpr Q8Format super_format(quant::Type type, int offset, int largest, int min_cols = 0) {
  return {type, ActFormat::kSuper, {unpack_super<kBytes, kBlock>, offset, largest, min_cols}, {}};
}

template <int kBytes, int kElems, int kGroupElems, void (*kBlock)(const uint8_t*, const BlockPanel&)>
constexpr Q8Format block_format_q8(quant::Type type, int offset, int largest, bool addends = false) {
  return {type,
          ActFormat::kBlock,
          {},
          {unpack_blocks<kBytes, kElems, kGroupElems, kBlock>, kGroupElems, offset, largest, addends}};
}

#if defined(__AVX2__)
inline __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i_u*>(p)); }
inline void store256(uint8_t* to, __m256i codes) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), codes); }
#endif
inline void store_codes(uint8_t* to, Codes codes) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), codes.v); }

// Sixteen unsigned bytes (kSigned: signed) as int16.
template <bool kSigned = false>
inline void store_scales(int16_t* to, Codes bytes) {
#if defined(__AVX2__)
  const __m256i wide = kSigned ? _mm256_cvtepi8_epi16(bytes.v) : _mm256_cvtepu8_epi16(bytes.v);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), wide);
#else
  uint8_t byte[16];
  std::memcpy(byte, &bytes, sizeof byte);
  for (int i = 0; i < 16; i++) to[i] = kSigned ? static_cast<int8_t>(byte[i]) : byte[i];
#endif
}

// Eight bytes, each for two neighbouring groups.
inline Codes doubled(uint64_t bytes) {
  const __m128i x = _mm_cvtsi64_si128(static_cast<int64_t>(bytes));
  return {_mm_unpacklo_epi8(x, x)};
}
inline uint64_t low_word(Codes x) { return static_cast<uint64_t>(_mm_cvtsi128_si64(x.v)); }
inline uint64_t high_word(Codes x) { return low_word({_mm_unpackhi_epi64(x.v, x.v)}); }

// Where unsigned magnitudes get signs: offset + magnitude, or offset - magnitude where the mask is -1.
inline Codes signed_codes(Codes magnitudes, Codes negative, int offset) {
  return splat(offset) + negated(magnitudes, negative);
}

}  // namespace strata::kernels::STRATA_ISA_NS
