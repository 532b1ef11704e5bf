// Fused products of IQ2_S, IQ1_S and IQ1_M; the layouts are described beside their decoders in quant/decode: iq2 and
// iq1.
//
// Their codebooks are large: finding an entry by permutations of registers would take more steps than the rest. So the
// entries of runs are gathered, as lanes of eight four-bit codes. What else tells a code (its sign, the shift of its
// run) is joined to them, so that one step makes an unsigned byte of each, the type's offset larger than what it stands
// for.
//
// A super-block has sixteen groups of two runs with a scale each: a lane is of a group.
//
// Loads of a gather hold room that other loads want while they wait for indices, so these are made long before.
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

// Type: index(block) finds the entries of a block, join<kRun>(codes, block) adds what else the block tells of the
// runs kRun of groups, codes<kOdd> makes bytes of the codes of odd or even columns of what is joined.
template <class Type>
struct FusedGathered {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = Type::kOrder;
  static constexpr FusedSums kSums = Type::kSums;
  static constexpr bool kUnpacksForOne = Type::kUnpacksForOne;
  using Codebook = NibbleCodebook<Type::kEntries>;

  static const Codebook& make_codebook() { return Type::nibbles(); }

  // Taken out of the blocks once for all activation rows: a gather is a step that the compiler leaves where it is.
  struct Unpacked {
    GroupRuns row[kFusedRows];
    __m128 d;
  };
  [[gnu::always_inline]] static Unpacked unpack(const FourRows& rows, const void* codebook) {
    const auto& entries = *static_cast<const Codebook*>(codebook);
    Unpacked out;
    for (int r = 0; r < kFusedRows; r++) {
      const uint8_t* block = rows.at[r];
      const RunIndices index = Type::index(block);
      out.row[r] = {Type::template join<0>(gather(entries, index.first), block),
                    Type::template join<1>(gather(entries, index.second), block), Type::scales(block)};
    }
    out.d = Type::d(rows);
    return out;
  }

  template <int kRun>
  static __m512i add_run(__m512i sums, __m512i joined, const FusedAct& a) {
    sums = add_dot4(sums, Type::template codes<0>(joined), load512(a.codes + 128 * kRun));
    return add_dot4(sums, Type::template codes<1>(joined), load512(a.codes + 128 * kRun + 64));
  }
  static __m128 add_sums(const __m512i (&sums)[kFusedRows], __m128 d, const FusedAct& a, __m128 y) {
    const __m128 eighths = _mm_mul_ps(d, _mm_set1_ps(0.125f));
    return add_scaled(y, add_lanes(add_rows(sums)), _mm_mul_ps(eighths, _mm_set1_ps(*a.d)));
  }

  [[gnu::always_inline]] static __m128 add(const Unpacked& rows, const FusedAct& a, __m128 y) {
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      const GroupRuns& runs = rows.row[r];
      sums[r] = add_run<1>(add_run<0>(load512(a.sums), runs.first, a), runs.second, a);
      sums[r] = _mm512_mullo_epi32(sums[r], runs.scales);
    }
    return add_sums(sums, rows.d, a, y);
  }

  // The same of one activation row: the gathers of a row stand among the products of the row before it.
  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    const auto& entries = *static_cast<const Codebook*>(a.codebook);
    RunIndices index[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) index[r] = Type::index(rows.at[r]);
    __m512i first = gather(entries, index[0].first), second = gather(entries, index[0].second);
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      const bool more = r + 1 < kFusedRows;
      const __m512i next_first = more ? gather(entries, index[r + 1].first) : first;
      sums[r] = add_run<0>(load512(a.sums), Type::template join<0>(first, rows.at[r]), a);
      const __m512i next_second = more ? gather(entries, index[r + 1].second) : second;
      sums[r] = add_run<1>(sums[r], Type::template join<1>(second, rows.at[r]), a);
      sums[r] = _mm512_mullo_epi32(sums[r], Type::scales(rows.at[r]));
      first = next_first;
      second = next_second;
    }
    return add_sums(sums, Type::d(rows), a, y);
  }
};

// IQ2_S. Bits 0 and 1 of an entry's byte tell the magnitude of its even column, bits 4 and 5 of the odd one; their
// signs become bits 2 and 3. A permutation takes these six bits for its index.
//
// The same 32 bytes of a block are twice in a vector: of the quarters of its columns, lanes 2 * q and 2 * q + 1 are of
// groups 0 and 1 of quarter q, and those eight further of groups 2 and 3.
struct Iq2S {
  static constexpr size_t kBytes = 82;
  static constexpr size_t kEntries = 1024;
  static constexpr ActOrder kOrder = kSplitRunPairsOrder;
  static constexpr FusedSums kSums = FusedSums::kSplitOffsets16;
  static constexpr bool kUnpacksForOne = false;

  static uint8_t nibble(int8_t magnitude) { return magnitude == 8 ? 0 : magnitude == 25 ? 1 : 2; }
  static const NibbleCodebook<kEntries>& nibbles() {
    static const NibbleCodebook<kEntries> kNibbles = nibble_codebook<nibble>(quant::kIq2S);
    return kNibbles;
  }
  static __m128 d(const FourRows& rows) { return four_f16(rows, 0); }

  struct SignedCodes {
    alignas(64) uint8_t odd[2][64];
  };
  template <int kOdd>
  static __m512i codes(__m512i joined) {
    static constexpr SignedCodes kCodes = [] {
      SignedCodes codes{};
      for (int i = 0; i < 64; i++) {
        for (int odd = 0; odd < 2; odd++) {
          const int m = magnitude_of<Iq2Magnitudes>(i >> (4 * odd) & 3);
          codes.odd[odd][i] = static_cast<uint8_t>((i >> (2 + odd) & 1) != 0 ? kIq2Offset - m : kIq2Offset + m);
        }
      }
      return codes;
    }();
    return _mm512_permutexvar_epi8(joined, load512(kCodes.odd[kOdd]));
  }

  // Of a lane: the group, and the first of its runs in its quarter.
  static constexpr int group(int lane) { return 4 * (lane / 2 % 4) + 2 * (lane / 8) + lane % 2; }
  static constexpr int run_in_quarter(int lane) { return 2 * group(lane) % 8; }

  static RunIndices index(const uint8_t* block) {
    // A word for a run: its byte, then, as bits 8 and 9, its two bits of those that all lanes share.
    constexpr Windows kLow = [] {
      Windows w{};
      for (int i = 0; i < 64; i++) w.at[i] = static_cast<uint8_t>(8 * (run_in_quarter(i / 4) + i % 4 / 2));
      return w;
    }();
    constexpr Windows kUpper = [] {
      Windows w{};
      for (int i = 0; i < 64; i++) w.at[i] = static_cast<uint8_t>(2 * (2 * group(i / 4) + i % 4 / 2));
      return w;
    }();
    const __m512i low = _mm512_maskz_mov_epi8(0x5555'5555'5555'5555, take_windows<kLow>(broadcast256(block + 2)));
    const __m512i upper = take_windows<kUpper>(all_lanes(u64_at(block + 66)));
    const __m512i words = _mm512_ternarylogic_epi32(low, upper, _mm512_set1_epi16(0x300), 0xF8);  // low | upper & 0x300
    return {_mm512_and_si512(words, _mm512_set1_epi32(0xFFFF)), _mm512_srli_epi32(words, 16)};
  }
  template <int kRun>
  static __m512i join(__m512i codes, const uint8_t* block) {
    constexpr Windows kPlaces = [] {
      Windows w{};
      for (int i = 0; i < 64; i++) {
        w.at[i] = static_cast<uint8_t>((8 * (run_in_quarter(i / 4) + kRun) + 2 * (i % 4) + 62) & 63);
      }
      return w;
    }();
    const __m512i signs = take_windows<kPlaces>(broadcast256(block + 34));
    return _mm512_ternarylogic_epi32(codes, signs, _mm512_set1_epi8(0xC), 0xD8);  // 0xC ? signs : codes
  }
  // Of nibbles s, one for each group.
  static __m512i scales(const uint8_t* block) {
    constexpr Windows kTwice = [] {
      Windows w{};
      for (int i = 0; i < 64; i += 4) w.at[i] = static_cast<uint8_t>((4 * group(i / 4) + 63) & 63);
      return w;
    }();
    return odd_scales(take_windows<kTwice>(all_lanes(u64_at(block + 74))), 0x1E);
  }
};

// IQ1: in eighths. Bits 0 and 1 of a nibble are the value and 1, bit 2 tells that the run is shifted up, not down.
struct Iq1Nibbles {
  static constexpr int kBits = 4;
  static constexpr uint8_t kConstant = 0, kOfBit[kBits] = {8, 16, 2, 0};
};
static_assert(kIq1Offset == 9);

// Lane g is of group g.
struct Iq1Gathered {
  static constexpr size_t kEntries = 2048;
  static constexpr bool kUnpacksForOne = true;
  static constexpr ActOrder kOrder = kRunPairsOrder;
  static constexpr FusedSums kSums = FusedSums::kOffsets16;
  static uint8_t nibble(int8_t value) { return static_cast<uint8_t>(value + 1); }
  static const NibbleCodebook<kEntries>& nibbles() {
    static const NibbleCodebook<kEntries> kNibbles = nibble_codebook<nibble>(quant::kIq1);
    return kNibbles;
  }
  template <int kOdd>
  static __m512i codes(__m512i joined) {
    return magnitudes<Iq1Nibbles, kOdd>(joined);
  }
  // down: lanes of ones where the run is shifted down, else zeros.
  static __m512i join_shifts(__m512i codes, __m512i down) {
    return _mm512_ternarylogic_epi32(codes, down, _mm512_set1_epi8(0x44), 0xF2);  // codes | (0x44 & ~down)
  }
};

struct Iq1S : Iq1Gathered {
  static constexpr size_t kBytes = 50;
  static __m128 d(const FourRows& rows) { return four_f16(rows, 0); }
  // Of a word for two groups: three bits of each run, three of the scale, then the shift's sign.
  static __m512i parts(const uint8_t* block) {
    const __m512i words = _mm512_maskz_cvtepu16_epi64(0xFF, load128(block + 34));
    return take_windows<windows({0, 0, 3, 8, 0, 6, 9, 8})>(words);
  }
  static RunIndices index(const uint8_t* block) { return run_indices<0x700>(block + 2, parts(block)); }
  template <int kRun>
  static __m512i join(__m512i codes, const uint8_t* block) {
    return join_shifts(codes, _mm512_srai_epi32(parts(block), 31));
  }
  static __m512i scales(const uint8_t* block) { return odd_scales(_mm512_srli_epi32(parts(block), 27), 0xE); }
};

struct Iq1M : Iq1Gathered {
  static constexpr size_t kBytes = 56;
  // The bits of d are the upper nibbles of four words.
  static __m128 d(const FourRows& rows) {
    const auto bits = [&](int r) { return _pext_u64(u64_at(rows.at[r] + 48), 0xF000F000F000F000); };
    return _mm_cvtph_ps(
        _mm_cvtsi64_si128(static_cast<int64_t>(bits(0) | bits(1) << 16 | bits(2) << 32 | bits(3) << 48)));
  }
  // A byte for a group: of each run three bits and the shift's sign.
  static __m512i bytes(const uint8_t* block) { return _mm512_maskz_cvtepu8_epi32(0xFFFF, load128(block + 32)); }
  static __m512i parts(const uint8_t* block) {
    return take_windows<windows({0, 0, 4, 0, 32, 32, 36, 32})>(bytes(block));
  }
  static RunIndices index(const uint8_t* block) { return run_indices<0x700>(block, parts(block)); }
  template <int kRun>
  static __m512i join(__m512i codes, const uint8_t* block) {
    const __m512i shifts = kRun == 0 ? _mm512_slli_epi32(bytes(block), 28) : parts(block);
    return join_shifts(codes, _mm512_srai_epi32(shifts, 31));
  }
  // Three bits of a word of four.
  static __m512i scales(const uint8_t* block) {
    constexpr Windows kPlaces = [] {
      Windows w{};
      for (int g = 0; g < 16; g++) w.at[4 * g] = static_cast<uint8_t>((16 * (g / 4) + 3 * (g % 4) + 63) & 63);
      return w;
    }();
    return odd_scales(take_windows<kPlaces>(all_lanes(u64_at(block + 48))), 0xE);
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
