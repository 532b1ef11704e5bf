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

// What a type has beside its nibbles: where its parts lie in a block; the largest magnitude of a code less its offset;
// whether sums of activations join.
struct Q40 {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0;
  static constexpr int kMost = 8;
  static constexpr bool kAddends = false;
  static NibbleCodes codes(__m512i nibbles) { return {low_nibbles(nibbles), high_nibbles(nibbles)}; }
};
struct Q41 {
  static constexpr size_t kBytes = 20, kNibbles = 4, kFifth = 0;
  static constexpr int kMost = 15;
  static constexpr bool kAddends = true;
  static NibbleCodes codes(__m512i nibbles) { return {low_nibbles(nibbles), high_nibbles(nibbles)}; }
};
struct Q50 {
  static constexpr size_t kBytes = 22, kNibbles = 6, kFifth = 2;
  static constexpr int kMost = 16;
  static constexpr bool kAddends = false;
};
struct Q51 {
  static constexpr size_t kBytes = 24, kNibbles = 8, kFifth = 4;
  static constexpr int kMost = 31;
  static constexpr bool kAddends = true;
};
struct Iq4Nl {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0;
  static constexpr int kMost = 127;
  static constexpr bool kAddends = false;
  static NibbleCodes codes(__m512i nibbles) { return look_up_nibbles(quant::kIq4nl, kIq4Offset, nibbles); }
};
struct Mxfp4 {
  static constexpr size_t kBytes = 17, kNibbles = 1, kFifth = 0;
  static constexpr int kMost = 12;
  static constexpr bool kAddends = false;
  static NibbleCodes codes(__m512i nibbles) { return look_up_nibbles(quant::kFp4X2, kFp4Offset, nibbles); }
};

// Where bytes of a row's four blocks are found in 64.
template <class Type>
struct NibblePlaces {
  // The load begins here. Without fifth bits it has all that comes before the last block's nibbles; with them it ends
  // behind the third block's.
  static constexpr size_t kBegin = Type::kFifth == 0 ? 0 : Type::kNibbles + 2 * Type::kBytes + 16 - 64;
  // The heads have other bytes in their first and last sixteen then: the first of the four blocks, and those from
  // kLast on, which end with the last block's fifth bits.
  static constexpr size_t kLast = 3 * Type::kBytes + Type::kFifth + 4 - 16;
  static constexpr size_t in_heads(size_t byte) {
    if (Type::kFifth == 0 || byte < 16) return byte;
    return byte < 3 * Type::kBytes ? byte - kBegin : 48 + byte - kLast;
  }
  // Byte i of three blocks' nibbles.
  static constexpr size_t nibble(size_t i) { return i / 16 % 3 * Type::kBytes + Type::kNibbles + i % 16 - kBegin; }
};

// A byte for each of 64.
struct ByteIndices {
  alignas(64) int8_t at[64];
};

template <class Type>
struct FusedNibbles {
  using Places = NibblePlaces<Type>;
  static constexpr int64_t kCols = kFourGroupCols;
  static constexpr size_t kBytes = 4 * Type::kBytes;
  static constexpr ActOrder kOrder = kNibbles16Order;
  static constexpr FusedSums kSums = Type::kAddends ? FusedSums::kFloats32 : FusedSums::kLaneOffsets;

  // A row's blocks in registers.
  struct Row {
    __m512i nibbles;
    __m512i heads;  // scales and fifth bits where Places::in_heads says
  };

  static __m512i three_blocks(__m512i bytes) {
#if defined(__AVX512VBMI__)
    static constexpr ByteIndices kPlaces = [] {
      ByteIndices indices{};
      for (size_t i = 0; i < 64; i++) indices.at[i] = static_cast<int8_t>(Places::nibble(i));
      return indices;
    }();
    return _mm512_permutexvar_epi8(load512(kPlaces.at), bytes);
#else
    static constexpr WordIndices kWords = [] {
      WordIndices indices{};
      for (size_t i = 0; i < 32; i++) indices.at[i] = static_cast<int16_t>(Places::nibble(2 * i) / 2);
      return indices;
    }();
    return _mm512_permutexvar_epi16(load512(kWords.at), bytes);
#endif
  }

  static Row load_row(const uint8_t* p) {
    // Kept in a register: as an operand of several instructions it would be loaded as often, across two lines.
    __m512i bytes = load512(p + Places::kBegin);
    asm("" : "+v"(bytes));
    const uint8_t* qs = p + Type::kNibbles;
    Row row{{}, bytes};
#if !defined(__AVX512VBMI__)
    if constexpr (Type::kBytes % 2 != 0) {
      row.nibbles = four_quarters(qs, qs + Type::kBytes, qs + 2 * Type::kBytes, qs + 3 * Type::kBytes);
      return row;
    }
#endif
    row.nibbles = _mm512_inserti32x4(three_blocks(bytes), load128(qs + 3 * Type::kBytes), 3);
    if constexpr (Type::kFifth > 0) {
      row.heads = _mm512_inserti32x4(_mm512_inserti32x4(bytes, load128(p), 0), load128(p + Places::kLast), 3);
    }
    return row;
  }

#if defined(__AVX512VBMI__) && defined(__GFNI__)
  // A byte for each column of a half: bit 4 is the fifth bit of the lower nibble, bit 0 of the upper one.
  static __m512i fifth_bits(__m512i heads) {
    // A matrix for each eight columns: the bytes of fifth bits are the rows that make bits 4 and 0, and of column j
    // they take bit j.
    static constexpr ByteIndices kPlaces = [] {
      ByteIndices indices{};
      for (size_t i = 0; i < 64; i++) {
        const size_t bits = i / 16 * Type::kBytes + Type::kFifth + i / 8 % 2;
        indices.at[i] = static_cast<int8_t>(Places::in_heads(i % 8 == 7 ? bits + 2 : bits));
      }
      return indices;
    }();
    const __m512i rows = _mm512_maskz_permutexvar_epi8(0x8888888888888888, load512(kPlaces.at), heads);
    return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201)), rows, 0);
  }
  static NibbleCodes five_bit_codes(const uint8_t*, const Row& row) {
    return join_fifths(row.nibbles, fifth_bits(row.heads));
  }
#else
  static NibbleCodes five_bit_codes(const uint8_t* p, const Row& row) {
    // Words of 16 bits, a group after the other.
    const auto bits = [&](size_t g) { return uint64_t{u32_at(p + g * Type::kBytes + Type::kFifth)}; };
    const uint64_t b01 = bits(0) | bits(1) << 32, b23 = bits(2) | bits(3) << 32;
    constexpr uint64_t kLow = 0x0000FFFF0000FFFF;
    const __m512i bit = _mm512_set1_epi8(16), low = low_nibbles(row.nibbles), high = high_nibbles(row.nibbles);
    return {_mm512_mask_add_epi8(low, _pext_u64(b01, kLow) | _pext_u64(b23, kLow) << 32, low, bit),
            _mm512_mask_add_epi8(high, _pext_u64(b01, ~kLow) | _pext_u64(b23, ~kLow) << 32, high, bit)};
  }
#endif

  // The words at kOffset of each block, or those that have it where its place is odd.
  template <size_t kOffset>
  static __m256i head_words(const Row (&rows)[kFusedRows]) {
    static constexpr WordIndices kWords = [] {
      WordIndices indices{};
      for (size_t i = 0; i < 16; i++) {
        const size_t word = Places::in_heads(i / 4 * Type::kBytes + kOffset) / 2;
        indices.at[i] = static_cast<int16_t>(word_index(static_cast<int>(word)));
      }
      return indices;
    }();
    const __m512i index = load512(kWords.at);
    __m512i words = _mm512_setzero_si512();
    for_each_row([&](auto r) { words = replace_words<0x1111u << r>(words, index, rows[r].heads); });
    return _mm512_castsi512_si256(words);
  }

  // half_e8m0 of each block's first byte.
  static __m512 e8m0_scales(const Row (&rows)[kFusedRows]) {
#if defined(__AVX512VBMI__)
    static constexpr ByteIndices kPlaces = [] {
      ByteIndices indices{};
      for (size_t i = 0; i < 64; i++) indices.at[i] = static_cast<int8_t>(Places::in_heads(i / 16 * Type::kBytes));
      return indices;
    }();
    __m512i e = _mm512_setzero_si512();
    for (int r = 0; r < kFusedRows; r++) {
      e = _mm512_mask_permutexvar_epi8(e, uint64_t{0x0001000100010001} << (4 * r), load512(kPlaces.at), rows[r].heads);
    }
#else
    const __m512i shifts = _mm512_set_epi32(8, 8, 8, 8, 0, 0, 0, 0, 8, 8, 8, 8, 0, 0, 0, 0);
    const __m512i words = _mm512_maskz_cvtepu16_epi32(0xFFFF, head_words<0>(rows));
    const __m512i e = _mm512_and_si512(_mm512_srlv_epi32(words, shifts), _mm512_set1_epi32(255));
#endif
    const __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(bits, tiny, _mm512_set1_epi32(0x00200000), e));
  }

  static __m512 scales(const Row (&rows)[kFusedRows]) {
    if constexpr (Type::kBytes % 2 == 0) {
      return halves(head_words<0>(rows));
    } else {
      return e8m0_scales(rows);
    }
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    Row row[kFusedRows];
    __m512i parts[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      row[r] = load_row(rows.at[r]);
      NibbleCodes codes;
      if constexpr (Type::kFifth > 0) {
        codes = five_bit_codes(rows.at[r], row[r]);
      } else {
        codes = Type::codes(row[r].nibbles);
      }
      const __m512i offsets = Type::kAddends ? _mm512_setzero_si512() : load512(a.sums);
      parts[r] = add_dot4(add_dot4(offsets, codes.low, load512(a.codes)), codes.high, load512(a.codes + 64));
    }
    // A lane has eight products.
    const __m512i sums = add_small_rows<8 * 127 * Type::kMost>(parts);
    if constexpr (Type::kAddends) {
      return add_groups<true>(y, sums, scales(row), halves(head_words<2>(row)), act_scales32(a), a);
    } else {
      return add_groups<false>(y, sums, scales(row), _mm512_setzero_ps(), act_scales32(a), a);
    }
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
