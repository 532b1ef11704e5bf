// Blocks of 32 with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, and MXFP4 and NVFP4 with small float scales. Where
// codes are nibbles, byte j holds element j (low) and element j + 16 (high). The layouts are those of quant/decode.
#pragma once

#include "kernels/cuda/formats/format.cuh"

namespace strata::kernels::cuda {

// quant::kIq4nl and quant::kFp4X2 as words, which fit in registers.
struct Iq4nlTable {
  static constexpr uint32_t kWords[4] = {0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u};
};
struct Fp4X2Table {
  static constexpr uint32_t kWords[4] = {0x03020100u, 0x0C080604u, 0xFDFEFF00u, 0xF4F8FAFCu};
};

// Sixteen bytes of nibbles as the two runs of a block.
STRATA_DEVICE void split_nibbles(const Words4& qs, Run (&runs)[2]) {
  for (int i = 0; i < 4; i++) {
    runs[0].codes[i] = low_nibbles(qs.w[i]);
    runs[1].codes[i] = high_nibbles(qs.w[i]);
  }
}
STRATA_DEVICE void share_scale(float scale, float offset, Run (&runs)[2]) {
  for (Run& run : runs) {
    run.scale = scale;
    run.offset = offset;
  }
}
template <class Table>
STRATA_DEVICE void look_up_nibbles(const Words4& qs, Run (&runs)[2]) {
  for (int i = 0; i < 4; i++) {
    const Looked codes = look_up<Table>(qs.w[i]);
    runs[0].codes[i] = codes.low;
    runs[1].codes[i] = codes.high;
  }
}
STRATA_DEVICE void add_fifth_bits(uint32_t qh, Run (&runs)[2]) {
  for (int i = 0; i < 4; i++) {
    runs[0].codes[i] |= bits_to_bytes(qh >> (4 * i)) << 4;
    runs[1].codes[i] |= bits_to_bytes(qh >> (16 + 4 * i)) << 4;
  }
}

struct Blocks32 : PairedRuns {
  static constexpr int kElems = 32;
  static constexpr int kGroup = 32;
  static constexpr bool kSuper = false;
};

template <>
struct Format<quant::Type::Q4_0> : Blocks32 {
  static constexpr int kBytes = 18;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int, Run (&runs)[2]) {
    const float d = load_half(block);
    split_nibbles(load16(block + 2), runs);
    share_scale(d, -8 * d, runs);
  }
};

template <>
struct Format<quant::Type::Q4_1> : Blocks32 {
  static constexpr int kBytes = 20;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int, Run (&runs)[2]) {
    split_nibbles(load16(block + 4), runs);
    share_scale(load_half(block), load_half(block + 2), runs);
  }
};

template <>
struct Format<quant::Type::Q5_0> : Blocks32 {
  static constexpr int kBytes = 22;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int, Run (&runs)[2]) {
    const float d = load_half(block);
    split_nibbles(load16(block + 6), runs);
    add_fifth_bits(load4(block + 2), runs);
    share_scale(d, -16 * d, runs);
  }
};

template <>
struct Format<quant::Type::Q5_1> : Blocks32 {
  static constexpr int kBytes = 24;
  static constexpr bool kOffset = true;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int, Run (&runs)[2]) {
    split_nibbles(load16(block + 8), runs);
    add_fifth_bits(load4(block + 4), runs);
    share_scale(load_half(block), load_half(block + 2), runs);
  }
};

template <>
struct Format<quant::Type::Q8_0> : Blocks32 {
  static constexpr int kBytes = 34;
  static constexpr bool kOffset = false;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int, Run (&runs)[2]) {
    const Words8 qs = load32(block + 2);
    for (int i = 0; i < 4; i++) {
      runs[0].codes[i] = qs.w[i];
      runs[1].codes[i] = qs.w[4 + i];
    }
    share_scale(load_half(block), 0, runs);
  }
};

template <>
struct Format<quant::Type::IQ4_NL> : Blocks32 {
  static constexpr int kBytes = 18;
  static constexpr bool kOffset = false;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int, Run (&runs)[2]) {
    look_up_nibbles<Iq4nlTable>(load16(block + 2), runs);
    share_scale(load_half(block), 0, runs);
  }
};

// 2^(e - 128); exponents 0 and 1 give subnormals.
STRATA_DEVICE float half_e8m0(uint32_t e) { return float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); }

template <>
struct Format<quant::Type::MXFP4> : Blocks32 {
  static constexpr int kBytes = 17;
  static constexpr bool kOffset = false;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int, Run (&runs)[2]) {
    look_up_nibbles<Fp4X2Table>(load16(block + 1), runs);
    share_scale(half_e8m0(load1(block)), 0, runs);
  }
};

// Half of an unsigned E4M3 number; 0x7F means 0 here and bit 7 is not used.
STRATA_DEVICE float half_ue4m3(uint32_t x) {
  const uint32_t exponent = x >> 3 & 15, mantissa = x & 7;
  if ((x & 0x7F) == 0x7F) return 0;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return float_of_bits((exponent + 119) << 23 | mantissa << 20);
}

template <>
struct Format<quant::Type::NVFP4> : SingleRuns {
  static constexpr int kElems = 64;
  static constexpr int kBytes = 36;
  static constexpr int kGroup = 16;
  static constexpr bool kSuper = false;
  static constexpr bool kOffset = false;
  template <class Bytes>
  STRATA_DEVICE static void unpack(Bytes block, int unit, Run (&runs)[1]) {
    uint32_t qs[2];
    load8(block + 4 + 8 * unit, qs);
    for (int i = 0; i < 2; i++) {
      const Looked codes = look_up<Fp4X2Table>(qs[i]);
      runs[0].codes[i] = codes.low;
      runs[0].codes[2 + i] = codes.high;
    }
    runs[0].scale = half_ue4m3(load1(block + unit));
    runs[0].offset = 0;
  }
};

}  // namespace strata::kernels::cuda
