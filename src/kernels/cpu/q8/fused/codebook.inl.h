// Codebooks in registers: entries that fit a byte are looked up 64 at a time. Used where VBMI and GFNI are granted.
//
// An entry has few values, so a byte has the codes of several positions of it: two bits each of four positions, or four
// bits each of two. What comes out are vectors of one position of 64 entries, so activations are put in that order.
#pragma once

#include "kernels/cpu/q8/fused/four_rows.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

// A codebook's entries, packed in two tables: one of the first half of the positions, one of the second. And the bit of
// a byte of signs that tells a position's.
template <size_t kEntries>
struct PackedCodebook {
  alignas(64) uint8_t half[2][kEntries];
  alignas(64) uint8_t sign[8][64];
};

// How the kBits of a position's code become its magnitude: kConstant, with kOfBit[i] exclusively or'ed for each bit i
// that is set.
struct Iq2Magnitudes {  // 8, 25, 43
  static constexpr int kBits = 2;
  static constexpr uint8_t kConstant = 8, kOfBit[kBits] = {8 ^ 25, 8 ^ 43};
};
struct Iq3XxsMagnitudes {  // 4 to 52 in steps of 8, 62
  static constexpr int kBits = 4;
  static constexpr uint8_t kConstant = 4, kOfBit[kBits] = {8, 16, 32, 2};
};
struct Iq3SMagnitudes {  // 1 to 15 in steps of 2: the last bit is free
  static constexpr int kBits = 4;
  static constexpr uint8_t kConstant = 1, kOfBit[kBits] = {2, 4, 8, 0};
};
// The same, 16 larger, and with the last bit 16 less it: 16 + m and 16 - m differ in the same bits for all of them.
struct Iq3SCodes {
  static constexpr int kBits = 4;
  static constexpr uint8_t kConstant = 17, kOfBit[kBits] = {2, 4, 8, 17 ^ 15};
};

template <class Magnitudes>
constexpr uint8_t magnitude_of(int code) {
  uint8_t m = Magnitudes::kConstant;
  for (int i = 0; i < Magnitudes::kBits; i++) m ^= (code >> i & 1) != 0 ? Magnitudes::kOfBit[i] : 0;
  return m;
}

// Word: an entry's magnitudes, a byte each. Eight signs are a byte, so it serves one entry of eight or two of four.
template <class Magnitudes, class Word, size_t kEntries>
static PackedCodebook<kEntries> pack_codebook(const Word (&codebook)[kEntries]) {
  constexpr int kCodes = 1 << Magnitudes::kBits, kPerHalf = static_cast<int>(sizeof(Word)) / 2;
  static_assert(kPerHalf * Magnitudes::kBits == 8);
  PackedCodebook<kEntries> packed{};
  for (size_t entry = 0; entry < kEntries; entry++) {
    for (int position = 0; position < 2 * kPerHalf; position++) {
      const uint8_t magnitude = static_cast<uint8_t>(codebook[entry] >> (8 * position));
      int code = 0;
      while (code < kCodes && magnitude_of<Magnitudes>(code) != magnitude) code++;
      ASSERT(code < kCodes);
      uint8_t& byte = packed.half[position / kPerHalf][entry];
      byte = static_cast<uint8_t>(byte | code << (Magnitudes::kBits * (position % kPerHalf)));
    }
  }
  for (int position = 0; position < 2 * kPerHalf; position++) {
    for (int i = 0; i < 64; i++) {
      packed.sign[position][i] = static_cast<uint8_t>(1 << (i % (4 / kPerHalf) * 2 * kPerHalf + position));
    }
  }
  return packed;
}

// Magnitudes of a position of each byte of packed codes.
template <class Magnitudes, int kPosition>
inline __m512i magnitudes(__m512i codes) {
  constexpr BitRows kRows = [] {
    BitRows rows{};
    for (int i = 0; i < 8; i++) {
      for (int bit = 0; bit < Magnitudes::kBits; bit++) {
        const int chosen = Magnitudes::kOfBit[bit] >> i & 1;
        rows.row[i] = static_cast<uint8_t>(rows.row[i] | chosen << (Magnitudes::kBits * kPosition + bit));
      }
    }
    return rows;
  }();
  return map_bits<kRows, Magnitudes::kConstant>(codes);
}

// Eight signs of the seven lower bits of each byte: the eighth is the parity of the others.
inline __m512i signs_of_sevens(__m512i bytes) { return map_bits<BitRows{{1, 2, 4, 8, 16, 32, 64, 0x7F}}>(bytes); }

// Where bytes start in the 64 bits that eight of them share.
struct Windows {
  alignas(64) uint8_t at[64];
};
template <Windows kWindows>
inline __m512i take_windows(__m512i bits) {
  alignas(64) static constexpr Windows kAt = kWindows;
  return _mm512_multishift_epi64_epi8(load512(kAt.at), bits);
}

// Whether the cores that this unit is for permute bytes out of two registers in one step. Zen 4 does (and takes 17
// cycles or more for a gather of sixteen); Intel's take three, and those of them that have AMX run another unit.
#if defined(__AMX_INT8__)
constexpr bool kWidePermutations = false;
#else
constexpr bool kWidePermutations = true;
#endif

// Indices of eight to ten bits: bytes, whose lower six or seven a permutation takes, and masks of the bits above.
struct Indices {
  __m512i low;
  __mmask64 six, seven, six_seven, eight, nine;
};
// The bits of `low`, and those of the masks.
inline Indices indices_of(__m512i low, __mmask64 eight = 0, __mmask64 nine = 0) {
  const __mmask64 six = _mm512_test_epi8_mask(low, _mm512_set1_epi8(64)), seven = _mm512_movepi8_mask(low);
  return {low, six, seven, _kand_mask64(six, seven), eight, nine};
}

// Entries of a table. A permutation out of one register reaches 64 of them; those of the next 64 take their places
// where bit six is set, and so on. Where permutations are not wide that takes fewer steps than those out of two
// registers.
template <int kEntries>
inline __m512i look_up(const uint8_t* table, const Indices& index) {
  if constexpr (kEntries == 1024) {
    return _mm512_mask_blend_epi8(index.nine, look_up<512>(table, index), look_up<512>(table + 512, index));
  } else if constexpr (kEntries == 512) {
    return _mm512_mask_blend_epi8(index.eight, look_up<256>(table, index), look_up<256>(table + 256, index));
  } else if constexpr (kWidePermutations) {
    static_assert(kEntries == 256);
    const __m512i first = _mm512_permutex2var_epi8(load512(table), index.low, load512(table + 64));
    const __m512i second = _mm512_permutex2var_epi8(load512(table + 128), index.low, load512(table + 192));
    return _mm512_mask_blend_epi8(index.seven, first, second);
  } else {
    static_assert(kEntries == 256);
    __m512i found = _mm512_permutexvar_epi8(index.low, load512(table));
    found = _mm512_mask_permutexvar_epi8(found, index.six, index.low, load512(table + 64));
    found = _mm512_mask_permutexvar_epi8(found, index.seven, index.low, load512(table + 128));
    return _mm512_mask_permutexvar_epi8(found, index.six_seven, index.low, load512(table + 192));
  }
}

// a, negative where the mask says.
inline __m512i with_signs(__m512i a, __mmask64 negative) {
  return _mm512_mask_sub_epi8(a, negative, _mm512_setzero_si512(), a);
}

// Scales 2 * s + 1 of s in bits 28 to 31.
inline __m512i top_scales(__m512i words) { return _mm512_or_si512(_mm512_srli_epi32(words, 27), _mm512_set1_epi32(1)); }

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
