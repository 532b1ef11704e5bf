// Fused products of IQ1_S and IQ1_M; the layouts are described beside their decoders in quant/decode/iq1.inl.h.
//
// Their codebook of 2048 entries is too large for registers: runs of eight are gathered from it, in eighths and one
// value larger, so as 0, 8 and 16. What that and the shift by an eighth add to a run is the sum of its activations
// times 8 - 1 or 8 + 1 eighths, which is taken off.
#pragma once

#include "kernels/cpu/q8/fused/codebook.inl.h"
#include "kernels/cpu/q8/fused/k.inl.h"

#if defined(__AVX512VBMI__) && defined(__GFNI__)

namespace strata::kernels::STRATA_ISA_NS {

struct Iq1Codebook {
  uint64_t entry[2048];
};
inline const Iq1Codebook& iq1_codebook() {
  static const Iq1Codebook kCodebook = [] {
    Iq1Codebook codebook{};
    for (size_t i = 0; i < 2048; i++) {
      for (int j = 0; j < 8; j++) {
        const int value = static_cast<int8_t>(quant::kIq1[i] >> (8 * j));
        codebook.entry[i] |= static_cast<uint64_t>(8 * (value + 1)) << (8 * j);
      }
    }
    return codebook;
  }();
  return kCodebook;
}

// Word i of the result is word i / kEach.
template <int kEach>
inline __m512i spread_words(__m128i words) {
  alignas(64) static constexpr auto kIndex = [] {
    struct {
      uint16_t at[32];
    } index{};
    for (int i = 0; i < 32; i++) index.at[i] = static_cast<uint16_t>(i / kEach);
    return index;
  }();
  return _mm512_permutexvar_epi16(load512(kIndex.at), _mm512_zextsi128_si512(words));
}

// Four neighbouring 16-bit words of each 64 bits.
inline __m512i four_words(uint64_t words) { return _mm512_set1_epi64(static_cast<int64_t>(words)); }

// 2 * s + 1 of s in bits 1 to 3 of words.
inline __m512i odd_scales(__m512i words) {
  return _mm512_ternarylogic_epi32(words, _mm512_set1_epi16(14), _mm512_set1_epi16(1), 0xEA);
}

template <class Type>
struct FusedIq1 {
  static constexpr int64_t kCols = kSuperCols;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kRuns;
  static const Iq1Codebook& make_codebook() { return iq1_codebook(); }

  // Runs 8 * k to 8 * k + 7 of the indices.
  static __m512i gather(const FusedAct& a, __m512i indices, int k) {
    alignas(64) static constexpr auto kFirst = [] {
      struct {
        uint16_t at[32];
      } first{};
      for (uint16_t i = 0; i < 32; i++) first.at[i] = i / 4;
      return first;
    }();
    const __m512i places = _mm512_add_epi16(load512(kFirst.at), _mm512_set1_epi16(static_cast<int16_t>(8 * k)));
    return _mm512_i64gather_epi64(_mm512_maskz_permutexvar_epi16(0x11111111, places, indices),
                                  static_cast<const Iq1Codebook*>(a.codebook)->entry, 8);
  }

  static __m512i row(const uint8_t* block, const FusedAct& a) {
    const __m512i words = spread_words<4>(load128(block + Type::kUpper));  // of four runs, for each of them
    const __m512i low = _mm512_maskz_cvtepu8_epi16(~__mmask32{0}, load256(block + Type::kLower));
    const __m512i indices = _mm512_ternarylogic_epi32(
        low, _mm512_multishift_epi64_epi8(four_words(Type::kUpperBits), words), _mm512_set1_epi16(0x700), 0xF8);
    const __m512i scales = Type::scales(block);
    const __m512i shifts =
        _mm512_and_si512(_mm512_srlv_epi16(words, four_words(Type::kShiftBits)), _mm512_set1_epi16(2));
    const __m512i factors = _mm512_sub_epi16(_mm512_set1_epi16(-7), shifts);
    __m512i sums =
        add_pairs(_mm512_setzero_si512(), _mm512_mullo_epi16(factors, Type::run_scales(scales)), load512(a.sums));
    for (int k = 0; k < 4; k++) {
      const __m512i pairs = _mm512_maddubs_epi16(gather(a, indices, k), load512(a.codes + 64 * k));
      sums = add_pairs(sums, pairs, _mm512_permutexvar_epi16(Type::scale_places(k), scales));
    }
    return sums;
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m512i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) sums[r] = row(rows.at[r], a);
    const __m128 d = _mm_mul_ps(Type::d(rows), _mm_set1_ps(0.125f));
    return add_scaled(y, add_lanes(add_rows(sums)), _mm_mul_ps(d, _mm_set1_ps(*a.d)));
  }
};

struct Iq1S {
  static constexpr size_t kBytes = 50, kLower = 2, kUpper = 34;
  static constexpr uint64_t kUpperBits = 0x0900060003000000;  // which bits of the words the upper bytes take
  static constexpr uint64_t kShiftBits = 0x000E000E000E000E;  // how far the shift's sign is above bit 1
  static __m128 d(const FourRows& rows) { return four_f16(rows, 0); }
  // Of eight groups of 32.
  static __m512i scales(const uint8_t* block) {
    return odd_scales(_mm512_zextsi128_si512(_mm_srli_epi16(load128(block + kUpper), 11)));
  }
  static __m512i run_scales(__m512i scales) { return spread_words<4>(_mm512_castsi512_si128(scales)); }
  static __m512i scale_places(int k) { return words_index(2 * k, 2 * k + 1); }
};

struct Iq1M {
  static constexpr size_t kBytes = 56, kLower = 0, kUpper = 32;
  static constexpr uint64_t kUpperBits = 0x0C00080004000000;
  static constexpr uint64_t kShiftBits = 0x000E000A00060002;
  // The bits of d are the upper nibbles of four words.
  static __m128 d(const FourRows& rows) {
    const auto bits = [&](int r) { return _pext_u64(u64_at(rows.at[r] + 48), 0xF000F000F000F000); };
    return _mm_cvtph_ps(
        _mm_cvtsi64_si128(static_cast<int64_t>(bits(0) | bits(1) << 16 | bits(2) << 32 | bits(3) << 48)));
  }
  // Of sixteen groups of 16: three bits of a word, one bit up.
  static __m512i scales(const uint8_t* block) {
    const __m512i words = spread_words<4>(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 48)));
    return odd_scales(_mm512_multishift_epi64_epi8(four_words(0x000800050002003F), words));
  }
  static __m512i run_scales(__m512i scales) {
    return _mm512_permutexvar_epi16(
        _mm512_set_epi32(0xF000F, 0xE000E, 0xD000D, 0xC000C, 0xB000B, 0xA000A, 0x90009, 0x80008, 0x70007, 0x60006,
                         0x50005, 0x40004, 0x30003, 0x20002, 0x10001, 0),
        scales);
  }
  static __m512i scale_places(int k) { return four_groups(4 * k); }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
