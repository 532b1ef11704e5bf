// Products of a few activation rows straight from packed blocks: decoding a token is bound by how fast weights can be
// read, and every store to the cache on the way shows.
//
// The results are those of q8/rows.inl.h: the integers are the same, only their partial sums are laid out otherwise,
// and the float steps of a row are the same in the same order.
//
// Four rows are taken side by side, one from each quarter of the rows of a call. So a thread reads four streams that
// are far apart, which gets more out of memory than one: a prefetcher follows each, and none runs ahead past its page.
#pragma once

#include "kernels/cpu/q8/fused/bits.inl.h"
#include "kernels/cpu/q8/fused/blocks.inl.h"
#include "kernels/cpu/q8/fused/blocks256.inl.h"
#include "kernels/cpu/q8/fused/gathered.inl.h"
#include "kernels/cpu/q8/fused/iq2.inl.h"
#include "kernels/cpu/q8/fused/iq3.inl.h"
#include "kernels/cpu/q8/fused/iq4.inl.h"
#include "kernels/cpu/q8/fused/k.inl.h"
#include "kernels/cpu/q8/fused/k256.inl.h"
#include "kernels/cpu/q8/fused/nibbles.inl.h"
#include "kernels/cpu/q8/fused/paired.inl.h"
#include "kernels/cpu/q8/fused/planes.inl.h"
#include "kernels/cpu/q8/fused/prepare.inl.h"
#include "kernels/cpu/q8/fused/ternary.inl.h"

#if defined(__AVX2__)

namespace strata::kernels::STRATA_ISA_NS {

// The prepared row from `column` on, a multiple of the type's columns. codebook: the rows' own, handed over beside them
// so that it is known to be the same for all of them.
template <class Type>
inline FusedAct act_from(const FusedAct& a, int64_t column, const void* codebook) {
  return {a.codes + column * act_copies(Type::kOrder),
          a.sums + static_cast<size_t>(column) * sum_bytes(Type::kSums) / kSuperCols,
          a.d + column / (Type::kCols == kSuperCols ? kSuperCols : 32), codebook};
}

// A last stretch of fewer blocks is taken from a copy with zeros behind, whose scales and activations are zero.
template <class Type>
static __m128 add_tail(const FourRows& rows, size_t bytes, const FusedAct& a, __m128 y) {
  uint8_t copy[kFusedRows][Type::kBytes] = {};
  for (int r = 0; r < kFusedRows; r++) std::memcpy(copy[r], rows.at[r], bytes);
  return Type::add({{copy[0], copy[1], copy[2], copy[3]}}, a, y);
}

inline FourRows rows_from(const FourRows& rows, size_t byte) {
  return {{rows.at[0] + byte, rows.at[1] + byte, rows.at[2] + byte, rows.at[3] + byte}};
}

// Whether a type's blocks are unpacked before its products. kOne: for one activation row.
template <class Type, bool kOne>
constexpr bool unpacks() {
  if constexpr (requires { Type::kUnpacksForOne; }) {
    return !kOne || Type::kUnpacksForOne;
  } else {
    return false;
  }
}

// What a type's products take: its blocks unpacked, or as they are.
template <class Type, bool kOne>
[[gnu::always_inline]] inline auto unpacked(const FourRows& rows, const void* codebook) {
  if constexpr (unpacks<Type, kOne>()) {
    return Type::unpack(rows, codebook);
  } else {
    return rows;
  }
}

// Sums of four rows with each of n_tokens activation rows. The activations take turns at every block, so that weights
// are on their way all the time. Inlined, so that y is known to be no weight: what unpacking costs is then paid once
// for all activations.
template <class Type, bool kOne>
[[gnu::always_inline]] inline void four_sums(const FourRows& rows, int64_t cols, size_t row_bytes, const FusedAct* a,
                                             int64_t n_tokens, __m128* y) {
  const int64_t n_takes = cols / Type::kCols;
  const void* codebook = a[0].codebook;
  for (int64_t t = 0; t < n_tokens; t++) y[t] = _mm_setzero_ps();
  for (int64_t i = 0; i < n_takes; i++) {
    const FourRows from = rows_from(rows, static_cast<size_t>(i) * Type::kBytes);
    prefetch_block<Type::kBytes>(from);
    const auto weights = unpacked<Type, kOne>(from, codebook);
    for (int64_t t = 0; t < n_tokens; t++) {
      y[t] = Type::add(weights, act_from<Type>(a[t], i * Type::kCols, codebook), y[t]);
    }
  }
  if constexpr (Type::kCols == kFourGroupCols) {
    const int64_t column = n_takes * Type::kCols;
    if (column == cols) return;
    const size_t taken = static_cast<size_t>(n_takes) * Type::kBytes;
    for (int64_t t = 0; t < n_tokens; t++) {
      y[t] = add_tail<Type>(rows_from(rows, taken), row_bytes - taken, act_from<Type>(a[t], column, codebook), y[t]);
    }
  }
}

// Sums of the rows `first` + q * quarter of a token go where the call wants them, as far as the rows reach.
inline void store_four(const Q8Out& out, __m128 sums, int64_t token, int64_t first, int64_t quarter, int64_t row_end) {
  float four[kFusedRows];
  _mm_storeu_ps(four, sums);
  for (int64_t q = 0; q < kFusedRows && first + q * quarter < row_end; q++) {
    const int64_t row = first + q * quarter;
    float sum = four[q];
    if (out.bias != nullptr) sum += out.bias[row];
    float& y = out.y[token * out.y_stride + row];
    y = out.accumulate ? y + sum : sum;
  }
}

// kOne: a is one row. Its own code, since a loop over rows takes registers from it.
template <class Type, bool kOne>
static void prepared_product(const Q8Call& call, int64_t row_begin, int64_t row_end, const FusedAct* a,
                             int64_t n_tokens) {
  const int64_t n = kOne ? 1 : n_tokens;
  const size_t row_bytes = static_cast<size_t>(call.packed(0, call.w.cols) - call.packed(0, 0));
  const int64_t quarter = (row_end - row_begin + kFusedRows - 1) / kFusedRows;
  for (int64_t first = row_begin; first < row_begin + quarter; first++) {
    FourRows rows;
    for (int64_t q = 0; q < kFusedRows; q++) {
      const int64_t row = first + q * quarter;
      rows.at[q] = call.packed(row < row_end ? row : row_end - 1, 0);
    }
    if (first == row_begin) prefetch_start(rows);
    __m128 y[kFewRows];
    four_sums<Type, kOne>(rows, call.w.cols, row_bytes, a, n, y);
    for (int64_t t = 0; t < n; t++) store_four(call.out, y[t], t, first, quarter, row_end);
  }
}

// A few activation rows, as many as `scratch` holds prepared.
template <class Type>
static void fused_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, uint8_t* scratch) {
  FusedAct a[kFewRows];
  for (int64_t t = 0; t < n_tokens; t++) {
    a[t] = prepare(
        Type::kOrder, Type::kSums, call.format, call.w.cols, call.act(t, 0),
        scratch + static_cast<size_t>(t) * FusedLayout(act_copies(Type::kOrder), Type::kSums, call.w.cols).bytes);
    if constexpr (requires { Type::make_codebook(); }) a[t].codebook = &Type::make_codebook();
  }
  if (n_tokens == 1) return prepared_product<Type, true>(call, row_begin, row_end, a, 1);
  prepared_product<Type, false>(call, row_begin, row_end, a, n_tokens);
}

struct FusedFormat {
  quant::Type type;
  int copies;
  FusedSums sums;
  void (*product)(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, uint8_t* scratch);
};

template <class Type>
constexpr FusedFormat fused_format_of(quant::Type type) {
  return {type, act_copies(Type::kOrder), Type::kSums, fused_product<Type>};
}

constexpr FusedFormat kFusedFormats[] = {
#if defined(__AVX512F__)
    fused_format_of<FusedQ2K>(quant::Type::Q2_K),
    fused_format_of<FusedQ3K>(quant::Type::Q3_K),
    fused_format_of<FusedTq10>(quant::Type::TQ1_0),
    fused_format_of<FusedTq20>(quant::Type::TQ2_0),
    fused_format_of<FusedK4<false>>(quant::Type::Q4_K),
    fused_format_of<FusedK4<true>>(quant::Type::Q5_K),
    fused_format_of<FusedQ6K>(quant::Type::Q6_K),
    fused_format_of<FusedIq4Xs>(quant::Type::IQ4_XS),
#if defined(__AVX512VBMI__) && defined(__GFNI__)
    fused_format_of<FusedGathered<Iq1S>>(quant::Type::IQ1_S),
    fused_format_of<FusedGathered<Iq1M>>(quant::Type::IQ1_M),
    fused_format_of<FusedIq2Xxs>(quant::Type::IQ2_XXS),
    fused_format_of<std::conditional_t<kWidePermutations, FusedPaired<PairedXs>, FusedIq2Xs>>(quant::Type::IQ2_XS),
    fused_format_of<std::conditional_t<kWidePermutations, FusedPaired<PairedS>, FusedGathered<Iq2S>>>(
        quant::Type::IQ2_S),
    fused_format_of<FusedIq3Xxs>(quant::Type::IQ3_XXS),
    fused_format_of<FusedIq3S>(quant::Type::IQ3_S),
#endif
    fused_format_of<FusedQ80>(quant::Type::Q8_0),
    fused_format_of<FusedNibbles<Q40>>(quant::Type::Q4_0),
    fused_format_of<FusedNibbles<Q41>>(quant::Type::Q4_1),
    fused_format_of<FusedNibbles<Q50>>(quant::Type::Q5_0),
    fused_format_of<FusedNibbles<Q51>>(quant::Type::Q5_1),
    fused_format_of<FusedNibbles<Iq4Nl>>(quant::Type::IQ4_NL),
    fused_format_of<FusedNvfp4>(quant::Type::NVFP4),
    fused_format_of<FusedQ10>(quant::Type::Q1_0),
    fused_format_of<FusedQ20>(quant::Type::Q2_0),
    fused_format_of<FusedNibbles<Mxfp4>>(quant::Type::MXFP4),
#else
    fused_format_of<Fused256Q2K>(quant::Type::Q2_K),
    fused_format_of<Fused256Q3K>(quant::Type::Q3_K),
    fused_format_of<Fused256K4<false>>(quant::Type::Q4_K),
    fused_format_of<Fused256K4<true>>(quant::Type::Q5_K),
    fused_format_of<Fused256Q6K>(quant::Type::Q6_K),
    fused_format_of<Fused256Iq4Xs>(quant::Type::IQ4_XS),
    fused_format_of<Fused256Values<Values256Q80>>(quant::Type::Q8_0),
    fused_format_of<Fused256Nibbles<Nibbles256Q40>>(quant::Type::Q4_0),
    fused_format_of<Fused256Nibbles<Nibbles256Q41>>(quant::Type::Q4_1),
    fused_format_of<Fused256Nibbles<Nibbles256Q50>>(quant::Type::Q5_0),
    fused_format_of<Fused256Nibbles<Nibbles256Q51>>(quant::Type::Q5_1),
    fused_format_of<Fused256Values<Values256Iq4Nl>>(quant::Type::IQ4_NL),
    fused_format_of<Fused256Values<Values256Mxfp4>>(quant::Type::MXFP4),
#endif
};

// null for types without one.
static const FusedFormat* fused_format(quant::Type type) {
  for (const FusedFormat& format : kFusedFormats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

// At most kFewRows activation rows; false where the type has no fused products or a prepared row does not fit.
static bool fused_rows(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, uint8_t* scratch) {
  const FusedFormat* format = fused_format(call.w.type);
  if (format == nullptr || n_tokens > kFewRows) return false;
  const int64_t fit =
      static_cast<int64_t>((kQ8ScratchBytes - 64) / FusedLayout(format->copies, format->sums, call.w.cols).bytes);
  if (fit == 0) return false;
  for (int64_t t = 0; t < n_tokens; t += fit) {
    format->product(call.from(t), row_begin, row_end, n_tokens - t < fit ? n_tokens - t : fit, scratch);
  }
  return true;
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
