// Loads from packed blocks, which have no alignment, and arithmetic on four bytes at a time.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#define STRATA_DEVICE __device__ __forceinline__

namespace strata::kernels::cuda {

struct Words4 {
  uint32_t w[4];
};

// Loads read aligned words, and sixteen aligned bytes, whole: never any without a byte of what was asked for, so memory
// has to be readable up to the next multiple of sixteen bytes.
STRATA_DEVICE const uint32_t* word_of(const uint8_t* p) {
  return reinterpret_cast<const uint32_t*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{3});
}
STRATA_DEVICE unsigned bits_into_word(const uint8_t* p) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(p) & 3) * 8;
}

STRATA_DEVICE uint32_t load1(const uint8_t* p) { return __ldg(p); }

STRATA_DEVICE uint32_t load2(const uint8_t* p) {
  if ((reinterpret_cast<uintptr_t>(p) & 1) == 0) return __ldg(reinterpret_cast<const uint16_t*>(p));
  return __ldg(p) | static_cast<uint32_t>(__ldg(p + 1)) << 8;
}

STRATA_DEVICE uint32_t load4(const uint8_t* p) {
  const uint32_t* w = word_of(p);
  const unsigned shift = bits_into_word(p);
  const uint32_t low = __ldg(w);
  return shift == 0 ? low : __funnelshift_r(low, __ldg(w + 1), shift);
}

STRATA_DEVICE void load8(const uint8_t* p, uint32_t* out) {
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
}

// Four words that start `at % 16` bytes into eight.
STRATA_DEVICE Words4 words_within(const uint4& a, const uint4& b, uintptr_t at) {
  const bool two = (at & 8) != 0, one = (at & 4) != 0;  // words to leave out
  const uint32_t v0 = two ? a.z : a.x, v1 = two ? a.w : a.y, v2 = two ? b.x : a.z;
  const uint32_t v3 = two ? b.y : a.w, v4 = two ? b.z : b.x, v5 = two ? b.w : b.y;
  const uint32_t u0 = one ? v1 : v0, u1 = one ? v2 : v1, u2 = one ? v3 : v2, u3 = one ? v4 : v3, u4 = one ? v5 : v4;
  const auto shift = static_cast<unsigned>(at & 3) * 8;
  return {{__funnelshift_r(u0, u1, shift), __funnelshift_r(u1, u2, shift), __funnelshift_r(u2, u3, shift),
           __funnelshift_r(u3, u4, shift)}};
}

// Aligned loads of sixteen bytes around what is asked for, joined: fewer transactions than loads of four bytes.
STRATA_DEVICE Words4 load16(const uint8_t* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const auto* aligned = reinterpret_cast<const uint4*>(at & ~uintptr_t{15});
  const uint4 a = __ldg(aligned);
  if ((at & 15) == 0) return {{a.x, a.y, a.z, a.w}};
  return words_within(a, __ldg(aligned + 1), at);
}

struct Words8 {
  uint32_t w[8];
};
STRATA_DEVICE Words8 load32(const uint8_t* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const auto* aligned = reinterpret_cast<const uint4*>(at & ~uintptr_t{15});
  const uint4 a = __ldg(aligned), b = __ldg(aligned + 1);
  if ((at & 15) == 0) return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  const Words4 low = words_within(a, b, at), high = words_within(b, __ldg(aligned + 2), at);
  return {{low.w[0], low.w[1], low.w[2], low.w[3], high.w[0], high.w[1], high.w[2], high.w[3]}};
}

STRATA_DEVICE float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }

STRATA_DEVICE float half_value(uint32_t bits) {
  __half_raw raw;
  raw.x = static_cast<unsigned short>(bits);
  return __half2float(__half(raw));
}

// Blocks that were copied to shared memory, at the same place within sixteen bytes as they had. kAlignment: 16 where
// loads of sixteen bytes and more are aligned, 2 where blocks are at even addresses, else 1. A load may read up to four
// bytes behind what is asked for.
template <int kAlignment>
struct StagedBytes {
  const uint8_t* at;
  STRATA_DEVICE StagedBytes operator+(int bytes) const { return {at + bytes}; }
};

// Of words that lie side by side, the kN that start `bytes` % 4 into the first.
template <int kN, int kAlignment>
STRATA_DEVICE void load_words(StagedBytes<kAlignment> p, uint32_t (&out)[kN]) {
  const unsigned shift = bits_into_word(p.at);
  const auto* w =
      reinterpret_cast<const uint32_t*>(p.at - shift / 8);  // keeps to shared memory, as word_of() would not
  uint32_t low = w[0];
#pragma unroll
  for (int i = 0; i < kN; i++) {
    const uint32_t high = w[i + 1];
    out[i] = __funnelshift_r(low, high, shift);
    low = high;
  }
}
template <int kAlignment>
STRATA_DEVICE uint32_t load1(StagedBytes<kAlignment> p) {
  return *p.at;
}
template <int kAlignment>
STRATA_DEVICE uint32_t load2(StagedBytes<kAlignment> p) {
  if constexpr (kAlignment > 1) return *reinterpret_cast<const uint16_t*>(p.at);
  const uint32_t low = p.at[0], high = p.at[1];
  return low | high << 8;
}
template <int kAlignment>
STRATA_DEVICE uint32_t load4(StagedBytes<kAlignment> p) {
  uint32_t word[1];
  load_words(p, word);
  return word[0];
}
template <int kAlignment>
STRATA_DEVICE void load8(StagedBytes<kAlignment> p, uint32_t* out) {
  uint32_t words[2];
  load_words(p, words);
  out[0] = words[0];
  out[1] = words[1];
}
template <int kAlignment>
STRATA_DEVICE Words4 load16(StagedBytes<kAlignment> p) {
  if constexpr (kAlignment == 16) {
    const uint4 all = *reinterpret_cast<const uint4*>(p.at);
    return {{all.x, all.y, all.z, all.w}};
  } else {
    Words4 words;
    load_words(p, words.w);
    return words;
  }
}
template <int kAlignment>
STRATA_DEVICE Words8 load32(StagedBytes<kAlignment> p) {
  Words8 words;
  load_words(p, words.w);
  return words;
}

template <class Bytes>
STRATA_DEVICE float load_half(Bytes p) {
  return half_value(load2(p));
}

STRATA_DEVICE uint32_t low_nibbles(uint32_t x) { return x & 0x0F0F0F0Fu; }
STRATA_DEVICE uint32_t high_nibbles(uint32_t x) { return x >> 4 & 0x0F0F0F0Fu; }

// Bit i of the low four bits of x in bit 0 of byte i.
STRATA_DEVICE uint32_t bits_to_bytes(uint32_t x) { return (x & 15) * 0x00204081u & 0x01010101u; }

// Byte i of the result is the byte of b:a that the low three bits of nibble i of `select` name.
STRATA_DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t select) { return __byte_perm(a, b, select); }

// The sum of two signed bytes in each byte.
STRATA_DEVICE uint32_t add_bytes(uint32_t a, uint32_t b) {
  return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
}

// -x in the bytes whose sign bit (of the four in `signs`) is set; no byte of x may be 0.
STRATA_DEVICE uint32_t negate_bytes(uint32_t x, uint32_t signs) {
  const uint32_t ones = bits_to_bytes(signs);
  return (x ^ ones * 0xFF) + ones;
}

// Entries of a table of sixteen bytes (Table::kWords) that eight nibbles name: those of the low nibbles in order, and
// those of the high ones.
struct Looked {
  uint32_t low, high;
};
template <class Table>
STRATA_DEVICE Looked look_up(uint32_t nibbles) {
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
