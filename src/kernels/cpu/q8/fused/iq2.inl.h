// Fused products of IQ2_XXS and IQ2_XS; the layouts are described beside their decoders in quant/decode/iq2.inl.h. The
// other types of about two bits are in fused/gathered.inl.h.
//
// A super-block has 32 runs of 8, so the runs of two rows make a vector, a byte each. Two look-ups find the magnitudes
// of four positions of each run. A byte's six lower bits then tell the magnitudes and signs of two positions, and a
// permutation makes what a position is multiplied with out of them: so signs take no step of their own.
#pragma once

#include "kernels/cpu/q8/fused/codebook.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

// Codes, kIq2Offset larger than what they stand for, by two bits of each of two magnitudes and their signs: signs come
// last for positions 0 and 1 of each four, first for positions 2 and 3.
struct SignedCodes {
  alignas(64) uint8_t position[4][64];
};
constexpr SignedCodes signed_codes_by_bits() {
  SignedCodes codes{};
  const auto code = [](int magnitude, int sign) {
    const int m = magnitude_of<Iq2Magnitudes>(magnitude & 3);
    return static_cast<uint8_t>((sign & 1) != 0 ? kIq2Offset - m : kIq2Offset + m);
  };
  for (int i = 0; i < 64; i++) {
    codes.position[0][i] = code(i, i >> 4);
    codes.position[1][i] = code(i >> 2, i >> 5);
    codes.position[2][i] = code(i >> 2, i);
    codes.position[3][i] = code(i >> 4, i >> 1);
  }
  return codes;
}

// Calls f with the codes of positions 0 to 3 of each run. magnitudes: two bits of each position; signs: of
// position_signs.
template <class F>
inline void for_each_position(__m512i magnitudes, __m512i signs, F f) {
  static constexpr SignedCodes kCodes = signed_codes_by_bits();
  const __m512i lower = _mm512_set1_epi8(15);
  const __m512i front = _mm512_ternarylogic_epi32(magnitudes, signs, lower, 0xE4);  // lower ? magnitudes : signs
  const __m512i back = _mm512_srli_epi16(_mm512_ternarylogic_epi32(magnitudes, signs, lower, 0xD8), 2);
  f(0, _mm512_permutexvar_epi8(front, load512(kCodes.position[0])));
  f(1, _mm512_permutexvar_epi8(front, load512(kCodes.position[1])));
  f(2, _mm512_permutexvar_epi8(back, load512(kCodes.position[2])));
  f(3, _mm512_permutexvar_epi8(back, load512(kCodes.position[3])));
}

// Of bytes with seven signs from bit kFirst on, the eighth being their parity, those of positions 4 * kHalf to
// 4 * kHalf + 3: of the first two as bits 4 and 5, of the others as bits 2 and 3.
template <int kFirst, int kHalf>
inline __m512i position_signs(__m512i bytes) {
  constexpr auto kChosen = [](int position) {
    return static_cast<uint8_t>((position < 7 ? 1 << position : 0x7F) << kFirst);
  };
  constexpr int p = 4 * kHalf;
  return map_bits<BitRows{{0, 0, kChosen(p + 2), kChosen(p + 3), kChosen(p), kChosen(p + 1)}}>(bytes);
}

// y + isums * d / 8 of four rows.
inline __m128 add_eighths(const FourRows& rows, const FusedAct& a, __m128i isums, __m128 y) {
  const __m128 d = _mm_mul_ps(four_f16(rows, 0), _mm_set1_ps(0.125f));
  return add_scaled(y, isums, _mm_mul_ps(d, _mm_set1_ps(*a.d)));
}

// A group has four runs and a scale. Lanes 2 * g and 2 * g + 1 are of group g, of the one row and of the other.
struct FusedIq2Xxs {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 66;
  static constexpr ActOrder kOrder = kTwinRunsOrder;
  static constexpr FusedSums kSums = FusedSums::kTwinOffsets32;

  static const PackedCodebook<256>& make_codebook() {
    static const PackedCodebook<256> kPacked = pack_codebook<Iq2Magnitudes>(quant::kIq2Xxs);
    return kPacked;
  }

  struct Pair {
    Indices index;
    __m512i sevens, scales, sums;
  };
  static Pair pair(const uint8_t* first, const uint8_t* second, __m512i offsets) {
    // Of each group four indices, then a word of four times seven signs and the scale. Those of the second row, in
    // turned pairs of lanes, take the place of the first row's words for indices, of its indices for words.
    constexpr __mmask16 kEven = 0x5555, kOdd = 0xAAAA;
    const __m512i groups = load512(first + 2), turned = _mm512_rol_epi64(load512(second + 2), 32);
    const __m512i words = _mm512_mask_mov_epi32(groups, kEven, turned);
    const __m512i sevens = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x150E'0700'352E'2720), words);
    // 2 * s + 1 of s in bits 28 to 31 of the other lane.
    const __m512i scales =
        _mm512_ternarylogic_epi32(_mm512_rol_epi64(words, 5), _mm512_set1_epi32(0x1E), _mm512_set1_epi32(1), 0xEA);
    return {indices_of(_mm512_mask_mov_epi32(groups, kOdd, turned)), sevens, scales, offsets};
  }

  template <int kHalf>
  static void add_half(Pair& pair, __m512i magnitudes, const int8_t* a) {
    for_each_position(magnitudes, position_signs<0, kHalf>(pair.sevens), [&](int position, __m512i codes) {
      pair.sums = add_dot4(pair.sums, codes, load512(a + 256 * kHalf + 64 * position));
    });
  }
  // The pairs in turns: they wait for each other less than the steps of one do.
  template <int kHalf>
  static void add_halves_of(Pair& even, Pair& odd, const FusedAct& a) {
    const uint8_t* table = static_cast<const PackedCodebook<256>*>(a.codebook)->half[kHalf];
    const __m512i even_found = look_up<256>(table, even.index), odd_found = look_up<256>(table, odd.index);
    add_half<kHalf>(even, even_found, a.codes);
    add_half<kHalf>(odd, odd_found, a.codes);
  }
  static __m512i scaled(const Pair& pair) { return _mm512_mullo_epi32(pair.sums, pair.scales); }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    Pair even = pair(rows.at[0], rows.at[2], load512(a.sums)), odd = pair(rows.at[1], rows.at[3], load512(a.sums));
    add_halves_of<0>(even, odd, a);
    add_halves_of<1>(even, odd, a);
    return add_eighths(rows, a, add_lanes(add_halves(scaled(even), scaled(odd))), y);
  }
};

// Lanes 0 to 7 of each of two pairs of rows are the first row's, the others the second's.
inline __m128i add_pair_lanes(__m512i first, __m512i second) {
  __m512i x = add_halves(first, second);  // first, second, first, second
  x = _mm512_add_epi32(x, _mm512_shuffle_epi32(x, _MM_PERM_BADC));
  x = _mm512_add_epi32(x, _mm512_shuffle_i32x4(x, x, 0xB1));
  const __m512i order = _mm512_castsi128_si512(_mm_setr_epi32(0, 8, 1, 9));
  return _mm512_castsi512_si128(_mm512_maskz_permutexvar_epi32(0xFFFF, order, x));
}

// Two runs share a scale: the bytes of a word. Byte r is of run r of the first row, byte 32 + r of the second.
struct FusedIq2Xs {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = 74;
  static constexpr ActOrder kOrder = kRunsOrder;
  static constexpr FusedSums kSums = FusedSums::kNegated16;

  static const PackedCodebook<512>& make_codebook() {
    static const PackedCodebook<512> kPacked = pack_codebook<Iq2Magnitudes>(quant::kIq2Xs);
    return kPacked;
  }

  // Words 2 * s + 1 of the nibbles s of eight bytes of each row.
  static __m512i nibble_scales(const uint8_t* first, const uint8_t* second) {
    constexpr Windows kTwice = [] {
      Windows w{};
      for (int i = 0; i < 32; i++) w.at[2 * i] = static_cast<uint8_t>((4 * (i % 16) + 63) & 63);
      return w;
    }();
    const __m512i nibbles = _mm512_mask_set1_epi64(_mm512_set1_epi64(static_cast<int64_t>(u64_at(first))), 0xF0,
                                                   static_cast<int64_t>(u64_at(second)));
    return _mm512_ternarylogic_epi32(take_windows<kTwice>(nibbles), _mm512_set1_epi16(0x1E), _mm512_set1_epi16(1),
                                     0xEA);
  }

  struct Pair {
    Indices index;
    __m512i upper;  // bytes: bit 8 of the index, then seven signs
    __m512i scales, sums;
  };
  // act_sums: as kSums says.
  static Pair pair(const uint8_t* first, const uint8_t* second, __m512i act_sums) {
    // The bytes of the rows' words in turns, then apart.
    const __m512i even = _mm512_set1_epi16(0xFF);
    const __m512i low = _mm512_ternarylogic_epi32(even, load512(first + 2), load512(second + 1), 0xCA);
    const __m512i high = _mm512_ternarylogic_epi32(even, load512(first + 3), load512(second + 2), 0xCA);
    static constexpr Windows kApart = [] {
      Windows order{};
      for (int i = 0; i < 64; i++) order.at[i] = static_cast<uint8_t>(i % 32 * 2 + i / 32);
      return order;
    }();
    const __m512i upper = _mm512_permutexvar_epi8(load512(kApart.at), high);
    const __mmask64 eight = _mm512_test_epi8_mask(upper, _mm512_set1_epi8(1));
    const __m512i scales = nibble_scales(first + 66, second + 66);
    static_assert(kIq2Offset == 1 << 6);
    const __m512i offsets = add_pairs(_mm512_setzero_si512(), _mm512_slli_epi16(scales, 6), act_sums);
    return {indices_of(_mm512_permutexvar_epi8(load512(kApart.at), low), eight), upper, scales, offsets};
  }

  template <int kHalf>
  static void add_half(Pair& pair, __m512i magnitudes, const int8_t* a) {
    for_each_position(magnitudes, position_signs<1, kHalf>(pair.upper), [&](int position, __m512i codes) {
      const __m512i runs = _mm512_maddubs_epi16(codes, broadcast256(a + 128 * kHalf + 32 * position));
      pair.sums = add_pairs(pair.sums, runs, pair.scales);
    });
  }
  template <int kHalf>
  static void add_halves_of(Pair& one, Pair& other, const FusedAct& a) {
    const uint8_t* table = static_cast<const PackedCodebook<512>*>(a.codebook)->half[kHalf];
    const __m512i one_found = look_up<512>(table, one.index), other_found = look_up<512>(table, other.index);
    add_half<kHalf>(one, one_found, a.codes);
    add_half<kHalf>(other, other_found, a.codes);
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const __m512i act_sums = broadcast256(a.sums);
    Pair one = pair(rows.at[0], rows.at[1], act_sums), other = pair(rows.at[2], rows.at[3], act_sums);
    add_halves_of<0>(one, other, a);
    add_halves_of<1>(one, other, a);
    return add_eighths(rows, a, add_pair_lanes(one.sums, other.sums), y);
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
