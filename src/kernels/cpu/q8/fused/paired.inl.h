// Fused products of IQ2_XS and IQ2_S for cores that permute bytes of two registers in one step (kWidePermutations); the
// layouts are described beside their decoders in quant/decode/iq2.inl.h.
//
// The runs of two rows make a vector of indices, a byte each. Looked up twice, for the first and the second half of a
// run, it gives the magnitudes of four positions of each; a permutation out of both results then makes a vector of each
// row, two bytes a run. So a lane is of two runs, which are a group: products of four bytes add up by themselves, and
// what a group adds up to is multiplied with its scale once.
#pragma once

#include "kernels/cpu/q8/fused/gathered.inl.h"
#include "kernels/cpu/q8/fused/iq2.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

// Type: indices(one, other) of two rows' runs, run r of row w at byte place(r, w); run(i) is the run that byte i of a
// row's vector is of; signs(block) has, at bits 2 to 5 of byte i, those of four positions of a half of run(i), the
// first half in even bytes; scales(block) a lane for each group.
template <class Type>
struct FusedPaired {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = Type::kOrder;
  static constexpr FusedSums kSums = Type::kSums;
  using Codebook = PackedCodebook<Type::kEntries>;

  // Positions 2 and 3 of each four come first, so that for_each_position finds signs in their order.
  static const Codebook& make_codebook() {
    static const Codebook kSwapped = [] {
      Codebook packed = pack_codebook<Iq2Magnitudes>(Type::codebook());
      for (auto& half : packed.half) {
        for (uint8_t& entry : half) entry = static_cast<uint8_t>(entry << 4 | entry >> 4);
      }
      return packed;
    }();
    return kSwapped;
  }

  template <int kRow>
  static __m512i magnitudes_of(__m512i first_half, __m512i second_half) {
    static constexpr Windows kPlaces = [] {
      Windows w{};
      for (int i = 0; i < 64; i++) w.at[i] = static_cast<uint8_t>(64 * (i % 2) + Type::place(Type::run(i), kRow));
      return w;
    }();
    return _mm512_permutex2var_epi8(first_half, load512(kPlaces.at), second_half);
  }
  static __m512i row(const uint8_t* block, __m512i magnitudes, const FusedAct& a) {
    __m512i sums = load512(a.sums);
    for_each_position(magnitudes, Type::signs(block), [&](int position, __m512i codes) {
      sums = add_dot4(sums, codes, load512(a.codes + 64 * (position ^ 2)));
    });
    return _mm512_mullo_epi32(sums, Type::scales(block));
  }

  struct Halves {
    __m512i first, second;
  };
  static Halves look_up_pair(const Codebook& codebook, const uint8_t* one, const uint8_t* other) {
    const Indices index = Type::indices(one, other);
    return {look_up<Type::kEntries>(codebook.half[0], index), look_up<Type::kEntries>(codebook.half[1], index)};
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const Codebook& codebook = *static_cast<const Codebook*>(a.codebook);
    const Halves front = look_up_pair(codebook, rows.at[0], rows.at[1]);
    const Halves back = look_up_pair(codebook, rows.at[2], rows.at[3]);
    const __m512i sums[kFusedRows] = {row(rows.at[0], magnitudes_of<0>(front.first, front.second), a),
                                      row(rows.at[1], magnitudes_of<1>(front.first, front.second), a),
                                      row(rows.at[2], magnitudes_of<0>(back.first, back.second), a),
                                      row(rows.at[3], magnitudes_of<1>(back.first, back.second), a)};
    return add_eighths(rows, a, add_lanes(add_rows(sums)), y);
  }
};

// Of nibbles of eight bytes: 2 * s + 1 of nibble kGroup(lane) in each lane.
template <int (*kGroup)(int lane)>
inline __m512i nibble_lanes(const uint8_t* nibbles) {
  constexpr Windows kTwice = [] {
    Windows w{};
    for (int i = 0; i < 64; i += 4) w.at[i] = static_cast<uint8_t>((4 * kGroup(i / 4) + 63) & 63);
    return w;
  }();
  return odd_scales(take_windows<kTwice>(all_lanes(u64_at(nibbles))), 0x1E);
}

// A word a run: nine bits of the index, seven signs.
struct PairedXs {
  static constexpr size_t kBytes = 74, kEntries = 512;
  static constexpr ActOrder kOrder = kQuadsOrder;
  static constexpr FusedSums kSums = FusedSums::kOffsets16;
  static constexpr auto& codebook() { return quant::kIq2Xs; }
  static constexpr int run(int byte) { return byte / 2; }
  static constexpr int place(int run, int row) { return 2 * run + row; }
  static constexpr int group(int lane) { return lane; }

  static Indices indices(const uint8_t* one, const uint8_t* other) {
    const __m512i even = _mm512_set1_epi16(0xFF);
    const __m512i low = _mm512_ternarylogic_epi32(even, load512(one + 2), load512(other + 1), 0xCA);
    const __m512i high = _mm512_ternarylogic_epi32(even, load512(one + 3), load512(other + 2), 0xCA);
    return indices_of(low, _mm512_test_epi8_mask(high, _mm512_set1_epi8(1)));
  }
  static __m512i signs(const uint8_t* block) {
    constexpr Windows kPlaces = [] {
      Windows w{};
      for (int i = 0; i < 64; i++) w.at[i] = static_cast<uint8_t>((16 * (i % 8 / 2) + 8 + 4 * (i % 2) + 62) & 63);
      return w;
    }();
    return take_windows<kPlaces>(map_bits<BitRows{{2, 4, 8, 16, 32, 64, 128, 0xFE}}>(load512(block + 2)));
  }
  static __m512i scales(const uint8_t* block) { return nibble_lanes<group>(block + 66); }
};

// The places of runs are those that bytes of signs have when the block's 32 are twice in a vector: eight bytes of it
// are of four runs.
struct PairedS {
  static constexpr size_t kBytes = 82, kEntries = 1024;
  static constexpr ActOrder kOrder = kSplitQuadsOrder;
  static constexpr FusedSums kSums = FusedSums::kSplitOffsets16;
  static constexpr auto& codebook() { return quant::kIq2S; }
  static constexpr int run(int byte) { return 8 * (byte / 8 % 4) + 4 * (byte / 32) + byte % 8 / 2; }
  static constexpr int place(int run, int row) { return 32 * row + run; }
  static constexpr int group(int lane) { return run(4 * lane) / 2; }

  static Indices indices(const uint8_t* one, const uint8_t* other) {
    constexpr Windows kPairs = [] {
      Windows w{};
      for (int i = 0; i < 64; i++) w.at[i] = static_cast<uint8_t>(2 * (i % 32));
      return w;
    }();
    const __m512i both =
        _mm512_mask_set1_epi64(all_lanes(u64_at(one + 66)), 0xF0, static_cast<int64_t>(u64_at(other + 66)));
    const __m512i upper = take_windows<kPairs>(both);
    return indices_of(two_halves(one + 2, other + 2), _mm512_test_epi8_mask(upper, _mm512_set1_epi8(1)),
                      _mm512_test_epi8_mask(upper, _mm512_set1_epi8(2)));
  }
  static __m512i signs(const uint8_t* block) {
    constexpr Windows kPlaces = [] {
      Windows w{};
      for (int i = 0; i < 64; i++) w.at[i] = static_cast<uint8_t>((8 * (run(i) % 8) + 4 * (i % 2) + 62) & 63);
      return w;
    }();
    return take_windows<kPlaces>(broadcast256(block + 34));
  }
  static __m512i scales(const uint8_t* block) { return nibble_lanes<group>(block + 74); }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
