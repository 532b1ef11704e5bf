// Fused products of IQ2_S, IQ1_S and IQ1_M; the layouts are described beside their decoders in quant/decode: iq2 and
// iq1.
//
// Their codebooks are large: finding an entry by permutations of registers would take more steps than the rest. So the
// entries of runs are gathered, as lanes of eight four-bit codes. What else tells a code (its sign, the shift of its
// run) is joined to them, so that one mapping of bits makes an unsigned byte of each, the type's offset larger than
// what it stands for.
//
// A super-block has sixteen groups of two runs with a scale each: lane g is of group g.
#pragma once

#include "kernels/cpu/q8/fused/codebook.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

// The codes of a super-block: nibble i of a lane is of column i of the first or second run of its group.
struct GroupRuns {
  __m512i first, second;
  __m512i scales;
};

// Nibble i: of column i of an entry.
template <size_t kEntries>
struct NibbleCodebook {
  alignas(64) uint32_t entry[kEntries];
};

// kNibble: the nibble of a byte of the codebook.
template <uint8_t (*kNibble)(int8_t value), size_t kEntries>
static NibbleCodebook<kEntries> nibble_codebook(const uint64_t (&codebook)[kEntries]) {
  NibbleCodebook<kEntries> nibbles{};
  for (size_t i = 0; i < kEntries; i++) {
    for (int j = 0; j < 8; j++) {
      nibbles.entry[i] |= uint32_t{kNibble(static_cast<int8_t>(codebook[i] >> (8 * j)))} << (4 * j);
    }
  }
  return nibbles;
}

template <size_t kEntries>
inline __m512i gather(const NibbleCodebook<kEntries>& codebook, __m512i indices) {
  // A constant mask would come from a general register, through the port that rearranges bytes.
  __mmask16 all;
  asm("kxnorw %0, %0, %0" : "=Yk"(all));
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), all, indices, codebook.entry, 4);
}

constexpr Windows windows(const uint8_t (&starts)[8]) {
  Windows w{};
  for (int i = 0; i < 64; i++) w.at[i] = starts[i % 8];
  return w;
}
// Of bits that all lanes share: lane l's bytes start l * per_lane bits behind those of lane 0.
constexpr Windows shared_windows(const uint8_t (&starts)[4], int per_lane) {
  Windows w{};
  for (int i = 0; i < 64; i++) w.at[i] = static_cast<uint8_t>((starts[i % 4] + i / 4 * per_lane) & 63);
  return w;
}
inline __m512i all_lanes(uint64_t bits) { return _mm512_set1_epi64(static_cast<int64_t>(bits)); }

// Where a bit of `mask` is set, `chosen`, else `other`.
inline __m512i choose(uint32_t mask, __m512i chosen, __m512i other) {
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32(static_cast<int>(mask)), chosen, other, 0xCA);
}

// 2 * s + 1 of s in the bits of `mask`, from bit 1 on.
inline __m512i odd_scales(__m512i twice, int mask) {
  return _mm512_ternarylogic_epi32(twice, _mm512_set1_epi32(mask), _mm512_set1_epi32(1), 0xEA);
}

struct RunIndices {
  __m512i first, second;
};
// Of lanes whose two lower bytes are the low bytes of two indices: bits 8 on of the first are those of `upper`, of the
// second those of `upper` eight bits further.
template <uint32_t kUpper>
inline RunIndices run_indices(const uint8_t* low, __m512i upper) {
  const __m512i both = _mm512_maskz_cvtepu16_epi32(0xFFFF, load256(low));
  return {_mm512_and_si512(choose(kUpper, upper, both), _mm512_set1_epi32(kUpper | 0xFF)),
          _mm512_srli_epi32(choose(kUpper << 8, upper, both), 8)};
}

template <class Type>
struct FusedGathered {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = kRunPairsOrder;
  static constexpr FusedSums kSums = FusedSums::kOffsets16;

  static const NibbleCodebook<Type::kEntries>& make_codebook() { return Type::nibbles(); }

  // Taken out of the blocks once for all activation rows: a gather is a step that the compiler leaves where it is.
  struct Unpacked {
    GroupRuns row[kFusedRows];
    __m128 d;
  };
  [[gnu::always_inline]] static Unpacked unpack(const FourRows& rows, const void* codebook) {
    Unpacked out;
    for (int r = 0; r < kFusedRows; r++) {
      out.row[r] = Type::runs(rows.at[r], *static_cast<const NibbleCodebook<Type::kEntries>*>(codebook));
    }
    out.d = _mm_mul_ps(Type::d(rows), _mm_set1_ps(0.125f));
    return out;
  }

  static __m512i products(const GroupRuns& runs, const FusedAct& a) {
    using Nibbles = typename Type::Nibbles;
    __m512i sums = load512(a.sums);
    sums = add_dot4(sums, magnitudes<Nibbles, 0>(runs.first), load512(a.codes));
    sums = add_dot4(sums, magnitudes<Nibbles, 1>(runs.first), load512(a.codes + 64));
    sums = add_dot4(sums, magnitudes<Nibbles, 0>(runs.second), load512(a.codes + 128));
    sums = add_dot4(sums, magnitudes<Nibbles, 1>(runs.second), load512(a.codes + 192));
    return _mm512_mullo_epi32(sums, runs.scales);
  }

  [[gnu::always_inline]] static __m128 add(const Unpacked& rows, const FusedAct& a, __m128 y) {
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) sums[r] = products(rows.row[r], a);
    return add_scaled(y, add_lanes(add_rows(sums)), _mm_mul_ps(rows.d, _mm_set1_ps(*a.d)));
  }
};

// IQ2: bits 0 and 1 of a nibble tell 8, 25 or 43, bit 2 the sign, bit 3 whether it is -8. The last makes the mapping
// one of exclusive or: 64 + m and 64 - m differ in the same bits for m of 25 and 43, but not for 8.
struct Iq2Nibbles {
  static constexpr int kBits = 4;
  static constexpr uint8_t kConstant = 72, kOfBit[kBits] = {72 ^ 89, 72 ^ 107, 89 ^ 39, 89 ^ 39 ^ 72 ^ 56};
};
static_assert(kIq2Offset == 64 && (89 ^ 39) == (107 ^ 21));

struct Iq2Gathered {
  using Nibbles = Iq2Nibbles;
  static __m128 d(const FourRows& rows) { return four_f16(rows, 0); }
  // Bits 2 and 3 as they are where the sign is negative.
  static uint8_t nibble(int8_t magnitude) { return magnitude == 8 ? 0xC : magnitude == 25 ? 5 : 6; }

  // The codes of runs, of whose signs those of columns 2 * i and 2 * i + 1 are bits 0 and 1 of byte i.
  static __m512i join(__m512i codes, __m512i signs) {
    const __m512i twice = map_bits<BitRows{{0, 0, 1, 1, 0, 0, 2, 2}}>(signs);
    return _mm512_ternarylogic_epi32(codes, twice, _mm512_set1_epi8(0x33), 0xE0);  // codes & (twice | 0x33)
  }
  // Of nibbles s, one for each group.
  static __m512i scales(const uint8_t* nibbles) {
    return odd_scales(take_windows<shared_windows({63, 0, 0, 0}, 4)>(all_lanes(u64_at(nibbles))), 0x1E);
  }
};

struct Iq2S : Iq2Gathered {
  static constexpr size_t kBytes = 82;
  static constexpr size_t kEntries = 1024;
  static const NibbleCodebook<kEntries>& nibbles() {
    static const NibbleCodebook<kEntries> kNibbles = nibble_codebook<nibble>(quant::kIq2S);
    return kNibbles;
  }
  static GroupRuns runs(const uint8_t* block, const NibbleCodebook<kEntries>& codebook) {
    // Two bits of each run: bytes 1 and 2 start at those of the first and of the second.
    const __m512i upper = take_windows<shared_windows({0, 0, 2, 0}, 4)>(all_lanes(u64_at(block + 66)));
    const RunIndices index = run_indices<0x300>(block + 2, upper);
    const __m512i signs = _mm512_maskz_cvtepu16_epi32(0xFFFF, load256(block + 34));
    return {join(gather(codebook, index.first), take_windows<windows({0, 2, 4, 6, 32, 34, 36, 38})>(signs)),
            join(gather(codebook, index.second), take_windows<windows({8, 10, 12, 14, 40, 42, 44, 46})>(signs)),
            scales(block + 74)};
  }
};

// IQ1: in eighths. Bits 0 and 1 of a nibble are the value and 1, bit 2 tells that the run is shifted up, not down.
struct Iq1Nibbles {
  static constexpr int kBits = 4;
  static constexpr uint8_t kConstant = 0, kOfBit[kBits] = {8, 16, 2, 0};
};
static_assert(kIq1Offset == 9);

struct Iq1Gathered {
  static constexpr size_t kEntries = 2048;
  using Nibbles = Iq1Nibbles;
  static uint8_t nibble(int8_t value) { return static_cast<uint8_t>(value + 1); }
  static const NibbleCodebook<kEntries>& nibbles() {
    static const NibbleCodebook<kEntries> kNibbles = nibble_codebook<nibble>(quant::kIq1);
    return kNibbles;
  }
  // down: lanes of ones where the run is shifted down, else zeros.
  static __m512i join(__m512i codes, __m512i down) {
    return _mm512_ternarylogic_epi32(codes, down, _mm512_set1_epi8(0x44), 0xF2);  // codes | (0x44 & ~down)
  }
};

struct Iq1S : Iq1Gathered {
  static constexpr size_t kBytes = 50;
  static __m128 d(const FourRows& rows) { return four_f16(rows, 0); }
  static GroupRuns runs(const uint8_t* block, const NibbleCodebook<kEntries>& codebook) {
    // A word for two groups: three bits of each run, three of the scale, then the shift's sign.
    const __m512i words = _mm512_maskz_cvtepu16_epi64(0xFF, load128(block + 34));
    const __m512i parts = take_windows<windows({0, 0, 3, 8, 0, 6, 9, 8})>(words);
    const RunIndices index = run_indices<0x700>(block + 2, parts);
    const __m512i down = _mm512_srai_epi32(parts, 31);
    return {join(gather(codebook, index.first), down), join(gather(codebook, index.second), down),
            odd_scales(_mm512_srli_epi32(parts, 27), 0xE)};
  }
};

struct Iq1M : Iq1Gathered {
  static constexpr size_t kBytes = 56;
  // The bits of d are the upper nibbles of four words.
  static __m128 d(const FourRows& rows) {
    const auto bits = [&](int r) { return _pext_u64(u64_at(rows.at[r] + 48), 0xF000F000F000F000); };
    return _mm_cvtph_ps(
        _mm_cvtsi64_si128(static_cast<int64_t>(bits(0) | bits(1) << 16 | bits(2) << 32 | bits(3) << 48)));
  }
  static GroupRuns runs(const uint8_t* block, const NibbleCodebook<kEntries>& codebook) {
    // A byte for a group: of each run three bits and the shift's sign.
    const __m512i bytes = _mm512_maskz_cvtepu8_epi32(0xFFFF, load128(block + 32));
    const __m512i parts = take_windows<windows({0, 0, 4, 0, 32, 32, 36, 32})>(bytes);
    const RunIndices index = run_indices<0x700>(block, parts);
    return {join(gather(codebook, index.first), _mm512_srai_epi32(_mm512_slli_epi32(bytes, 28), 31)),
            join(gather(codebook, index.second), _mm512_srai_epi32(parts, 31)), scales(block + 48)};
  }
  // Three bits of a word of four.
  static __m512i scales(const uint8_t* words) {
    constexpr Windows kPlaces = [] {
      Windows w{};
      for (int g = 0; g < 16; g++) w.at[4 * g] = static_cast<uint8_t>((16 * (g / 4) + 3 * (g % 4) + 63) & 63);
      return w;
    }();
    return odd_scales(take_windows<kPlaces>(all_lanes(u64_at(words))), 0xE);
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
