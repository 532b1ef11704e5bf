// Integer products of many rows of 8-bit activations with weight rows: strips of 16 weight rows against tiles of 16
// activation rows, whose sums are formed with one lane per activation row. The results are those of q8/rows.inl.h.
// How the integers come about is in q8/tile_planes.inl.h and q8/tile_products.inl.h, whichever the unit has.
#pragma once

#include "kernels/cpu/q8/rows.inl.h"
#include "kernels/cpu/q8/tile_planes.inl.h"
#include "kernels/cpu/q8/tile_products.inl.h"

#if defined(__AVX2__)

namespace strata::kernels::STRATA_ISA_NS {

// Tiles that share one unpacking of a strip: their activations should stay in the second-level cache.
constexpr int64_t kTilesAtOnce = 32;

struct TilesScratch {
  alignas(64) float y[kTilesAtOnce][kStripRows][kActRows];
  Strip strip;
  TileProducts products;
};

// Super-block `block` of the tile joins y.
static void add_super(const Strip& s, bool mins, const ActTile& a, int64_t block, const SuperIsums& isums,
                      float (*y)[kActRows]) {
  const FloatLanes da = FloatLanes::load(a.d + block * kActRows);
  IntLanes pairs[4];
  for (int p = 0; p < 4; p++) pairs[p] = IntLanes::load(a.pairs32 + (block * 4 + p) * 2 * kActRows);
  for (int r = 0; r < kStripRows; r++) {
    FloatLanes sum = FloatLanes::load(y[r]);
    sum = sum.fma(FloatLanes::of(isums[r]), FloatLanes::set(s.d[0][r]) * da);
    if (mins) {
      IntLanes msum = IntLanes::zero();
      // Mins of two groups of 32.
      for (int p = 0; p < 4; p++) msum = add_dot_words(msum, broadcast(&s.mins[r][2 * p]), pairs[p]);
      sum = sum.fnma(FloatLanes::of(msum), FloatLanes::set(s.m[0][r]) * da);
    }
    sum.store(y[r]);
  }
}

// Mins per 16 columns.
static void add_super_mins16(const Strip& s, const ActTile& a, int64_t block, float (*y)[kActRows]) {
  const FloatLanes da = FloatLanes::load(a.d + block * kActRows);
  for (int r = 0; r < kStripRows; r++) {
    IntLanes msum = IntLanes::zero();
    for (int p = 0; p < 8; p++) {
      const IntLanes pair = IntLanes::load(a.pairs16 + (block * 8 + p) * 2 * kActRows);
      msum = add_dot_words(msum, broadcast(&s.mins[r][2 * p]), pair);
    }
    FloatLanes::load(y[r]).fnma(FloatLanes::of(msum), FloatLanes::set(s.m[0][r]) * da).store(y[r]);
  }
}

// A group of columns of the tile joins y; `group` counts from the start of the row, `at` within s.
static void add_block_group(const Strip& s, const BlockFormat& format, const ActTile& a, int64_t group, int at,
                            const int32_t (*sums)[kActRows], float (*y)[kActRows]) {
  const bool narrow = format.group == 16;
  const IntLanes a_sum = IntLanes::load((narrow ? a.sums16 : a.sums32) + group * kActRows);
  const FloatLanes da = FloatLanes::load(a.d + (narrow ? group / 2 : group) * kActRows);
  const IntLanes shift = a_sum * IntLanes::set(format.offset);
  const FloatLanes a_sum_float = FloatLanes::of(a_sum);
  for (int r = 0; r < kStripRows; r++) {
    const IntLanes isum = IntLanes::load(sums[r]) - shift;
    FloatLanes sum = FloatLanes::load(y[r]);
    sum = sum.fma(FloatLanes::of(isum), FloatLanes::set(s.d[at][r]) * da);
    if (format.addends) sum = sum.fma(a_sum_float, FloatLanes::set(s.m[at][r]) * da);
    sum.store(y[r]);
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

static void super_strip(const Q8Call& call, int64_t first, int rows, const TileRange& tiles, TilesScratch& scratch) {
  const SuperFormat& format = call.format.super;
  const bool mins32 = format.min_cols == 32;
  const bool mins16 = format.min_cols == 16;
  Strip& s = scratch.strip;
  for (int64_t b = 0; b < call.w.cols / kSuperCols; b++) {
    for (int r = 0; r < rows; r++) {
      format.unpack(call.packed(first + r, b * kSuperCols), 1,
                    {s.codes[r], s.scales[r], s.mins[r], &s.d[0][r], &s.m[0][r], kStripRows});
      if (mins32) {
        for (int g = 0; g < kSuperGroups / 2; g++) s.mins[r][g] = s.mins[r][2 * g];
      }
    }
    prepare_super(s, format, rows, scratch.products);
    for (int64_t t = 0; t < tiles.n; t += 2) {
      const bool two = t + 1 < tiles.n;
      const ActTile a = tiles[t], c = tiles[two ? t + 1 : t];
      super_tile_sums(s, format, a, c, b, scratch.products);
      add_super(s, mins32, a, b, super_isums(scratch.products, 0, a, b), scratch.y[t]);
      if (mins16) add_super_mins16(s, a, b, scratch.y[t]);
      if (!two) continue;
      add_super(s, mins32, c, b, super_isums(scratch.products, 1, c, b), scratch.y[t + 1]);
      if (mins16) add_super_mins16(s, c, b, scratch.y[t + 1]);
    }
  }
}

static void block_strip(const Q8Call& call, int64_t first, int rows, const TileRange& tiles, TilesScratch& scratch) {
  const BlockFormat& format = call.format.block;
  Strip& s = scratch.strip;
  TileProducts& p = scratch.products;
  for (int64_t column = 0; column < call.w.cols; column += kSuperCols) {
    const int n = static_cast<int>(call.w.cols - column < kSuperCols ? call.w.cols - column : kSuperCols);
    for (int r = 0; r < rows; r++) {
      format.unpack(call.packed(first + r, column), call.blocks(n), {s.codes[r], &s.d[0][r], &s.m[0][r], kStripRows});
    }
    prepare_blocks(s, format, rows, n, p);
    for (int64_t t = 0; t < tiles.n; t += 2) {
      const bool two = t + 1 < tiles.n;
      const ActTile a = tiles[t], c = tiles[two ? t + 1 : t];
      for (int g = 0; g < n / format.group; g++) {
        group_tile_sums(s, format, g * format.group, a.codes + column * kActRows, c.codes + column * kActRows, p);
        const int64_t group = column / format.group + g;
        add_block_group(s, format, a, group, g, p.sums[0], scratch.y[t]);
        if (two) add_block_group(s, format, c, group, g, p.sums[1], scratch.y[t + 1]);
      }
    }
  }
}

// One lane of as many rows as a vector has.
inline Vec lane_of_rows(const float (*sums)[kActRows], int64_t lane) {
#if defined(__AVX512F__)
  const __m512i index = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                           _mm512_set1_epi32(kActRows));
  return {_mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xFFFF, index, &sums[0][lane], 4)};
#else
  const __m256i index = _mm256_mullo_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32(kActRows));
  const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  return {_mm256_mask_i32gather_ps(_mm256_setzero_ps(), &sums[0][lane], index, all, 4)};
#endif
}

// Sums [row][lane] of a strip as those of `lanes` tokens from `token` on.
static void store_strip(const float (*sums)[kActRows], int64_t first, int rows, const Q8Out& out, int64_t token,
                        int64_t lanes) {
  for (int64_t lane = 0; lane < lanes; lane++) {
    for (int r = 0; r < rows; r += Vec::kLanes) {
      store_sums(out, lane_of_rows(sums + r, lane), token + lane, first + r, rows - r);
    }
  }
}

static void tiles_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, void* scratch) {
  TilesScratch& s = *static_cast<TilesScratch*>(scratch);
  const ActFormat act = call.format.kind;
  const bool super = act == ActFormat::kSuper;
  const size_t bytes = act_tile_layout(act, call.w.cols).bytes;
  const int64_t n_tiles = (n_tokens + kTileRows - 1) / kTileRows;
  begin_products(super ? 64 : call.format.block.group);
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
  end_products();
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
