// One, two and ternary digits: Q1_0, Q2_0, TQ1_0, TQ2_0. The layouts are those of quant/decode/{bits,ternary}.inl.h.
#pragma once

#include "kernels/cuda/formats/k.cuh"

namespace strata::kernels::cuda {

// Codes 0 and 2 for -d and d.
template <>
struct Format<quant::Type::Q1_0> : PairedRuns {
  static constexpr int kElems = 128;
  static constexpr int kBytes = 18;
  static constexpr int kGroup = 32;
  static constexpr bool kSuper = false;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[2]) {
    const float d = load_half(block);
    const uint32_t bits = load4(block + 2 + 4 * unit);
    for (int r = 0; r < 2; r++) {
      for (int i = 0; i < 4; i++) runs[r].codes[i] = bits_to_bytes(bits >> (16 * r + 4 * i)) << 1;
      runs[r].scale = d;
      runs[r].offset = -d;
    }
  }
};

// Four neighbouring elements in a byte.
template <>
struct Format<quant::Type::Q2_0> : PairedRuns {
  static constexpr int kElems = 64;
  static constexpr int kBytes = 18;
  static constexpr int kGroup = 32;
  static constexpr bool kSuper = false;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[2]) {
    const float d = load_half(block);
    uint32_t bits[2];
    load8(block + 2 + 8 * unit, bits);
    for (int r = 0; r < 2; r++) {
      for (int i = 0; i < 4; i++) {
        const uint32_t b = bits[r] >> (8 * i) & 255;
        runs[r].codes[i] = (b | b << 6 | b << 12 | b << 18) & 0x03030303u;
      }
      runs[r].scale = d;
      runs[r].offset = -d;
    }
  }
};

template <>
struct Format<quant::Type::TQ2_0> : TwoBitPlanes {
  static constexpr int kBytes = 66;
  static constexpr int kGroup = 16;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[2]) {
    two_bits(block, Place(unit), runs);
    const float d = load_half(block + 64);
    for (Run& run : runs) {
      run.scale = d;
      run.offset = -d;
    }
  }
};

// Five base-3 digits in a byte: digit n is the leading one of byte * 3^n mod 256. Runs 0-9 are digits 0-4 of the 32
// bytes of qs in two halves, 10-14 those of the 16 bytes behind, run 15 digits 0-3 of the four bytes of qh.
template <>
struct Format<quant::Type::TQ1_0> : SuperBlocks, SingleRuns {
  static constexpr int kBytes = 54;
  static constexpr int kGroup = 16;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[1]) {
    const Bytes from = block + (unit < 10 ? unit % 2 * 16 : unit < 15 ? 32 : 48);
    const int digit = unit < 10 ? unit / 2 : unit - 10;
    for (int i = 0; i < 4; i++) {
      const uint32_t bytes = load4(unit < 15 ? from + 4 * i : from);
      const int n = unit < 15 ? digit : i;
      const uint32_t power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
      uint32_t codes = 0;
      for (int j = 0; j < 4; j++) {
        const uint32_t x = (bytes >> (8 * j) & 255) * power & 255;
        codes |= (x * 3 >> 8) << (8 * j);
      }
      runs[0].codes[i] = codes;
    }
    const float d = load_half(block + 52);
    runs[0].scale = d;
    runs[0].offset = -d;
  }
};

}  // namespace strata::kernels::cuda
