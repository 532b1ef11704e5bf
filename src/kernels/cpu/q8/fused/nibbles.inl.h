// Fused products of the types with a float scale per 32 codes and nibbles of 16 bytes, four groups of 32 columns at a
// time; the layouts are described beside their decoders in quant/decode: blocks32, iq4 and fp4.
//
// What counts is operations, not bytes: two threads get as much out of memory as a core can unpack. So each row's four
// blocks are one load of 64 bytes; a permutation puts three blocks' nibbles where they belong, the fourth's are put
// beside them from memory, and scales and fifth bits come out of the same register.
#pragma once

#include "kernels/cpu/q8/fused/blocks.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

enum class NibbleScale : uint8_t { kF16, kE8M0 };

// What a type has beside its nibbles: where its parts lie in a block; the largest magnitude of a code less its offset;
// whether sums of activations join.
struct Q40 {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0;
  static constexpr int kMost = 8;
  static constexpr bool kAddends = false;
  static constexpr NibbleScale kScale = NibbleScale::kF16;
  static NibbleCodes codes(__m512i nibbles) { return {low_nibbles(nibbles), high_nibbles(nibbles)}; }
};
struct Q41 {
  static constexpr size_t kBytes = 20, kNibbles = 4, kFifth = 0;
  static constexpr int kMost = 15;
  static constexpr bool kAddends = true;
  static constexpr NibbleScale kScale = NibbleScale::kF16;
  static NibbleCodes codes(__m512i nibbles) { return {low_nibbles(nibbles), high_nibbles(nibbles)}; }
};
struct Q50 {
  static constexpr size_t kBytes = 22, kNibbles = 6, kFifth = 2;
  static constexpr int kMost = 16;
  static constexpr bool kAddends = false;
  static constexpr NibbleScale kScale = NibbleScale::kF16;
};
struct Q51 {
  static constexpr size_t kBytes = 24, kNibbles = 8, kFifth = 4;
  static constexpr int kMost = 31;
  static constexpr bool kAddends = true;
  static constexpr NibbleScale kScale = NibbleScale::kF16;
};
struct Iq4Nl {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0;
  static constexpr int kMost = 127;
  static constexpr bool kAddends = false;
  static constexpr NibbleScale kScale = NibbleScale::kF16;
  static NibbleCodes codes(__m512i nibbles) { return look_up_nibbles(quant::kIq4nl, kIq4Offset, nibbles); }
};
struct Mxfp4 {
  static constexpr size_t kBytes = 17, kNibbles = 1, kFifth = 0;
  static constexpr int kMost = 12;
  static constexpr bool kAddends = false;
  static constexpr NibbleScale kScale = NibbleScale::kE8M0;
  static NibbleCodes codes(__m512i nibbles) { return look_up_nibbles(quant::kFp4X2, kFp4Offset, nibbles); }
};

#if defined(__AVX512VBMI__) && defined(__GFNI__)

// A byte for each of 64.
struct ByteIndices {
  alignas(64) int8_t at[64];
};

// Four blocks of a row: one load of 64 bytes and what is put beside it.
template <class Type>
struct NibbleRow {
  __m512i nibbles;  // sixteen bytes of each block
  __m512i heads;    // scales and fifth bits, where in_heads says

  // The load begins here. Without fifth bits it has all that comes before the last block's nibbles; with them it ends
  // behind the third block's.
  static constexpr size_t kBegin = Type::kFifth == 0 ? 0 : Type::kNibbles + 2 * Type::kBytes + 16 - 64;
  // With fifth bits the heads have other bytes in their first and last sixteen: the first of the four blocks, and those
  // from kLast on, which end with the last block's fifth bits.
  static constexpr size_t kLast = 3 * Type::kBytes + Type::kFifth + 4 - 16;
  static constexpr size_t in_heads(size_t byte) {
    if (Type::kFifth == 0 || byte < 16) return byte;
    return byte < 3 * Type::kBytes ? byte - kBegin : 48 + byte - kLast;
  }

  [[gnu::always_inline]] static NibbleRow at(const uint8_t* p) {
    static constexpr ByteIndices kThreeBlocks = [] {
      ByteIndices indices{};
      for (size_t i = 0; i < 64; i++) {
        indices.at[i] = static_cast<int8_t>(i / 16 % 3 * Type::kBytes + Type::kNibbles + i % 16 - kBegin);
      }
      return indices;
    }();
    // Kept in a register: as an operand of several instructions it would be loaded as often, across two lines.
    __m512i bytes = load512(p + kBegin);
    asm("" : "+v"(bytes));
    const __m512i three = _mm512_permutexvar_epi8(load512(kThreeBlocks.at), bytes);
    const uint8_t* fourth = p + 3 * Type::kBytes + Type::kNibbles;
    if constexpr (Type::kFifth > 0) {
      bytes = _mm512_inserti32x4(_mm512_inserti32x4(bytes, load128(p), 0), load128(p + kLast), 3);
    }
    return {_mm512_inserti32x4(three, load128(fourth), 3), bytes};
  }

  [[gnu::always_inline]] NibbleCodes five_bit_codes() const {
    // A matrix for each eight columns: the bytes of fifth bits are the rows that make bit 4, of the lower nibble's
    // column, and bit 0, of the upper one's; of column j they take bit j.
    static constexpr ByteIndices kRows = [] {
      ByteIndices indices{};
      for (size_t i = 0; i < 64; i++) {
        const size_t bits = i / 16 * Type::kBytes + Type::kFifth + i / 8 % 2;
        indices.at[i] = static_cast<int8_t>(in_heads(i % 8 == 7 ? bits + 2 : bits));
      }
      return indices;
    }();
    const __m512i rows = _mm512_maskz_permutexvar_epi8(0x8888888888888888, load512(kRows.at), heads);
    const __m512i columns = _mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201));
    return join_fifths(nibbles, _mm512_gf2p8affine_epi64_epi8(columns, rows, 0));
  }
};

// The words at kOffset of each block.
template <size_t kOffset, class Type>
inline __m256i head_words(const FourRows&, const NibbleRow<Type> (&rows)[kFusedRows]) {
  static constexpr WordIndices kWords = [] {
    WordIndices indices{};
    for (size_t i = 0; i < 16; i++) {
      const size_t word = NibbleRow<Type>::in_heads(i / 4 * Type::kBytes + kOffset) / 2;
      indices.at[i] = static_cast<int16_t>(word_index(static_cast<int>(word)));
    }
    return indices;
  }();
  const __m512i index = load512(kWords.at);
  __m512i words = _mm512_setzero_si512();
  for_each_row([&](auto r) { words = replace_words<0x1111u << r>(words, index, rows[r].heads); });
  return _mm512_castsi512_si256(words);
}

// The first byte of each block.
template <class Type>
inline __m512i first_bytes(const FourRows&, const NibbleRow<Type> (&rows)[kFusedRows]) {
  static constexpr ByteIndices kBlocks = [] {
    ByteIndices indices{};
    for (size_t i = 0; i < 64; i++) indices.at[i] = static_cast<int8_t>(i / 16 * Type::kBytes);
    return indices;
  }();
  const __m512i index = load512(kBlocks.at);
  __m512i bytes = _mm512_setzero_si512();
  for_each_row([&](auto r) {
    bytes = _mm512_mask_permutexvar_epi8(bytes, uint64_t{0x0001000100010001} << (4 * r), index, rows[r].heads);
  });
  return bytes;
}

#else

// The same, piece by piece.
template <class Type>
struct NibbleRow {
  const uint8_t* blocks;
  __m512i nibbles;

  [[gnu::always_inline]] static NibbleRow at(const uint8_t* p) {
    const uint8_t* qs = p + Type::kNibbles;
    return {p, four_quarters(qs, qs + Type::kBytes, qs + 2 * Type::kBytes, qs + 3 * Type::kBytes)};
  }

  [[gnu::always_inline]] NibbleCodes five_bit_codes() const {
    // Words of 16 bits, a group after the other.
    const auto bits = [&](size_t g) { return uint64_t{u32_at(blocks + g * Type::kBytes + Type::kFifth)}; };
    const uint64_t b01 = bits(0) | bits(1) << 32, b23 = bits(2) | bits(3) << 32;
    constexpr uint64_t kLow = 0x0000FFFF0000FFFF;
    const __m512i bit = _mm512_set1_epi8(16), low = low_nibbles(nibbles), high = high_nibbles(nibbles);
    return {_mm512_mask_add_epi8(low, _pext_u64(b01, kLow) | _pext_u64(b23, kLow) << 32, low, bit),
            _mm512_mask_add_epi8(high, _pext_u64(b01, ~kLow) | _pext_u64(b23, ~kLow) << 32, high, bit)};
  }
};

template <size_t kOffset, class Type>
inline __m256i head_words(const FourRows& rows, const NibbleRow<Type> (&)[kFusedRows]) {
  return group_words<Type::kBytes, kOffset>(rows);
}

template <class Type>
inline __m512i first_bytes(const FourRows& rows, const NibbleRow<Type> (&)[kFusedRows]) {
  // Of the second and the fourth block it is the upper half of the word that has it.
  static_assert(Type::kBytes % 2 != 0);
  const __m512i words = _mm512_maskz_cvtepu16_epi32(0xFFFF, group_words<Type::kBytes>(rows));
  const __m512i shifts = _mm512_set_epi32(8, 8, 8, 8, 0, 0, 0, 0, 8, 8, 8, 8, 0, 0, 0, 0);
  return _mm512_and_si512(_mm512_srlv_epi32(words, shifts), _mm512_set1_epi32(255));
}

#endif

// half_e8m0 of each lane.
inline __m512 e8m0_scales(__m512i e) {
  const __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
  return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(bits, tiny, _mm512_set1_epi32(0x00200000), e));
}

template <class Type>
struct FusedNibbles {
  static constexpr int64_t kCols = kFourGroupCols;
  static constexpr size_t kBytes = 4 * Type::kBytes;
  static constexpr ActOrder kOrder = kNibbles16Order;
  static constexpr FusedSums kSums = Type::kAddends ? FusedSums::kFloats32 : FusedSums::kLaneOffsets;
  using Rows = NibbleRow<Type>[kFusedRows];

  [[gnu::always_inline]] static __m512i part(const NibbleRow<Type>& row, const FusedAct& a) {
    NibbleCodes codes;
    if constexpr (Type::kFifth > 0) {
      codes = row.five_bit_codes();
    } else {
      codes = Type::codes(row.nibbles);
    }
    const __m512i offsets = Type::kAddends ? _mm512_setzero_si512() : load512(a.sums);
    return add_dot4(add_dot4(offsets, codes.low, load512(a.codes)), codes.high, load512(a.codes + 64));
  }

  [[gnu::always_inline]] static __m512 scales(const FourRows& from, const Rows& rows) {
    if constexpr (Type::kScale == NibbleScale::kE8M0) {
      return e8m0_scales(first_bytes(from, rows));
    } else {
      return halves(head_words<0>(from, rows));
    }
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& from, const FusedAct& a, __m128 y) {
    Rows rows;
    __m512i parts[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      rows[r] = NibbleRow<Type>::at(from.at[r]);
      parts[r] = part(rows[r], a);
    }
    // A lane has eight products.
    const __m512i sums = add_small_rows<8 * 127 * Type::kMost>(parts);
    __m512 m = _mm512_setzero_ps();
    if constexpr (Type::kAddends) m = halves(head_words<2>(from, rows));
    return add_groups<Type::kAddends>(y, sums, scales(from, rows), m, act_scales32(a), a);
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
