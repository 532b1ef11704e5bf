// Activation rows in the order of a type's codes, with the sums that its products need: made once for all weight rows
// of a call.
#pragma once

#include "kernels/cpu/q8/fused/act.inl.h"

#if defined(__AVX2__)

namespace strata::kernels::STRATA_ISA_NS {

// Bytes that prepared sums take for each 256 columns.
constexpr size_t sum_bytes(FusedSums kind) {
  if (kind == FusedSums::kSpreadOffsets32 || kind == FusedSums::kLaneOffsets) return 128;
  const bool lanes = kind == FusedSums::kOffsets16 || kind == FusedSums::kSplitOffsets16;
  return lanes || kind == FusedSums::kTwinOffsets32 ? 64 : 32;
}

// The parts of a prepared activation row, each a multiple of 64 bytes.
struct FusedLayout {
  size_t codes, sums, d, bytes;
  FusedLayout(int copies, FusedSums kind, int64_t cols) {
    const size_t blocks = static_cast<size_t>((cols + kSuperCols - 1) / kSuperCols);
    const auto lines = [](size_t n) { return (n + 63) / 64 * 64; };
    codes = 0;
    sums = blocks * kSuperCols * static_cast<size_t>(copies);
    d = sums + lines(blocks * sum_bytes(kind));
    bytes = d + lines(blocks * 8 * sizeof(float));
  }
};

// Hands that columns are dealt to, and how many columns at a time.
constexpr int deal_hands(ActDeal deal) {
  const bool eight = deal == ActDeal::kEighths || deal == ActDeal::kEighthsOf128 || deal == ActDeal::kSplitRunPairs ||
                     deal == ActDeal::kSplitFourths;
  return eight ? 8 : 4;
}
constexpr int deal_cols(ActDeal deal) {
  if (deal == ActDeal::kFourthsOf64) return 64;
  return deal == ActDeal::kEighthsOf128 ? 128 : kSuperCols;
}

// Which of 64 columns come one after the other when they are dealt out.
struct DealtColumns {
  alignas(64) uint8_t at[64];
};
template <ActDeal kDeal>
constexpr DealtColumns dealt_columns() {
  constexpr int kHands = deal_hands(kDeal), kShare = 64 / kHands;
  DealtColumns columns{};
  for (int i = 0; i < 64; i++) {
    const int hand = i / kShare, card = i % kShare;
    int column = kHands * card + hand;
    if (kDeal == ActDeal::kRunPairs) column = 16 * (card / 4) + 8 * (hand / 2) + 2 * (card % 4) + hand % 2;
    if (kDeal == ActDeal::kSplitRunPairs) {
      column = 32 * (hand % 2) + 16 * (card / 4) + 8 * (hand / 4) + 2 * (card % 4) + hand / 2 % 2;
    }
    if (kDeal == ActDeal::kSplitFourths) column = 32 * (hand % 2) + 4 * card + hand / 2;
    columns.at[i] = static_cast<uint8_t>(column);
  }
  return columns;
}

// 256 codes: of each 64 a share of every hand.
template <ActDeal kDeal>
static void deal_codes(const int8_t* codes, uint8_t* to) {
  static constexpr DealtColumns kColumns = dealt_columns<kDeal>();
  constexpr int kHands = deal_hands(kDeal), kShare = 64 / kHands, kParts = deal_cols(kDeal) / 64;
  for (int part = 0; part < kSuperCols / 64; part++) {
    alignas(64) uint8_t dealt[64];
#if defined(__AVX512VBMI__)
    _mm512_store_si512(dealt, _mm512_permutexvar_epi8(load512(kColumns.at), load512(codes + 64 * part)));
#else
    for (int i = 0; i < 64; i++) dealt[i] = static_cast<uint8_t>(codes[64 * part + kColumns.at[i]]);
#endif
    uint8_t* first = to + 64 * (part / kParts * kParts) + part % kParts * kShare;
    for (int hand = 0; hand < kHands; hand++) {
      std::memcpy(first + hand * kParts * kShare, dealt + hand * kShare, kShare);
    }
  }
}

// 256 codes dealt out to eighths, each four of them twice.
static void deal_twins(const int8_t* codes, uint8_t* to) {
  uint8_t dealt[kSuperCols];
  deal_codes<ActDeal::kEighths>(codes, dealt);
  for (int i = 0; i < kSuperCols; i += 4) {
    std::memcpy(to + 2 * i, dealt + i, 4);
    std::memcpy(to + 2 * i + 4, dealt + i, 4);
  }
}

// 256 codes in the type's order.
static void prepare_codes(const ActOrder& order, const int8_t* codes, uint8_t* to) {
  switch (order.deal) {
    case ActDeal::kNone:
      for (int i = 0; i < 16; i++) std::memcpy(to + 16 * i, codes + 16 * order.piece[i], 16);
      return;
    case ActDeal::kFourths:
      return deal_codes<ActDeal::kFourths>(codes, to);
    case ActDeal::kEighths:
      return deal_codes<ActDeal::kEighths>(codes, to);
    case ActDeal::kTwinEighths:
      return deal_twins(codes, to);
    case ActDeal::kFourthsOf64:
      return deal_codes<ActDeal::kFourthsOf64>(codes, to);
    case ActDeal::kEighthsOf128:
      return deal_codes<ActDeal::kEighthsOf128>(codes, to);
    case ActDeal::kSplitFourths:
      return deal_codes<ActDeal::kSplitFourths>(codes, to);
    case ActDeal::kSplitRunPairs:
      return deal_codes<ActDeal::kSplitRunPairs>(codes, to);
    case ActDeal::kRunPairs:
      return deal_codes<ActDeal::kRunPairs>(codes, to);
  }
}

// Of 256 codes in the type's order: what lanes multiply.
static void lane_offsets(int offset, const int8_t* codes, uint8_t* to) {
#if defined(__AVX512F__)
  const __m512i ones = _mm512_set1_epi8(1), factor = _mm512_set1_epi32(-offset);
  for (int i = 0; i < 2; i++, codes += 128) {
    const __m512i sums = _mm512_add_epi32(dot4_small(ones, load512(codes)), dot4_small(ones, load512(codes + 64)));
    _mm512_storeu_si512(to + 64 * i, _mm512_mullo_epi32(sums, factor));
  }
#else
  int32_t offsets[32] = {};
  for (int i = 0; i < kSuperCols; i++) offsets[i / 128 * 16 + i % 64 / 4] -= offset * codes[i];
  std::memcpy(to, offsets, sizeof offsets);
#endif
}

// From sums of 16: of groups of 32, each four times.
static void spread_offsets(int offset, const int16_t* sums16, uint8_t* to) {
#if defined(__AVX512F__)
  const __m256i factor = _mm256_set1_epi16(static_cast<int16_t>(-offset));
  const __m512i groups = _mm512_zextsi256_si512(_mm256_madd_epi16(load256(sums16), factor));
  for (int i = 0; i < 2; i++) {
    const __m512i index =
        _mm512_add_epi32(_mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0), _mm512_set1_epi32(4 * i));
    _mm512_storeu_si512(to + 64 * i, _mm512_maskz_permutexvar_epi32(0xFFFF, index, groups));
  }
#else
  int32_t offsets[32];
  for (int i = 0; i < 32; i++) offsets[i] = -offset * (sums16[i / 4 * 2] + sums16[i / 4 * 2 + 1]);
  std::memcpy(to, offsets, sizeof offsets);
#endif
}

// Prepared sums of 256 columns from the sums of each 16 and the codes in the type's order.
static void prepare_sums(FusedSums kind, int offset, const int16_t* sums16, const int8_t* codes, uint8_t* to) {
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
    case FusedSums::kPlain32:
      for (int g = 0; g < 8; g++) words[g] = static_cast<int16_t>(sum32(g));
      std::memcpy(to, words, 16);
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
    case FusedSums::kOffsets16:
      for (int g = 0; g < 16; g++) offsets[g] = -offset * sums16[g];
      std::memcpy(to, offsets, 64);
      return;
    case FusedSums::kSplitOffsets16:
      for (int l = 0; l < 16; l++) offsets[l] = -offset * sums16[l / 2 % 4 * 4 + l / 8 * 2 + l % 2];
      std::memcpy(to, offsets, 64);
      return;
    case FusedSums::kOffsets32:
      for (int g = 0; g < 8; g++) offsets[g] = -offset * sum32(g);
      std::memcpy(to, offsets, 32);
      return;
    case FusedSums::kTwinOffsets32:
      for (int g = 0; g < 16; g++) offsets[g] = -offset * sum32(g / 2);
      std::memcpy(to, offsets, 64);
      return;
    case FusedSums::kSpreadOffsets32:
      return spread_offsets(offset, sums16, to);
    case FusedSums::kLaneOffsets:
      return lane_offsets(offset, codes, to);
    case FusedSums::kFloats32:
      for (int g = 0; g < 8; g++) floats[g] = static_cast<float>(sum32(g));
      std::memcpy(to, floats, sizeof floats);
      return;
  }
}

// Prepares a whole activation row.
static FusedAct prepare(const ActOrder& order, FusedSums kind, const Q8Format& format, int64_t cols, const ActRow& from,
                        uint8_t* to) {
  const int copies = act_copies(order);
  const FusedLayout at(copies, kind, cols);
  const int offset = format.kind == ActFormat::kSuper ? format.super.offset : format.block.offset;
  for (int64_t column = 0; column < cols; column += kSuperCols) {
    const int64_t left = act_cols(cols) - column;
    int8_t codes[kSuperCols] = {};
    int16_t sums[kSuperGroups] = {};
    std::memcpy(codes, from.codes + column, static_cast<size_t>(left < kSuperCols ? left : kSuperCols));
    std::memcpy(sums, from.sums + column / 16, static_cast<size_t>(left < kSuperCols ? left : kSuperCols) / 16 * 2);
    uint8_t* ordered = to + at.codes + column * copies;
    prepare_codes(order, codes, ordered);
    prepare_sums(kind, offset, sums, reinterpret_cast<const int8_t*>(ordered),
                 to + at.sums + static_cast<size_t>(column) / kSuperCols * sum_bytes(kind));
  }
  std::memset(to + at.d, 0, at.bytes - at.d);
  std::memcpy(to + at.d, from.d, static_cast<size_t>(act_scales(format.kind, cols)) * sizeof(float));
  return {reinterpret_cast<const int8_t*>(to + at.codes), to + at.sums, reinterpret_cast<const float*>(to + at.d),
          nullptr};
}

}  // namespace strata::kernels::STRATA_ISA_NS

#endif
