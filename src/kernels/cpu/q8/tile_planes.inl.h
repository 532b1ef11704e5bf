// Integer sums of a strip with tiles where products of bytes add up in int32 (VNNI) or in tile registers (AMX).
//
// A super-block's codes are multiplied with their group scales first and cut into two planes of bytes,
// scale * (code - offset) = low + 256 * high with low unsigned and high signed, so that all 256 columns add up in one
// pass: isum = dot(low) + 256 * dot(high). It is the same integer.
#pragma once

#include "kernels/cpu/q8/tile_strip.inl.h"

#if defined(__AVX512VNNI__)

namespace strata::kernels::STRATA_ISA_NS {

struct TileProducts {
  alignas(64) uint8_t low[kStripRows][kSuperCols];
  alignas(64) uint8_t high[kStripRows][kSuperCols];
  alignas(64) int32_t sums[4][kStripRows][kActRows];
};

// Planes of one row's super-block. The bytes at even and odd places are multiplied apart, in 16-bit lanes.
inline void make_planes(const uint8_t* codes, const int16_t* scales, int offset, uint8_t* low, uint8_t* high) {
  const __m512i s = _mm512_zextsi256_si512(load256(scales));
  const __m512i shift =
      _mm512_zextsi256_si512(_mm256_mullo_epi16(load256(scales), _mm256_set1_epi16(static_cast<int16_t>(-offset))));
  const __m512i byte = _mm512_set1_epi16(0xFF);
  const __m512i eighths =
      _mm512_set_epi16(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  for (int j = 0; j < 4; j++) {
    const __m512i group = _mm512_add_epi16(eighths, _mm512_set1_epi16(static_cast<int16_t>(4 * j)));
    const __m512i scale = _mm512_permutexvar_epi16(group, s);
    const __m512i c = load512(codes + 64 * j);
    __m512i even = _mm512_mullo_epi16(_mm512_and_si512(c, byte), scale);
    __m512i odd = _mm512_mullo_epi16(_mm512_srli_epi16(c, 8), scale);
    if (offset != 0) {
      const __m512i add = _mm512_permutexvar_epi16(group, shift);
      even = _mm512_add_epi16(even, add);
      odd = _mm512_add_epi16(odd, add);
    }
    // byte ? first : second
    const __m512i l = _mm512_ternarylogic_epi32(byte, even, _mm512_slli_epi16(odd, 8), 0xCA);
    const __m512i h = _mm512_ternarylogic_epi32(byte, _mm512_srli_epi16(even, 8), odd, 0xCA);
    _mm512_store_si512(low + 64 * j, l);
    _mm512_store_si512(high + 64 * j, h);
  }
}

#if defined(__AMX_INT8__)

// Two tiles of activations at once, so that each load of the strip serves both. Tile registers: 0-3 sums, 4 and 5 the
// strip's planes, 6 and 7 activations.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
inline void begin_products(int columns) {
  TileConfig config;
  for (int t = 0; t < 8; t++) {
    config.row_bytes[t] = 64;
    config.rows[t] = 16;
  }
  for (int t = 4; t < 6; t++) config.row_bytes[t] = static_cast<uint16_t>(columns);
  for (int t = 6; t < 8; t++) config.rows[t] = static_cast<uint8_t>(columns / 4);
  _tile_loadconfig(&config);
}
inline void end_products() { _tile_release(); }

// low and high sums of a super-block for one or two tiles, in p.sums[0..3]: low 0, high 0, low 1, high 1.
inline void plane_sums(const int8_t* tile0, const int8_t* tile1, TileProducts& p) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) {
    _tile_loadd(4, p.low[0] + 64 * k, kSuperCols);
    _tile_loadd(5, p.high[0] + 64 * k, kSuperCols);
    _tile_loadd(6, tile0 + k * 16 * 64, 64);
    _tile_loadd(7, tile1 + k * 16 * 64, 64);
    _tile_dpbusd(0, 4, 6);
    _tile_dpbssd(1, 5, 6);
    _tile_dpbusd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_stored(0, p.sums[0], 64);
  _tile_stored(1, p.sums[1], 64);
  _tile_stored(2, p.sums[2], 64);
  _tile_stored(3, p.sums[3], 64);
}
// The high plane is signed as it is.
constexpr int kHighOffset = 0;

// Sums of the strip's group of columns at `column` for one or two tiles, in p.sums[0] and [1].
inline void group_tile_sums(const Strip& strip, const BlockFormat&, int column, const int8_t* tile0,
                            const int8_t* tile1, TileProducts& p) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_loadd(4, strip.codes[0] + column, kSuperCols);
  _tile_loadd(6, tile0 + column * kActRows, 64);
  _tile_loadd(7, tile1 + column * kActRows, 64);
  _tile_dpbusd(0, 4, 6);
  _tile_dpbusd(1, 4, 7);
  _tile_stored(0, p.sums[0], 64);
  _tile_stored(1, p.sums[1], 64);
}

#else

inline void begin_products(int) {}
inline void end_products() {}

// Eight rows at a time: as many sums as hide the latency of the products.
inline void byte_sums(const uint8_t (*bytes)[kSuperCols], int column, int n_columns, const int8_t* tile,
                      int32_t (*out)[kActRows]) {
  constexpr int kRows = 8;
  for (int r = 0; r < kStripRows; r += kRows) {
    __m512i acc[kRows];
    for (__m512i& a : acc) a = _mm512_setzero_si512();
    for (int c = column; c < column + n_columns; c += 4) {
      const __m512i x = load512(tile + c * kActRows);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; i++) acc[i] = _mm512_dpbusd_epi32(acc[i], broadcast(bytes[r + i] + c).v, x);
    }
    for (int i = 0; i < kRows; i++) _mm512_store_si512(out[r + i], acc[i]);
  }
}

// The product instruction takes unsigned weights only: the high plane is stored with 128 added.
constexpr int kHighOffset = 128;

inline void plane_sums(const int8_t* tile0, const int8_t* tile1, TileProducts& p) {
  byte_sums(p.low, 0, kSuperCols, tile0, p.sums[0]);
  byte_sums(p.high, 0, kSuperCols, tile0, p.sums[1]);
  if (tile1 == tile0) return;
  byte_sums(p.low, 0, kSuperCols, tile1, p.sums[2]);
  byte_sums(p.high, 0, kSuperCols, tile1, p.sums[3]);
}

inline void group_tile_sums(const Strip& strip, const BlockFormat& format, int column, const int8_t* tile0,
                            const int8_t* tile1, TileProducts& p) {
  byte_sums(strip.codes, column, format.group, tile0, p.sums[0]);
  if (tile1 != tile0) byte_sums(strip.codes, column, format.group, tile1, p.sums[1]);
}

#endif

inline void prepare_super(const Strip& strip, const SuperFormat& format, int rows, TileProducts& p) {
  for (int r = 0; r < rows; r++) {
    make_planes(strip.codes[r], strip.scales[r], format.offset, p.low[r], p.high[r]);
    if (kHighOffset == 0) continue;
    for (int i = 0; i < kSuperCols; i += 64) {
      _mm512_store_si512(p.high[r] + i, _mm512_xor_si512(_mm512_load_si512(p.high[r] + i), _mm512_set1_epi8(-128)));
    }
  }
}

inline void prepare_blocks(const Strip&, const BlockFormat&, int, int, TileProducts&) {}

// Super-block `block` of one tile or two (else both are the same).
inline void super_tile_sums(const Strip&, const SuperFormat&, const ActTile& a, const ActTile& c, int64_t block,
                            TileProducts& p) {
  plane_sums(a.codes + block * kSuperCols * kActRows, c.codes + block * kSuperCols * kActRows, p);
}

// The isums that super_tile_sums has formed for its first or second tile.
struct SuperIsums {
  const int32_t (*low)[kActRows];
  const int32_t (*high)[kActRows];
  IntLanes offset;
  IntLanes operator[](int row) const {
    const IntLanes isum = IntLanes::load(low[row]) + IntLanes::load(high[row]).shifted_left(8);
    return kHighOffset == 0 ? isum : isum - offset;
  }
};
inline SuperIsums super_isums(const TileProducts& p, int tile, const ActTile& a, int64_t block) {
  const IntLanes offset = IntLanes::load(a.totals + block * kActRows) * IntLanes::set(256 * kHighOffset);
  return {p.sums[2 * tile], p.sums[2 * tile + 1], offset};
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
