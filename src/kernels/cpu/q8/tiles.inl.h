// Integer products of many rows of 8-bit activations with weight rows: strips of 16 weight rows against tiles of 16
// activation rows, whose sums are formed with one lane per activation row. The results are those of q8/rows.inl.h.
//
// A super-block's codes are multiplied with their group scales first and cut into two planes of bytes,
// scale * (code - offset) = low + 256 * high with low unsigned and high signed, so that all 256 columns add up in one
// pass: isum = dot(low) + 256 * dot(high). It is the same integer.
#pragma once

#include "kernels/cpu/q8/rows.inl.h"

#if defined(__AVX512VNNI__)

namespace strata::kernels::STRATA_ISA_NS {

// Tiles that share one unpacking of a strip: their activations should stay in the second-level cache.
constexpr int64_t kTilesAtOnce = 32;
constexpr int kActRows = kTileRows;

struct TilesScratch {
  alignas(64) float y[kTilesAtOnce][kStripRows][kActRows];
  alignas(64) uint8_t low[kStripRows][kSuperCols];  // planes of a super-block, or codes of a block type
  alignas(64) uint8_t high[kStripRows][kSuperCols];
  alignas(64) uint8_t codes[kStripRows][kSuperCols];
  alignas(64) int16_t scales[kStripRows][kSuperGroups];
  alignas(64) int16_t mins[kStripRows][kSuperGroups];
  alignas(64) float d[kSuperGroups][kStripRows];  // [group][row]; super-blocks use group 0
  alignas(64) float m[kSuperGroups][kStripRows];
  alignas(64) int32_t sums[4][kStripRows][kActRows];
};

struct ActTile {
  const int8_t* codes;
  const float* d;
  const int16_t* pairs16;
  const int16_t* pairs32;
  const int32_t* totals;
  const int32_t* sums16;
  const int32_t* sums32;
};
inline ActTile act_tile(ActFormat format, int64_t cols, const uint8_t* tile) {
  const ActTileLayout at = act_tile_layout(format, cols);
  return {reinterpret_cast<const int8_t*>(tile),
          reinterpret_cast<const float*>(tile + at.d),
          reinterpret_cast<const int16_t*>(tile + at.pairs16),
          reinterpret_cast<const int16_t*>(tile + at.pairs32),
          reinterpret_cast<const int32_t*>(tile + at.totals),
          reinterpret_cast<const int32_t*>(tile + at.sums16),
          reinterpret_cast<const int32_t*>(tile + at.sums32)};
}

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

// Products of a strip's bytes [row][kSuperCols] from `first` on with `quads` x 4 columns of a tile: out[row][lane].
// kSigned: the bytes are signed, else unsigned.
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
inline void configure_tiles(int columns) {
  TileConfig config;
  for (int t = 0; t < 8; t++) {
    config.row_bytes[t] = 64;
    config.rows[t] = 16;
  }
  for (int t = 4; t < 6; t++) config.row_bytes[t] = static_cast<uint16_t>(columns);
  for (int t = 6; t < 8; t++) config.rows[t] = static_cast<uint8_t>(columns / 4);
  _tile_loadconfig(&config);
}
inline void release_tiles() { _tile_release(); }

// low and high sums of a super-block for one or two tiles, in s.sums[0..3]: low 0, high 0, low 1, high 1.
inline void super_tile_sums(TilesScratch& s, const int8_t* tile0, const int8_t* tile1) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) {
    _tile_loadd(4, s.low[0] + 64 * k, kSuperCols);
    _tile_loadd(5, s.high[0] + 64 * k, kSuperCols);
    _tile_loadd(6, tile0 + k * 16 * 64, 64);
    _tile_loadd(7, tile1 + k * 16 * 64, 64);
    _tile_dpbusd(0, 4, 6);
    _tile_dpbssd(1, 5, 6);
    _tile_dpbusd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_stored(0, s.sums[0], 64);
  _tile_stored(1, s.sums[1], 64);
  _tile_stored(2, s.sums[2], 64);
  _tile_stored(3, s.sums[3], 64);
}
// The high plane is signed as it is.
constexpr int kHighOffset = 0;

// Sums of the group of columns at `column` for one or two tiles, in s.sums[0] and [1].
inline void group_tile_sums(TilesScratch& s, int column, int, const int8_t* tile0, const int8_t* tile1) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_loadd(4, s.codes[0] + column, kSuperCols);
  _tile_loadd(6, tile0 + column * kActRows, 64);
  _tile_loadd(7, tile1 + column * kActRows, 64);
  _tile_dpbusd(0, 4, 6);
  _tile_dpbusd(1, 4, 7);
  _tile_stored(0, s.sums[0], 64);
  _tile_stored(1, s.sums[1], 64);
}

#else

inline void configure_tiles(int) {}
inline void release_tiles() {}

inline __m512i broadcast_word(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof word);
  return _mm512_set1_epi32(word);
}

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
      for (int i = 0; i < kRows; i++) acc[i] = _mm512_dpbusd_epi32(acc[i], broadcast_word(bytes[r + i] + c), x);
    }
    for (int i = 0; i < kRows; i++) _mm512_store_si512(out[r + i], acc[i]);
  }
}

// The product instruction takes unsigned weights only: the high plane is stored with 128 added.
constexpr int kHighOffset = 128;

inline void super_tile_sums(TilesScratch& s, const int8_t* tile0, const int8_t* tile1) {
  byte_sums(s.low, 0, kSuperCols, tile0, s.sums[0]);
  byte_sums(s.high, 0, kSuperCols, tile0, s.sums[1]);
  if (tile1 == tile0) return;
  byte_sums(s.low, 0, kSuperCols, tile1, s.sums[2]);
  byte_sums(s.high, 0, kSuperCols, tile1, s.sums[3]);
}

inline void group_tile_sums(TilesScratch& s, int column, int n_columns, const int8_t* tile0, const int8_t* tile1) {
  byte_sums(s.codes, column, n_columns, tile0, s.sums[0]);
  if (tile1 != tile0) byte_sums(s.codes, column, n_columns, tile1, s.sums[1]);
}

#endif

// Super-block `block` of the tile joins y.
static void add_super(const TilesScratch& s, bool mins, const ActTile& a, int64_t block, const int32_t (*low)[kActRows],
                      const int32_t (*high)[kActRows], float (*y)[kActRows]) {
  const __m512 da = _mm512_loadu_ps(a.d + block * kActRows);
  const __m512i high_offset =
      _mm512_mullo_epi32(load512(a.totals + block * kActRows), _mm512_set1_epi32(256 * kHighOffset));
  __m512i pairs[4];
  for (int p = 0; p < 4; p++) pairs[p] = load512(a.pairs32 + (block * 4 + p) * 2 * kActRows);
  for (int r = 0; r < kStripRows; r++) {
    __m512i isum = _mm512_add_epi32(_mm512_load_si512(low[r]), _mm512_slli_epi32(_mm512_load_si512(high[r]), 8));
    if (kHighOffset != 0) isum = _mm512_sub_epi32(isum, high_offset);
    __m512 sum = _mm512_load_ps(y[r]);
    sum = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, isum), _mm512_mul_ps(_mm512_set1_ps(s.d[0][r]), da), sum);
    if (mins) {
      __m512i msum = _mm512_setzero_si512();
      // Mins of two groups of 32, or of two of 16.
      for (int p = 0; p < 4; p++) {
        int32_t pair;
        std::memcpy(&pair, &s.mins[r][2 * p], sizeof pair);
        msum = _mm512_dpwssd_epi32(msum, _mm512_set1_epi32(pair), pairs[p]);
      }
      sum = _mm512_fnmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, msum), _mm512_mul_ps(_mm512_set1_ps(s.m[0][r]), da), sum);
    }
    _mm512_store_ps(y[r], sum);
  }
}

// Mins per 16 columns (Q2_K).
static void add_super_mins16(const TilesScratch& s, const ActTile& a, int64_t block, float (*y)[kActRows]) {
  const __m512 da = _mm512_loadu_ps(a.d + block * kActRows);
  for (int r = 0; r < kStripRows; r++) {
    __m512i msum = _mm512_setzero_si512();
    for (int p = 0; p < 8; p++) {
      int32_t pair;
      std::memcpy(&pair, &s.mins[r][2 * p], sizeof pair);
      msum = _mm512_dpwssd_epi32(msum, _mm512_set1_epi32(pair), load512(a.pairs16 + (block * 8 + p) * 2 * kActRows));
    }
    const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(s.m[0][r]), da);
    _mm512_store_ps(y[r], _mm512_fnmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, msum), scale, _mm512_load_ps(y[r])));
  }
}

// A group of `n` columns of the tile joins y; `group` counts from the start of the row, `lane_group` within s.
static void add_block_group(const TilesScratch& s, const BlockFormat& format, const ActTile& a, int64_t group, int at,
                            const int32_t (*sums)[kActRows], float (*y)[kActRows]) {
  const bool narrow = format.group == 16;
  const __m512i a_sum = load512((narrow ? a.sums16 : a.sums32) + group * kActRows);
  const __m512 da = _mm512_loadu_ps(a.d + (narrow ? group / 2 : group) * kActRows);
  const __m512i shift = _mm512_mullo_epi32(a_sum, _mm512_set1_epi32(format.offset));
  const __m512 a_sum_float = _mm512_maskz_cvtepi32_ps(0xFFFF, a_sum);
  for (int r = 0; r < kStripRows; r++) {
    const __m512i isum = _mm512_sub_epi32(_mm512_load_si512(sums[r]), shift);
    __m512 sum = _mm512_load_ps(y[r]);
    sum = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, isum), _mm512_mul_ps(_mm512_set1_ps(s.d[at][r]), da), sum);
    if (format.addends) sum = _mm512_fmadd_ps(a_sum_float, _mm512_mul_ps(_mm512_set1_ps(s.m[at][r]), da), sum);
    _mm512_store_ps(y[r], sum);
  }
}

struct TileRange {
  const uint8_t* tiles;
  size_t bytes;  // of a tile
  int64_t n;
  ActFormat format;
  int64_t cols;
  ActTile operator[](int64_t t) const { return act_tile(format, cols, tiles + static_cast<size_t>(t) * bytes); }
};

// Every super-block has mins per 32 columns but Q2_K's.
inline bool mins_per_16(quant::Type type) { return type == quant::Type::Q2_K; }

static void super_strip(const Q8Call& call, int64_t first, int rows, const TileRange& tiles, TilesScratch& s) {
  const SuperFormat& format = call.format.super;
  const bool mins32 = format.mins && !mins_per_16(call.w.type);
  const bool mins16 = format.mins && mins_per_16(call.w.type);
  for (int64_t b = 0; b < call.w.cols / kSuperCols; b++) {
    for (int r = 0; r < rows; r++) {
      format.unpack(call.packed(first + r, b * kSuperCols), 1,
                    {s.codes[r], s.scales[r], s.mins[r], &s.d[0][r], &s.m[0][r], kStripRows});
      make_planes(s.codes[r], s.scales[r], format.offset, s.low[r], s.high[r]);
      if (kHighOffset != 0) {
        for (int i = 0; i < kSuperCols; i += 64) {
          _mm512_store_si512(s.high[r] + i, _mm512_xor_si512(_mm512_load_si512(s.high[r] + i), _mm512_set1_epi8(-128)));
        }
      }
      if (mins32) {
        for (int g = 0; g < kSuperGroups / 2; g++) s.mins[r][g] = s.mins[r][2 * g];
      }
    }
    for (int64_t t = 0; t < tiles.n; t += 2) {
      const bool two = t + 1 < tiles.n;
      const ActTile a = tiles[t], c = tiles[two ? t + 1 : t];
      super_tile_sums(s, a.codes + b * kSuperCols * kActRows, c.codes + b * kSuperCols * kActRows);
      add_super(s, mins32, a, b, s.sums[0], s.sums[1], s.y[t]);
      if (mins16) add_super_mins16(s, a, b, s.y[t]);
      if (!two) continue;
      add_super(s, mins32, c, b, s.sums[2], s.sums[3], s.y[t + 1]);
      if (mins16) add_super_mins16(s, c, b, s.y[t + 1]);
    }
  }
}

static void block_strip(const Q8Call& call, int64_t first, int rows, const TileRange& tiles, TilesScratch& s) {
  const BlockFormat& format = call.format.block;
  for (int64_t column = 0; column < call.w.cols; column += kSuperCols) {
    const int n = static_cast<int>(call.w.cols - column < kSuperCols ? call.w.cols - column : kSuperCols);
    for (int r = 0; r < rows; r++) {
      format.unpack(call.packed(first + r, column), call.blocks(n), {s.codes[r], &s.d[0][r], &s.m[0][r], kStripRows});
    }
    for (int64_t t = 0; t < tiles.n; t += 2) {
      const bool two = t + 1 < tiles.n;
      const ActTile a = tiles[t], c = tiles[two ? t + 1 : t];
      for (int g = 0; g < n / format.group; g++) {
        group_tile_sums(s, g * format.group, format.group, a.codes + column * kActRows, c.codes + column * kActRows);
        const int64_t group = column / format.group + g;
        add_block_group(s, format, a, group, g, s.sums[0], s.y[t]);
        if (two) add_block_group(s, format, c, group, g, s.sums[1], s.y[t + 1]);
      }
    }
  }
}

// Sums [row][lane] of a strip as those of `lanes` tokens from `token` on.
static void store_strip(const float (*sums)[kActRows], int64_t first, int rows, const Q8Out& out, int64_t token,
                        int64_t lanes) {
  const __m512i index = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                           _mm512_set1_epi32(kActRows));
  const __mmask16 live = static_cast<__mmask16>((1u << rows) - 1);
  for (int64_t lane = 0; lane < lanes; lane++) {
    const __m512 column = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), live, index, &sums[0][lane], 4);
    store_sums(out, column, token + lane, first, live);
  }
}

static void tiles_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, void* scratch) {
  TilesScratch& s = *static_cast<TilesScratch*>(scratch);
  const bool super = call.format.kind == Q8Class::kSuper;
  const ActFormat act = super ? ActFormat::kSuper : ActFormat::kBlock;
  const size_t bytes = act_tile_layout(act, call.w.cols).bytes;
  const int64_t n_tiles = (n_tokens + kTileRows - 1) / kTileRows;
  configure_tiles(super ? 64 : call.format.block.group);
  for (int64_t tile = 0; tile < n_tiles; tile += kTilesAtOnce) {
    const TileRange tiles{call.x + static_cast<size_t>(tile) * bytes, bytes,
                          n_tiles - tile < kTilesAtOnce ? n_tiles - tile : kTilesAtOnce, act, call.w.cols};
    for (int64_t first = row_begin; first < row_end; first += kStripRows) {
      const int rows = static_cast<int>(row_end - first < kStripRows ? row_end - first : kStripRows);
      std::memset(s.y, 0, static_cast<size_t>(tiles.n) * sizeof s.y[0]);
      if (super) {
        super_strip(call, first, rows, tiles, s);
      } else {
        block_strip(call, first, rows, tiles, s);
      }
      for (int64_t t = 0; t < tiles.n; t++) {
        const int64_t token = (tile + t) * kTileRows;
        const int64_t lanes = n_tokens - token < kTileRows ? n_tokens - token : kTileRows;
        store_strip(s.y[t], first, rows, call.out, token, lanes);
      }
    }
  }
  release_tiles();
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
