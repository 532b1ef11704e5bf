// Fused products of the types with a float scale per 32 codes in vectors of 256 bits, a block of four rows at a time;
// the layouts are described beside their decoders in quant/decode: blocks32, iq4 and fp4.
#pragma once

#include "kernels/cpu/q8/fused/k256.inl.h"

#if defined(__AVX2__) && !defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

inline __m256i add_neighbours(__m256i words) { return _mm256_madd_epi16(words, _mm256_set1_epi16(1)); }

// Nibbles of 16 bytes, with a fifth bit or without. Where the parts lie in a block.
struct Nibbles256Q40 {
  static constexpr size_t kBytes = 18, kNibbles = 2, kFifth = 0;
  static constexpr bool kAddends = false;
};
struct Nibbles256Q41 {
  static constexpr size_t kBytes = 20, kNibbles = 4, kFifth = 0;
  static constexpr bool kAddends = true;
};
struct Nibbles256Q50 {
  static constexpr size_t kBytes = 22, kNibbles = 6, kFifth = 2;
  static constexpr bool kAddends = false;
};
struct Nibbles256Q51 {
  static constexpr size_t kBytes = 24, kNibbles = 8, kFifth = 4;
  static constexpr bool kAddends = true;
};

template <class Type>
struct Fused256Nibbles {
  static constexpr int64_t kCols = 32;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = Type::kAddends ? FusedSums::kFloats32 : FusedSums::kOffsets32;

  static __m256i codes(const uint8_t* block) {
    const __m256i nibbles = nibbles_of_16(block + Type::kNibbles);
    if constexpr (Type::kFifth == 0) return nibbles;
    // Each of four bytes eight times, then its bits one by one.
    const __m256i bytes =
        _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(u32_at(block + Type::kFifth))),
                            _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
    return _mm256_or_si256(nibbles, _mm256_and_si256(set, _mm256_set1_epi8(16)));
  }

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m256i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      sums[r] = add_neighbours(_mm256_maddubs_epi16(codes(rows.at[r]), load256(a.codes)));
    }
    const __m128 da = _mm_set1_ps(*a.d);
    const __m128 scales = _mm_mul_ps(four_f16(rows, 0), da);
    if constexpr (Type::kAddends) {
      y = add_scaled(y, sum_four(sums), scales);
      return _mm_fmadd_ps(_mm_broadcast_ss(reinterpret_cast<const float*>(a.sums)), _mm_mul_ps(four_f16(rows, 2), da),
                          y);
    } else {
      return add_scaled(y, _mm_add_epi32(sum_four(sums), broadcast_sum(a)), scales);
    }
  }
};

// Types of signed values: what 32 of them are, and the scale of each row.
struct Values256Q80 {
  static constexpr size_t kBytes = 34;
  static __m256i values(const uint8_t* block) { return load256(block + 2); }
  static __m128 d(const FourRows& rows) { return four_f16(rows, 0); }
};
struct Values256Iq4Nl {
  static constexpr size_t kBytes = 18;
  static __m256i values(const uint8_t* block) { return look_up16(quant::kIq4nl, nibbles_of_16(block + 2)); }
  static __m128 d(const FourRows& rows) { return four_f16(rows, 0); }
};
struct Values256Mxfp4 {
  static constexpr size_t kBytes = 17;
  static __m256i values(const uint8_t* block) { return look_up16(quant::kFp4X2, nibbles_of_16(block + 1)); }
  static __m128 d(const FourRows& rows) {
    const auto at = [&](int r) { return half_e8m0(rows.at[r][0]); };
    return _mm_setr_ps(at(0), at(1), at(2), at(3));
  }
};

template <class Type>
struct Fused256Values {
  static constexpr int64_t kCols = 32;
  static constexpr size_t kBytes = Type::kBytes;
  static constexpr ActOrder kOrder = kPlainOrder;
  static constexpr FusedSums kSums = FusedSums::kNone;

  [[gnu::always_inline]] static __m128 add(const FourRows& rows, const FusedAct& a, __m128 y) {
    __m256i sums[kFusedRows];
    for (int r = 0; r < kFusedRows; r++) {
      sums[r] = add_neighbours(signed_pairs(Type::values(rows.at[r]), a.codes));
    }
    return add_scaled(y, sum_four(sums), _mm_mul_ps(Type::d(rows), _mm_set1_ps(*a.d)));
  }
};

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
