// Integer sums of a strip with tiles where there is no instruction for products of bytes into int32.
//
// Products of unsigned codes with activations are added up by pairs in int16, and as many of these as their size allows
// are added up there too before a multiplication with the group's scale widens them. Codes above 128 don't allow one
// pair: their products are formed from int16, with scales multiplied in beforehand.
#pragma once

#include "kernels/cpu/q8/tile_strip.inl.h"

#if defined(__AVX2__) && !defined(__AVX512VNNI__)

namespace strata::kernels::STRATA_ISA_NS {

struct TileProducts {
  // Codes above 128 as int16, of each 4 columns the even two and the odd two; in super-blocks (code - offset) * scale.
  alignas(64) int16_t words[kStripRows][kSuperCols];
  alignas(64) int16_t act_words[kSuperCols][kActRows];      // activations: [columns / 4][even, odd][row][2]
  alignas(64) int16_t scales[kStripRows][kSuperGroups][2];  // each twice
  alignas(64) int16_t shifts[kStripRows][kSuperGroups];     // -offset * scale
  alignas(64) int32_t sums[2][kStripRows][kActRows];
};

inline void begin_products(int) {}
inline void end_products() {}

// Pairs of products with codes up to `largest` that can be added up in int16, up to a group of 16 columns: 1, 2 or 4,
// or 0.
constexpr int pairs_in_word(int largest) {
  constexpr int kLargestPair = 2 * 127;
  if (4 * largest * kLargestPair <= INT16_MAX) return 4;
  if (2 * largest * kLargestPair <= INT16_MAX) return 2;
  return largest * kLargestPair <= INT16_MAX ? 1 : 0;
}

// Products of 16 columns times a scale, kPairs of them added up before.
template <int kPairs>
inline IntLanes group_products(const uint8_t* codes, const IntLanes (&a)[4], IntLanes scale) {
  const IntLanes p0 = dot_bytes(broadcast(codes), a[0]), p1 = dot_bytes(broadcast(codes + 4), a[1]);
  const IntLanes p2 = dot_bytes(broadcast(codes + 8), a[2]), p3 = dot_bytes(broadcast(codes + 12), a[3]);
  if constexpr (kPairs == 4) return dot_words(p0.add_words(p1).add_words(p2.add_words(p3)), scale);
  if constexpr (kPairs == 2) return dot_words(p0.add_words(p1), scale) + dot_words(p2.add_words(p3), scale);
  return (dot_words(p0, scale) + dot_words(p1, scale)) + (dot_words(p2, scale) + dot_words(p3, scale));
}

// Sixteen columns of every row join the sums; the activations stay in registers meanwhile.
template <int kPairs, class ScaleOfRow>
inline void add_group_products(const uint8_t (*codes)[kSuperCols], int column, const int8_t* tile,
                               ScaleOfRow scale_of_row, int32_t (*sums)[kActRows]) {
  IntLanes a[4];
  for (int k = 0; k < 4; k++) a[k] = IntLanes::load(tile + (column + 4 * k) * kActRows);
  for (int r = 0; r < kStripRows; r++) {
    const IntLanes products = group_products<kPairs>(codes[r] + column, a, scale_of_row(r));
    (IntLanes::load(sums[r]) + products).store(sums[r]);
  }
}

template <int kPairs>
static void super_byte_sums(const Strip& strip, TileProducts& p, const int8_t* tile, int32_t (*sums)[kActRows]) {
  for (int g = 0; g < kSuperGroups; g++) {
    const auto scale = [&](int r) { return broadcast(p.scales[r][g]); };
    add_group_products<kPairs>(strip.codes, g * kGroup, tile, scale, sums);
  }
}

template <int kPairs>
static void block_byte_sums(const Strip& strip, int column, int n_columns, const int8_t* tile,
                            int32_t (*sums)[kActRows]) {
  const IntLanes one = IntLanes::set(0x00010001);
  for (int c = column; c < column + n_columns; c += kGroup) {
    add_group_products<kPairs>(
        strip.codes, c, tile, [&](int) { return one; }, sums);
  }
}

// Sums of the products of `n_columns` of p.words.
static void word_sums(TileProducts& p, int column, int n_columns, const int8_t* tile, int32_t (*sums)[kActRows]) {
  for (int c = column; c < column + n_columns; c += 4) {
    const IntLanes a = IntLanes::load(tile + c * kActRows);
    a.even_bytes().store(p.act_words[c]);
    a.odd_bytes().store(p.act_words[c + 2]);
  }
  constexpr int kRows = 4;
  for (int r = 0; r < kStripRows; r += kRows) {
    IntLanes acc[kRows] = {IntLanes::zero(), IntLanes::zero(), IntLanes::zero(), IntLanes::zero()};
    for (int c = column; c < column + n_columns; c += 2) {
      const IntLanes a = IntLanes::load(p.act_words[c]);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; i++) acc[i] = add_dot_words(acc[i], broadcast(p.words[r + i] + c), a);
    }
    for (int i = 0; i < kRows; i++) acc[i].store(sums[r + i]);
  }
}

// Thirty-two codes as p.words has them.
inline void store_words(const uint8_t* codes, int16_t* to, __m256i offset, __m256i scale) {
  const __m256i c = load256(codes);
  const __m256i even = _mm256_and_si256(c, _mm256_set1_epi16(0xFF)), odd = _mm256_srli_epi16(c, 8);
  const auto scaled = [&](__m256i x) { return _mm256_mullo_epi16(_mm256_sub_epi16(x, offset), scale); };
  const __m256i e = scaled(even), o = scaled(odd);
  // Within halves of 128 bits: words 0 and 1, 2 and 3 of e and o in turn.
  const __m256i first = _mm256_unpacklo_epi32(e, o), second = _mm256_unpackhi_epi32(e, o);
  auto* at = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(at, _mm256_permute2x128_si256(first, second, 0x20));
  _mm256_storeu_si256(at + 1, _mm256_permute2x128_si256(first, second, 0x31));
}

inline void prepare_super(const Strip& strip, const SuperFormat& format, int rows, TileProducts& p) {
  const __m256i offset = _mm256_set1_epi16(static_cast<int16_t>(format.offset));
  for (int r = 0; r < rows; r++) {
    const int16_t* scales = strip.scales[r];
    if (pairs_in_word(format.largest) == 0) {
      for (int g = 0; g < kSuperGroups; g += 2) {
        const __m256i two = _mm256_set_m128i(_mm_set1_epi16(scales[g + 1]), _mm_set1_epi16(scales[g]));
        store_words(strip.codes[r] + kGroup * g, p.words[r] + kGroup * g, offset, two);
      }
      continue;
    }
    for (int g = 0; g < kSuperGroups; g++) {
      p.scales[r][g][0] = p.scales[r][g][1] = scales[g];
      p.shifts[r][g] = static_cast<int16_t>(-format.offset * scales[g]);
    }
  }
}

inline void prepare_blocks(const Strip& strip, const BlockFormat& format, int rows, int n_columns, TileProducts& p) {
  if (pairs_in_word(format.largest) != 0) return;
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < n_columns; c += 32) {
      store_words(strip.codes[r] + c, p.words[r] + c, _mm256_setzero_si256(), _mm256_set1_epi16(1));
    }
  }
}

// What the offset of all codes takes away: the sums begin with it.
static void begin_with_shifts(const TileProducts& p, const ActTile& a, int64_t block, int32_t (*sums)[kActRows]) {
  IntLanes pairs[kSuperGroups / 2];
  for (int i = 0; i < kSuperGroups / 2; i++) {
    pairs[i] = IntLanes::load(a.pairs16 + (block * kSuperGroups / 2 + i) * 2 * kActRows);
  }
  for (int r = 0; r < kStripRows; r++) {
    IntLanes acc = IntLanes::zero();
    for (int i = 0; i < kSuperGroups / 2; i++) acc = add_dot_words(acc, broadcast(p.shifts[r] + 2 * i), pairs[i]);
    acc.store(sums[r]);
  }
}

static void super_sums_of(const Strip& strip, const SuperFormat& format, const ActTile& a, int64_t block,
                          TileProducts& p, int32_t (*sums)[kActRows]) {
  const int8_t* tile = a.codes + block * kSuperCols * kActRows;
  const int pairs = pairs_in_word(format.largest);
  if (pairs == 0) return word_sums(p, 0, kSuperCols, tile, sums);
  if (format.offset != 0) {
    begin_with_shifts(p, a, block, sums);
  } else {
    std::memset(sums, 0, sizeof p.sums[0]);
  }
  if (pairs == 4) return super_byte_sums<4>(strip, p, tile, sums);
  if (pairs == 2) return super_byte_sums<2>(strip, p, tile, sums);
  super_byte_sums<1>(strip, p, tile, sums);
}

// Super-block `block` of one tile or two (else both are the same).
inline void super_tile_sums(const Strip& strip, const SuperFormat& format, const ActTile& a, const ActTile& c,
                            int64_t block, TileProducts& p) {
  super_sums_of(strip, format, a, block, p, p.sums[0]);
  if (a.codes != c.codes) super_sums_of(strip, format, c, block, p, p.sums[1]);
}

// The isums that super_tile_sums has formed for its first or second tile.
struct SuperIsums {
  const int32_t (*sums)[kActRows];
  IntLanes operator[](int row) const { return IntLanes::load(sums[row]); }
};
inline SuperIsums super_isums(const TileProducts& p, int tile, const ActTile&, int64_t) { return {p.sums[tile]}; }

static void block_sums_of(const Strip& strip, const BlockFormat& format, int column, const int8_t* tile,
                          TileProducts& p, int32_t (*sums)[kActRows]) {
  const int pairs = pairs_in_word(format.largest);
  if (pairs == 0) return word_sums(p, column, format.group, tile, sums);
  std::memset(sums, 0, sizeof p.sums[0]);
  if (pairs == 4) return block_byte_sums<4>(strip, column, format.group, tile, sums);
  if (pairs == 2) return block_byte_sums<2>(strip, column, format.group, tile, sums);
  block_byte_sums<1>(strip, column, format.group, tile, sums);
}

// Sums of the strip's group of columns at `column` for one or two tiles, in p.sums[0] and [1].
inline void group_tile_sums(const Strip& strip, const BlockFormat& format, int column, const int8_t* tile0,
                            const int8_t* tile1, TileProducts& p) {
  block_sums_of(strip, format, column, tile0, p, p.sums[0]);
  if (tile0 != tile1) block_sums_of(strip, format, column, tile1, p, p.sums[1]);
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
