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
#include "kernels/cpu/q8/fused/planes.inl.h"
#include "kernels/cpu/q8/fused/prepare.inl.h"
#include "kernels/cpu/q8/fused/ternary.inl.h"

#if defined(__AVX2__)

namespace strata::kernels::STRATA_ISA_NS {

// The prepared row from `column` on, a multiple of the type's columns.
template <class Type>
inline FusedAct act_from(const FusedAct& a, int64_t column) {
  return {a.codes + column, a.sums + static_cast<size_t>(column) * sum_bytes(Type::kSums) / kSuperCols,
          a.d + column / (Type::kCols == kSuperCols ? kSuperCols : 32), a.codebook};
}

// A last stretch of fewer blocks is taken from a copy with zeros behind, whose scales and activations are zero.
template <class Type>
static __m128 add_tail(const FourRows& rows, size_t bytes, const FusedAct& a, __m128 y) {
  uint8_t copy[kFusedRows][Type::kBytes] = {};
  for (int r = 0; r < kFusedRows; r++) std::memcpy(copy[r], rows.at[r], bytes);
  return Type::add({{copy[0], copy[1], copy[2], copy[3]}}, a, y);
}

// Sums of four rows with each of n_tokens activation rows. The activations take turns at every block, so that weights
// are on their way all the time.
template <class Type>
inline void four_sums(FourRows rows, int64_t cols, size_t row_bytes, const FusedAct* a, int64_t n_tokens, __m128* y) {
  for (int64_t t = 0; t < n_tokens; t++) y[t] = _mm_setzero_ps();
  int64_t column = 0;
  for (; column + Type::kCols <= cols; column += Type::kCols) {
    prefetch_block<Type::kBytes>(rows);
    for (int64_t t = 0; t < n_tokens; t++) y[t] = Type::add(rows, act_from<Type>(a[t], column), y[t]);
    for (const uint8_t*& p : rows.at) p += Type::kBytes;
  }
  if constexpr (Type::kCols == kFourGroupCols) {
    if (column == cols) return;
    const size_t left = row_bytes - static_cast<size_t>(column / Type::kCols) * Type::kBytes;
    for (int64_t t = 0; t < n_tokens; t++) y[t] = add_tail<Type>(rows, left, act_from<Type>(a[t], column), y[t]);
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
    four_sums<Type>(rows, call.w.cols, row_bytes, a, n, y);
    for (int64_t t = 0; t < n; t++) store_four(call.out, y[t], t, first, quarter, row_end);
  }
}

// A few activation rows, as many as `scratch` holds prepared.
template <class Type>
static void fused_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, uint8_t* scratch) {
  FusedAct a[kFewRows];
  for (int64_t t = 0; t < n_tokens; t++) {
    a[t] = prepare(Type::kOrder, Type::kSums, call.format, call.w.cols, call.act(t, 0),
                   scratch + static_cast<size_t>(t) * FusedLayout(call.w.cols).bytes);
    if constexpr (requires { Type::make_codebook(); }) a[t].codebook = &Type::make_codebook();
  }
  if (n_tokens == 1) return prepared_product<Type, true>(call, row_begin, row_end, a, 1);
  prepared_product<Type, false>(call, row_begin, row_end, a, n_tokens);
}

struct FusedFormat {
  quant::Type type;
  void (*product)(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, uint8_t* scratch);
};

constexpr FusedFormat kFusedFormats[] = {
#if defined(__AVX512F__)
    {quant::Type::Q2_K, fused_product<FusedQ2K>},
    {quant::Type::Q3_K, fused_product<FusedQ3K>},
    {quant::Type::TQ1_0, fused_product<FusedTq10>},
    {quant::Type::TQ2_0, fused_product<FusedTq20>},
    {quant::Type::Q4_K, fused_product<FusedK4<false>>},
    {quant::Type::Q5_K, fused_product<FusedK4<true>>},
    {quant::Type::Q6_K, fused_product<FusedQ6K>},
    {quant::Type::IQ4_XS, fused_product<FusedIq4Xs>},
#if defined(__AVX512VBMI__) && defined(__GFNI__)
    {quant::Type::IQ1_S, fused_product<FusedGathered<Iq1S>>},
    {quant::Type::IQ1_M, fused_product<FusedGathered<Iq1M>>},
    {quant::Type::IQ2_XXS, fused_product<FusedIq2Xxs>},
    {quant::Type::IQ2_XS, fused_product<FusedGathered<Iq2Xs>>},
    {quant::Type::IQ2_S, fused_product<FusedGathered<Iq2S>>},
    {quant::Type::IQ3_XXS, fused_product<FusedIq3Xxs>},
    {quant::Type::IQ3_S, fused_product<FusedIq3S>},
#endif
    {quant::Type::Q8_0, fused_product<FusedQ80>},
    {quant::Type::Q4_0, fused_product<FusedNibbles<Q40>>},
    {quant::Type::Q4_1, fused_product<FusedNibbles<Q41>>},
    {quant::Type::Q5_0, fused_product<FusedNibbles<Q50>>},
    {quant::Type::Q5_1, fused_product<FusedNibbles<Q51>>},
    {quant::Type::IQ4_NL, fused_product<FusedNibbles<Iq4Nl>>},
    {quant::Type::NVFP4, fused_product<FusedNvfp4>},
    {quant::Type::Q1_0, fused_product<FusedQ10>},
    {quant::Type::Q2_0, fused_product<FusedQ20>},
    {quant::Type::MXFP4, fused_product<FusedNibbles<Mxfp4>>},
#else
    {quant::Type::Q2_K, fused_product<Fused256Q2K>},
    {quant::Type::Q3_K, fused_product<Fused256Q3K>},
    {quant::Type::Q4_K, fused_product<Fused256K4<false>>},
    {quant::Type::Q5_K, fused_product<Fused256K4<true>>},
    {quant::Type::Q6_K, fused_product<Fused256Q6K>},
    {quant::Type::IQ4_XS, fused_product<Fused256Iq4Xs>},
    {quant::Type::Q8_0, fused_product<Fused256Values<Values256Q80>>},
    {quant::Type::Q4_0, fused_product<Fused256Nibbles<Nibbles256Q40>>},
    {quant::Type::Q4_1, fused_product<Fused256Nibbles<Nibbles256Q41>>},
    {quant::Type::Q5_0, fused_product<Fused256Nibbles<Nibbles256Q50>>},
    {quant::Type::Q5_1, fused_product<Fused256Nibbles<Nibbles256Q51>>},
    {quant::Type::IQ4_NL, fused_product<Fused256Values<Values256Iq4Nl>>},
    {quant::Type::MXFP4, fused_product<Fused256Values<Values256Mxfp4>>},
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
  const int64_t fit = static_cast<int64_t>((kQ8ScratchBytes - 64) / FusedLayout(call.w.cols).bytes);
  if (format == nullptr || n_tokens > kFewRows || fit == 0) return false;
  for (int64_t t = 0; t < n_tokens; t += fit) {
    format->product(call.from(t), row_begin, row_end, n_tokens - t < fit ? n_tokens - t : fit, scratch);
  }
  return true;
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
