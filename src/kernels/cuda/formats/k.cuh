// Super-blocks of 256 with scales per group of 16 or 32: Q2_K to Q6_K. The layouts are those of quant/decode/k.inl.h.
#pragma once

#include "kernels/cuda/formats/format.cuh"

namespace strata::kernels::cuda {

struct SuperBlocks {
  static constexpr int kElems = 256;
  static constexpr bool kSuper = true;
};

// Two bits of the planes of Q2_K: 16 bytes hold four planes, 32 columns apart; a unit is two neighbouring planes.
struct TwoBitPlanes : SuperBlocks {
  static constexpr int kRuns = 2;
  struct Place {
    int half, plane, side;  // of the 256, of four (the first one), of 32 columns
    STRATA_DEVICE explicit Place(int unit) : half(unit / 4), plane(unit / 2 % 2 * 2), side(unit % 2) {}
  };
  STRATA_DEVICE static int column(int unit, int run) {
    const Place at(unit);
    return 128 * at.half + 32 * (at.plane + run) + 16 * at.side;
  }
  template <class Bytes>
  STRATA_DEVICE static void two_bits(Bytes qs, const Place& at, Run (&runs)[2]) {
    const Words4 bits = load16(qs + 32 * at.half + 16 * at.side);
    for (int i = 0; i < 4; i++) {
      runs[0].codes[i] = bits.w[i] >> (2 * at.plane) & 0x03030303u;
      runs[1].codes[i] = bits.w[i] >> (2 * at.plane + 2) & 0x03030303u;
    }
  }
};

template <>
struct Format<quant::Type::Q2_K> : TwoBitPlanes {
  static constexpr int kBytes = 84;
  static constexpr int kGroup = 16;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[2]) {
    const Place at(unit);
    two_bits(block + 16, at, runs);
    const float d = load_half(block + 80), dmin = load_half(block + 82);
    for (int r = 0; r < 2; r++) {
      const uint32_t both = load1(block + 8 * at.half + 2 * (at.plane + r) + at.side);
      runs[r].scale = d * static_cast<float>(both & 15);
      runs[r].offset = -dmin * static_cast<float>(both >> 4);
    }
  }
};

template <>
struct Format<quant::Type::Q3_K> : TwoBitPlanes {
  static constexpr int kBytes = 110;
  static constexpr int kGroup = 16;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[2]) {
    const Place at(unit);
    two_bits(block + 32, at, runs);
    const Words4 third = load16(block + 16 * at.side);
    const float d = load_half(block + 108);
    for (int r = 0; r < 2; r++) {
      const int plane = 4 * at.half + at.plane + r;
      for (int i = 0; i < 4; i++) runs[r].codes[i] |= (third.w[i] >> plane & 0x01010101u) << 2;
      runs[r].scale = d * static_cast<float>(group_scale(block + 96, 8 * at.half + 2 * (at.plane + r) + at.side));
      runs[r].offset = -4 * runs[r].scale;
    }
  }

 private:
  // Sixteen 6-bit scales: low nibbles in the nibbles of bytes 0-7, upper two bits in bytes 8-11.
  template <class Bytes>
  STRATA_DEVICE static int group_scale(Bytes s, int group) {
    const uint32_t low = load1(s + group % 8) >> (group / 8 * 4) & 15;
    const uint32_t high = load1(s + 8 + group % 4) >> (group / 4 * 2) & 3;
    return static_cast<int>(low | high << 4) - 32;
  }
};

// Groups of 32: 32 bytes of nibbles hold an even group and the next one; a unit is both.
struct NibbleGroups : SuperBlocks {
  static constexpr int kRuns = 4;
  static constexpr int kGroup = 32;
  static constexpr bool kOffset = true;
  STRATA_DEVICE static int column(int unit, int run) { return 64 * unit + 16 * run; }
  template <class Bytes>
  STRATA_DEVICE static void nibbles(Bytes qs, int unit, Run (&runs)[4]) {
#pragma unroll
    for (int side = 0; side < 2; side++) {
      const Words4 both = load16(qs + 32 * unit + 16 * side);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        runs[side].codes[i] = low_nibbles(both.w[i]);
        runs[2 + side].codes[i] = high_nibbles(both.w[i]);
      }
    }
  }
  // f16 d, f16 dmin, then eight 6-bit scales and mins in 12 bytes; `head` are these sixteen bytes.
  STRATA_DEVICE static void scales(const Words4& head, int unit, Run (&runs)[4]) {
    const float d = half_value(head.w[0] & 0xFFFF), dmin = half_value(head.w[0] >> 16);
    const bool upper = unit >= 2;
    const uint32_t scales = upper ? low_nibbles(head.w[3]) | (head.w[1] >> 2 & 0x30303030u) : head.w[1] & 0x3F3F3F3Fu;
    const uint32_t mins = upper ? high_nibbles(head.w[3]) | (head.w[2] >> 2 & 0x30303030u) : head.w[2] & 0x3F3F3F3Fu;
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const int shift = unit % 2 * 16 + r / 2 * 8;
      runs[r].scale = d * static_cast<float>(scales >> shift & 63);
      runs[r].offset = -dmin * static_cast<float>(mins >> shift & 63);
    }
  }
};

template <>
struct Format<quant::Type::Q4_K> : NibbleGroups {
  static constexpr int kBytes = 144;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[4]) {
    nibbles(block + 16, unit, runs);
    scales(load16(block), unit, runs);
  }
};

template <>
struct Format<quant::Type::Q5_K> : NibbleGroups {
  static constexpr int kBytes = 176;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[4]) {
    nibbles(block + 48, unit, runs);
#pragma unroll
    for (int side = 0; side < 2; side++) {
      const Words4 fifth = load16(block + 16 + 16 * side);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const uint32_t bits = fifth.w[i] >> (2 * unit);
        runs[side].codes[i] |= (bits & 0x01010101u) << 4;
        runs[2 + side].codes[i] |= (bits >> 1 & 0x01010101u) << 4;
      }
    }
    scales(load16(block), unit, runs);
  }
};

// 64 bytes of nibbles serve 128 columns: planes 0 and 1 in the low nibbles of its halves, 2 and 3 in the high ones; the
// upper two bits lie in planes as in Q2_K. A unit is 32 bytes of nibbles: two planes.
template <>
struct Format<quant::Type::Q6_K> : SuperBlocks {
  static constexpr int kBytes = 210;
  static constexpr int kRuns = 4;
  static constexpr int kGroup = 16;
  static constexpr bool kOffset = true;
  STRATA_DEVICE static int column(int unit, int run) {
    return unit / 2 * 128 + run / 2 * 64 + unit % 2 * 32 + run % 2 * 16;
  }
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[4]) {
    const int half = unit / 2, plane = unit % 2;
    const Words8 both = load32(block + 32 * unit), upper = load32(block + 128 + 32 * half);
#pragma unroll
    for (int side = 0; side < 2; side++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const uint32_t nibbles = both.w[4 * side + i], bits = upper.w[4 * side + i] >> (2 * plane);
        runs[side].codes[i] = low_nibbles(nibbles) | (bits & 0x03030303u) << 4;
        runs[2 + side].codes[i] = high_nibbles(nibbles) | (bits & 0x30303030u);
      }
    }
    const float d = load_half(block + 208);
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const auto scale = static_cast<int8_t>(load1(block + 192 + 8 * half + 2 * plane + r / 2 * 4 + r % 2));
      runs[r].scale = d * static_cast<float>(scale);
      runs[r].offset = -32 * runs[r].scale;
    }
  }
};

}  // namespace strata::kernels::cuda
