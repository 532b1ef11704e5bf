// Products of a few activation rows straight from packed blocks: decoding a token is bound by how fast weights can be
// read, and every store to the cache on the way shows.
//
// The results are those of q8/rows.inl.h: the integers are the same, only their partial sums are laid out otherwise,
// and the float steps of a row are the same in the same order.
//
// Four rows are taken side by side, one from each quarter of the rows of a call. So a thread reads four streams that
// are far apart, which gets more out of memory than one: a prefetcher follows each, and none runs ahead past its page.
#pragma once

#include "kernels/cpu/q8/fused/blocks.inl.h"
#include "kernels/cpu/q8/fused/iq1.inl.h"
#include "kernels/cpu/q8/fused/iq2.inl.h"
#include "kernels/cpu/q8/fused/iq3.inl.h"
#include "kernels/cpu/q8/fused/iq4.inl.h"
#include "kernels/cpu/q8/fused/k.inl.h"
#include "kernels/cpu/q8/fused/planes.inl.h"
#include "kernels/cpu/q8/fused/ternary.inl.h"

#if defined(__AVX512F__)

namespace strata::kernels::STRATA_ISA_NS {

// Bytes that prepared sums take for each 256 columns.
constexpr size_t sum_bytes(FusedSums kind) {
  return kind == FusedSums::kRuns || kind == FusedSums::kOffsets16 ? 64 : 32;
}
constexpr size_t kSumBytesMax = 64;

// The parts of a prepared activation row, each a multiple of 64 bytes.
struct FusedLayout {
  size_t codes, sums, d, bytes;
  explicit FusedLayout(int64_t cols) {
    const size_t blocks = static_cast<size_t>((cols + kSuperCols - 1) / kSuperCols);
    codes = 0;
    sums = blocks * kSuperCols;
    d = sums + blocks * kSumBytesMax;
    bytes = d + (blocks * 8 * sizeof(float) + 63) / 64 * 64;
  }
};

#if defined(__AVX512VBMI__)
// Of 256 codes, column 0 of each kStride, then column 1 of each, and so on.
template <int kStride>
static void transpose_codes(const int8_t* codes, uint8_t* to) {
  constexpr int kRuns = 64 / kStride;  // of a vector
  alignas(64) uint8_t index[64];
  for (int i = 0; i < 64; i++) index[i] = static_cast<uint8_t>(kStride * (i % kRuns) + i / kRuns);
  for (int part = 0; part < kSuperCols / 64; part++) {
    alignas(64) uint8_t columns[64];
    _mm512_store_si512(columns, _mm512_permutexvar_epi8(load512(index), load512(codes + 64 * part)));
    for (int c = 0; c < kStride; c++) std::memcpy(to + (4 * c + part) * kRuns, columns + c * kRuns, kRuns);
  }
}
#endif

// 256 codes in the type's order.
static void prepare_codes(const ActOrder& order, const int8_t* codes, uint8_t* to) {
#if defined(__AVX512VBMI__)
  if (order.stride == 8) return transpose_codes<8>(codes, to);
  if (order.stride == 4) return transpose_codes<4>(codes, to);
#endif
  for (int i = 0; i < 16; i++) std::memcpy(to + 16 * i, codes + 16 * order.piece[i], 16);
}

// Prepared sums of 256 columns from the sums of each 16.
static void prepare_sums(FusedSums kind, int offset, const int8_t* codes, const int16_t* sums16, uint8_t* to) {
  const auto sum32 = [&](int g) { return sums16[2 * g] + sums16[2 * g + 1]; };
  int16_t words[32] = {};
  int32_t offsets[16] = {};
  float floats[8] = {};
  switch (kind) {
    case FusedSums::kNone:
      return;
    case FusedSums::kMins32:
      for (int g = 0; g < 8; g++) words[8 * (g / 4) + 4 + g % 4] = static_cast<int16_t>(sum32(g));
      std::memcpy(to, words, 32);
      return;
    case FusedSums::kPlain16:
      std::memcpy(to, sums16, 32);
      return;
    case FusedSums::kOffset:
      for (int g = 0; g < 8; g++) offsets[0] -= offset * sum32(g);
      std::memcpy(to, offsets, sizeof offsets[0]);
      return;
    case FusedSums::kNegated16:
      for (int g = 0; g < 16; g++) words[g] = static_cast<int16_t>(-sums16[g]);
      std::memcpy(to, words, 32);
      return;
    case FusedSums::kRuns:
      for (int i = 0; i < 32; i++) {
        for (int j = 0; j < 8; j++) words[i] = static_cast<int16_t>(words[i] + codes[8 * i + j]);
      }
      std::memcpy(to, words, sizeof words);
      return;
    case FusedSums::kOffsets16:
      for (int g = 0; g < 16; g++) offsets[g] = -offset * sums16[g];
      std::memcpy(to, offsets, sizeof offsets);
      return;
    case FusedSums::kOffsets32:
      for (int g = 0; g < 8; g++) offsets[g] = -offset * sum32(g);
      std::memcpy(to, offsets, 32);
      return;
    case FusedSums::kFloats32:
      for (int g = 0; g < 8; g++) floats[g] = static_cast<float>(sum32(g));
      std::memcpy(to, floats, sizeof floats);
      return;
  }
}

// Prepares a whole activation row.
static FusedAct prepare(const ActOrder& order, FusedSums kind, const Q8Format& format, int64_t cols, const ActRow& from,
                        uint8_t* to) {
  const FusedLayout at(cols);
  const int offset = format.kind == ActFormat::kSuper ? format.super.offset : format.block.offset;
  for (int64_t column = 0; column < cols; column += kSuperCols) {
    const int64_t left = act_cols(cols) - column;
    int8_t codes[kSuperCols] = {};
    int16_t sums[kSuperGroups] = {};
    std::memcpy(codes, from.codes + column, static_cast<size_t>(left < kSuperCols ? left : kSuperCols));
    std::memcpy(sums, from.sums + column / 16, static_cast<size_t>(left < kSuperCols ? left : kSuperCols) / 16 * 2);
    prepare_codes(order, codes, to + at.codes + column);
    prepare_sums(kind, offset, codes, sums, to + at.sums + static_cast<size_t>(column) / kSuperCols * sum_bytes(kind));
  }
  std::memset(to + at.d, 0, at.bytes - at.d);
  std::memcpy(to + at.d, from.d, static_cast<size_t>(act_scales(format.kind, cols)) * sizeof(float));
  return {reinterpret_cast<const int8_t*>(to + at.codes), to + at.sums, reinterpret_cast<const float*>(to + at.d),
          nullptr};
}

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

template <class Type>
inline __m128 four_sums(FourRows rows, int64_t cols, size_t row_bytes, const FusedAct& a) {
  __m128 y = _mm_setzero_ps();
  int64_t column = 0;
  for (; column + Type::kCols <= cols; column += Type::kCols) {
    prefetch_block<Type::kBytes>(rows);
    y = Type::add(rows, act_from<Type>(a, column), y);
    for (const uint8_t*& p : rows.at) p += Type::kBytes;
  }
  if (column == cols) return y;
  const size_t whole = static_cast<size_t>(column / Type::kCols) * Type::kBytes;
  return add_tail<Type>(rows, row_bytes - whole, act_from<Type>(a, column), y);
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

// A few activation rows, as many as `scratch` holds prepared.
template <class Type>
static void fused_product(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, uint8_t* scratch) {
  FusedAct a[kFewRows];
  for (int64_t t = 0; t < n_tokens; t++) {
    a[t] = prepare(Type::kOrder, Type::kSums, call.format, call.w.cols, call.act(t, 0),
                   scratch + static_cast<size_t>(t) * FusedLayout(call.w.cols).bytes);
    if constexpr (requires { Type::make_codebook(); }) a[t].codebook = &Type::make_codebook();
  }
  const size_t row_bytes = static_cast<size_t>(call.packed(0, call.w.cols) - call.packed(0, 0));
  const int64_t quarter = (row_end - row_begin + kFusedRows - 1) / kFusedRows;
  for (int64_t first = row_begin; first < row_begin + quarter; first++) {
    FourRows rows;
    for (int64_t q = 0; q < kFusedRows; q++) {
      const int64_t row = first + q * quarter;
      rows.at[q] = call.packed(row < row_end ? row : row_end - 1, 0);
    }
    for (int64_t t = 0; t < n_tokens; t++) {
      store_four(call.out, four_sums<Type>(rows, call.w.cols, row_bytes, a[t]), t, first, quarter, row_end);
    }
  }
}

struct FusedFormat {
  quant::Type type;
  void (*product)(const Q8Call& call, int64_t row_begin, int64_t row_end, int64_t n_tokens, uint8_t* scratch);
};

constexpr FusedFormat kFusedFormats[] = {
    {quant::Type::Q2_K, fused_product<FusedQ2K>},
    {quant::Type::Q3_K, fused_product<FusedQ3K>},
    {quant::Type::TQ1_0, fused_product<FusedTq10>},
    {quant::Type::TQ2_0, fused_product<FusedTq20>},
    {quant::Type::Q4_K, fused_product<FusedK4<false>>},
    {quant::Type::Q5_K, fused_product<FusedK4<true>>},
    {quant::Type::Q6_K, fused_product<FusedQ6K>},
    {quant::Type::IQ4_XS, fused_product<FusedIq4Xs>},
#if defined(__AVX512VBMI__)
    {quant::Type::Q2_0, fused_product<FusedVectors<Q20>>},
#endif
#if defined(__AVX512VBMI__) && defined(__GFNI__)
    {quant::Type::IQ1_S, fused_product<FusedIq1<Iq1S>>},
    {quant::Type::IQ1_M, fused_product<FusedIq1<Iq1M>>},
    {quant::Type::IQ2_XXS, fused_product<FusedIq2<Iq2Xxs>>},
    {quant::Type::IQ2_XS, fused_product<FusedIq2<Iq2Xs>>},
    {quant::Type::IQ2_S, fused_product<FusedIq2<Iq2S>>},
    {quant::Type::IQ3_XXS, fused_product<FusedIq3<Iq3Xxs>>},
    {quant::Type::IQ3_S, fused_product<FusedIq3<Iq3S>>},
#endif
    {quant::Type::Q8_0, fused_product<FusedVectors<Q80>>},
    {quant::Type::Q4_0, fused_product<FusedNibbles<Q40>>},
    {quant::Type::Q4_1, fused_product<FusedNibbles<Q41>>},
    {quant::Type::Q5_0, fused_product<FusedNibbles<Q50>>},
    {quant::Type::Q5_1, fused_product<FusedNibbles<Q51>>},
    {quant::Type::IQ4_NL, fused_product<FusedNibbles<Iq4Nl>>},
    {quant::Type::NVFP4, fused_product<FusedNvfp4>},
    {quant::Type::Q1_0, fused_product<FusedVectors<Q10>>},
    {quant::Type::MXFP4, fused_product<FusedNibbles<Mxfp4>>},
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
