// Codebook formats: IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, and IQ4_XS with its table of sixteen values.
// The layouts are those of quant/decode/iq*.inl.h.
#pragma once

#include "kernels/cuda/formats/blocks32.cuh"
#include "kernels/cuda/formats/codebooks.cuh"
#include "kernels/cuda/formats/k.cuh"

namespace strata::kernels::cuda {

// A run of eight magnitudes in two words, negated where `signs` has bits.
STRATA_DEVICE void signed_eight(uint64_t magnitudes, uint32_t signs, uint32_t* codes) {
  codes[0] = negate_bytes(static_cast<uint32_t>(magnitudes), signs);
  codes[1] = negate_bytes(static_cast<uint32_t>(magnitudes >> 32), signs >> 4);
}

struct Codebook16 : SuperBlocks, SingleRuns {
  static constexpr int kGroup = 16;
  static constexpr bool kOffset = false;
};
struct Codebook32 : SuperBlocks, PairedRuns {
  static constexpr int kGroup = 32;
};

STRATA_DEVICE float iq2_scale(float d, uint32_t s) { return d * (0.5f + static_cast<float>(s)) * 0.25f; }

template <>
struct Format<quant::Type::IQ2_XXS> : Codebook32 {
  static constexpr int kBytes = 66;
  static constexpr bool kOffset = false;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[2]) {
    uint32_t group[2];
    load8(block + 2 + 8 * unit, group);
    const float scale = iq2_scale(load_half(block), group[1] >> 28);
    for (int r = 0; r < 2; r++) {
      for (int i = 0; i < 2; i++) {
        const int eight = 2 * r + i;
        signed_eight(tables::kIq2Xxs[group[0] >> (8 * eight) & 255],
                     tables::kSigns7[group[1] >> (7 * eight) & 127], runs[r].codes + 2 * i);
      }
      runs[r].scale = scale;
      runs[r].offset = 0;
    }
  }
};

template <class Bytes>
STRATA_DEVICE uint32_t nibble_of(Bytes bytes, int i) { return load1(bytes + i / 2) >> (i % 2 * 4) & 15; }

template <>
struct Format<quant::Type::IQ2_XS> : Codebook16 {
  static constexpr int kBytes = 74;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[1]) {
    const uint32_t both = load4(block + 2 + 4 * unit);
    for (int i = 0; i < 2; i++) {
      const uint32_t w = both >> (16 * i) & 0xFFFF;
      signed_eight(tables::kIq2Xs[w & 511], tables::kSigns7[w >> 9], runs[0].codes + 2 * i);
    }
    runs[0].scale = iq2_scale(load_half(block), nibble_of(block + 66, unit));
    runs[0].offset = 0;
  }
};

template <>
struct Format<quant::Type::IQ2_S> : Codebook16 {
  static constexpr int kBytes = 82;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[1]) {
    const uint32_t low = load2(block + 2 + 2 * unit);
    const uint32_t signs = load2(block + 34 + 2 * unit);
    const uint32_t upper = nibble_of(block + 66, unit);
    for (int i = 0; i < 2; i++) {
      const uint32_t index = (low >> (8 * i) & 255) | (upper >> (2 * i) & 3) << 8;
      signed_eight(tables::kIq2S[index], signs >> (8 * i), runs[0].codes + 2 * i);
    }
    runs[0].scale = iq2_scale(load_half(block), nibble_of(block + 74, unit));
    runs[0].offset = 0;
  }
};

template <>
struct Format<quant::Type::IQ3_XXS> : Codebook16 {
  static constexpr int kBytes = 98;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[1]) {
    const uint32_t qs = load4(block + 2 + 4 * unit);
    const uint32_t u = load4(block + 66 + unit / 2 * 4);
    for (int i = 0; i < 4; i++) {
      const uint32_t signs = tables::kSigns7[u >> (unit % 2 * 14 + i / 2 * 7) & 127];
      runs[0].codes[i] = negate_bytes(tables::kIq3Xxs[qs >> (8 * i) & 255], signs >> (i % 2 * 4));
    }
    runs[0].scale = load_half(block) * (0.5f + static_cast<float>(u >> 28)) * 0.5f;
    runs[0].offset = 0;
  }
};

template <>
struct Format<quant::Type::IQ3_S> : Codebook16 {
  static constexpr int kBytes = 110;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[1]) {
    const uint32_t qs = load4(block + 2 + 4 * unit);
    const uint32_t ninth = nibble_of(block + 66, unit);
    const uint32_t signs = load2(block + 74 + 2 * unit);
    for (int i = 0; i < 4; i++) {
      const uint32_t index = (qs >> (8 * i) & 255) | (ninth >> i & 1) << 8;
      runs[0].codes[i] = negate_bytes(tables::kIq3S[index], signs >> (4 * i));
    }
    runs[0].scale = load_half(block) * static_cast<float>(1 + 2 * nibble_of(block + 106, unit / 2));
    runs[0].offset = 0;
  }
};

STRATA_DEVICE float iq1_scale(float d, uint32_t s) { return d * static_cast<float>(2 * s + 1) * 0.125f; }
// Eight values of -1, 0, 1 in eighths; the mask keeps a byte's bits out of the next one.
STRATA_DEVICE void eighths(uint64_t values, uint32_t* codes) {
  codes[0] = (static_cast<uint32_t>(values) & 0x1F1F1F1Fu) << 3;
  codes[1] = (static_cast<uint32_t>(values >> 32) & 0x1F1F1F1Fu) << 3;
}

template <>
struct Format<quant::Type::IQ1_S> : Codebook32 {
  static constexpr int kBytes = 50;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[2]) {
    const uint32_t qs = load4(block + 2 + 4 * unit);
    const uint32_t w = load2(block + 34 + 2 * unit);
    const float scale = iq1_scale(load_half(block), w >> 12 & 7);
    for (int r = 0; r < 2; r++) {
      for (int i = 0; i < 2; i++) {
        const int eight = 2 * r + i;
        const uint32_t index = (qs >> (8 * eight) & 255) | (w >> (3 * eight) & 7) << 8;
        eighths(tables::kIq1[index], runs[r].codes + 2 * i);
      }
      runs[r].scale = scale;
      runs[r].offset = (w >> 15) != 0 ? -scale : scale;
    }
  }
};

template <>
struct Format<quant::Type::IQ1_M> : Codebook16 {
  static constexpr int kBytes = 56;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[1]) {
    uint32_t c[2];  // four words of 16 bits
    load8(block + 48, c);
    const float d = half_value((c[0] >> 12 & 15) | (c[0] >> 28) << 4 | (c[1] >> 12 & 15) << 8 | (c[1] >> 28) << 12);
    const uint32_t low = load2(block + 2 * unit);
    const uint32_t nibbles = load1(block + 32 + unit);
    for (int i = 0; i < 2; i++) {
      const uint32_t upper = nibbles >> (4 * i);
      uint32_t* codes = runs[0].codes + 2 * i;
      eighths(tables::kIq1[(low >> (8 * i) & 255) | (upper & 7) << 8], codes);
      const uint32_t shift = (upper & 8) != 0 ? 0xFFFFFFFFu : 0x01010101u;
      codes[0] = add_bytes(codes[0], shift);
      codes[1] = add_bytes(codes[1], shift);
    }
    const uint32_t word = unit / 4;
    runs[0].scale = iq1_scale(d, (word < 2 ? c[0] : c[1]) >> (16 * (word % 2) + unit % 4 * 3) & 7);
    runs[0].offset = 0;
  }
};

template <>
struct Format<quant::Type::IQ4_XS> : Codebook32 {
  static constexpr int kBytes = 136;
  static constexpr bool kOffset = false;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[2]) {
    look_up_nibbles<Iq4nlTable>(load16(block + 8 + 16 * unit), runs);
    const uint32_t bits = nibble_of(block + 4, unit) | (load2(block + 2) >> (2 * unit) & 3) << 4;
    share_scale(load_half(block) * static_cast<float>(static_cast<int>(bits) - 32), 0, runs);
  }
};

}  // namespace strata::kernels::cuda
