// Loads from packed blocks, which have no alignment, and arithmetic on four bytes at a time. Functions run on the host,
// too, where the tests hold them to quant's decoders.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#define STRATA_BOTH __host__ __device__ __forceinline__

namespace strata::kernels::cuda {

struct Words4 {
  uint32_t w[4];
};

#if defined(__CUDA_ARCH__)
// Words that hold the addressed bytes are read whole: never one without a byte of the load in it.
__device__ __forceinline__ const uint32_t* word_of(const uint8_t* p) {
  return reinterpret_cast<const uint32_t*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{3});
}
__device__ __forceinline__ unsigned bits_into_word(const uint8_t* p) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(p) & 3) * 8;
}
#endif

STRATA_BOTH uint32_t load1(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
  return __ldg(p);
#else
  return *p;
#endif
}

STRATA_BOTH uint32_t load2(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
  if ((reinterpret_cast<uintptr_t>(p) & 1) == 0) return __ldg(reinterpret_cast<const uint16_t*>(p));
  return __ldg(p) | static_cast<uint32_t>(__ldg(p + 1)) << 8;
#else
  uint16_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
#endif
}

STRATA_BOTH uint32_t load4(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
  const uint32_t* w = word_of(p);
  const unsigned shift = bits_into_word(p);
  const uint32_t low = __ldg(w);
  return shift == 0 ? low : __funnelshift_r(low, __ldg(w + 1), shift);
#else
  uint32_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
#endif
}

STRATA_BOTH void load8(const uint8_t* p, uint32_t* out) {
#if defined(__CUDA_ARCH__)
  const uint32_t* w = word_of(p);
  const unsigned shift = bits_into_word(p);
  const uint32_t a = __ldg(w), b = __ldg(w + 1);
  if (shift == 0) {
    out[0] = a;
    out[1] = b;
    return;
  }
  const uint32_t c = __ldg(w + 2);
  out[0] = __funnelshift_r(a, b, shift);
  out[1] = __funnelshift_r(b, c, shift);
#else
  std::memcpy(out, p, 8);
#endif
}

STRATA_BOTH Words4 load16(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
  if ((reinterpret_cast<uintptr_t>(p) & 15) == 0) {
    const uint4 x = __ldg(reinterpret_cast<const uint4*>(p));
    return {{x.x, x.y, x.z, x.w}};
  }
  const uint32_t* w = word_of(p);
  const unsigned shift = bits_into_word(p);
  const uint32_t a = __ldg(w), b = __ldg(w + 1), c = __ldg(w + 2), d = __ldg(w + 3);
  if (shift == 0) return {{a, b, c, d}};
  const uint32_t e = __ldg(w + 4);
  return {{__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift),
           __funnelshift_r(d, e, shift)}};
#else
  Words4 x;
  std::memcpy(x.w, p, sizeof x.w);
  return x;
#endif
}

STRATA_BOTH float float_of_bits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

STRATA_BOTH float half_value(uint32_t bits) {
  __half_raw raw;
  raw.x = static_cast<unsigned short>(bits);
  return __half2float(__half(raw));
}
STRATA_BOTH float load_half(const uint8_t* p) { return half_value(load2(p)); }

STRATA_BOTH float fused(float a, float b, float c) { return fmaf(a, b, c); }

STRATA_BOTH uint32_t low_nibbles(uint32_t x) { return x & 0x0F0F0F0Fu; }
STRATA_BOTH uint32_t high_nibbles(uint32_t x) { return x >> 4 & 0x0F0F0F0Fu; }

// Bit i of the low four bits of x in bit 0 of byte i.
STRATA_BOTH uint32_t bits_to_bytes(uint32_t x) { return (x & 15) * 0x00204081u & 0x01010101u; }

// Byte i of the result is the byte of b:a that the low three bits of nibble i of `select` name.
STRATA_BOTH uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t select) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(a, b, select);
#else
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; i++) out |= static_cast<uint32_t>(both >> (8 * (select >> (4 * i) & 7)) & 0xFF) << (8 * i);
  return out;
#endif
}

// The sum of two signed bytes in each byte.
STRATA_BOTH uint32_t add_bytes(uint32_t a, uint32_t b) {
  return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
}

// -x in the bytes whose sign bit (of the four in `signs`) is set; no byte of x may be 0.
STRATA_BOTH uint32_t negate_bytes(uint32_t x, uint32_t signs) {
  const uint32_t ones = bits_to_bytes(signs);
  return (x ^ ones * 0xFF) + ones;
}

// Entries of a table of sixteen bytes (Table::kWords) that eight nibbles name: those of the low nibbles in order, and
// those of the high ones.
struct Looked {
  uint32_t low, high;
};
template <class Table>
STRATA_BOTH Looked look_up(uint32_t nibbles) {
  constexpr uint32_t table[4] = {Table::kWords[0], Table::kWords[1], Table::kWords[2], Table::kWords[3]};
  // The upper bit of a nibble chooses between the halves of the table.
  const uint32_t within = nibbles & 0x77777777u;
  const uint32_t half = (nibbles & 0x88888888u) >> 1 | 0x32103210u;
  const uint32_t a = pick_bytes(pick_bytes(table[0], table[1], within), pick_bytes(table[2], table[3], within), half);
  const uint32_t b = pick_bytes(pick_bytes(table[0], table[1], within >> 16),
                                pick_bytes(table[2], table[3], within >> 16), half >> 16);
  return {pick_bytes(a, b, 0x6420), pick_bytes(a, b, 0x7531)};
}

}  // namespace strata::kernels::cuda
