// Units of Q4_K and Q6_K whose sums stay integers up to the scale of the block: fewer operations than unpacking to runs
// takes.
#pragma once

#include "kernels/cuda/expert_tiles.cuh"
#include "kernels/cuda/formats/k.cuh"

namespace strata::kernels::cuda {

// The alignment of staged rows that a format has a faster way for; 1: none.
template <class F>
inline constexpr int kFastAlignment = F::kBytes % 16 == 0 ? 16 : 1;
template <>
inline constexpr int kFastAlignment<Format<quant::Type::Q6_K>> = 2;

template <class F>
__device__ __forceinline__ bool aligned_for(const uint8_t* staged) {
  return into_sixteen(staged) % kFastAlignment<F> == 0;
}
// Whether all rows of the experts of a product are aligned so, wherever they lie: experts in slots are, others may be
// anywhere. Kernels without the other ways are worth their making: instructions that are not carried out stand between
// those that are, and each kernel of a layer fetches its own anew.
template <class F>
bool aligned_rows(const Product& p) {
  const auto aligned = [](uint64_t place) { return place % kFastAlignment<F> == 0; };
  const bool anywhere = p.experts.linked_at != nullptr && !p.experts.fetched;
  if (anywhere || !aligned(reinterpret_cast<uintptr_t>(p.experts.memory))) return false;
  for (int i = 0; i < p.n_parts; i++) {
    if (!aligned(static_cast<uint64_t>(p.parts[i].offset)) || !aligned(p.parts[i].row_bytes)) return false;
  }
  return true;
}

// Four unsigned bytes of `codes` times four signed ones of `x`.
__device__ __forceinline__ int dot_unsigned(uint32_t codes, int x, int sum) {
#if __CUDA_ARCH__ >= 610
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(codes), "r"(x), "r"(sum));
#endif
  return sum;
}
__device__ __forceinline__ int dot_masked(const uint32_t (&w)[4], uint32_t mask, const int4& x, int sum) {
  sum = dot_unsigned(w[0] & mask, x.x, sum);
  sum = dot_unsigned(w[1] & mask, x.y, sum);
  sum = dot_unsigned(w[2] & mask, x.z, sum);
  return dot_unsigned(w[3] & mask, x.w, sum);
}
__device__ __forceinline__ int4 staged_codes(const StagedRow& x, int col) {
  return *reinterpret_cast<const int4*>(x.codes + spread(col));
}

// 64 columns: two groups of 32 in the low and the high nibbles of 32 bytes.
template <>
class LaneUnit<Format<quant::Type::Q4_K>, StagedBytes<16>> {
 public:
  __device__ __forceinline__ LaneUnit(const StagedRow& x, int u) {
    const int col = 64 * u;
#pragma unroll
    for (int run = 0; run < 4; run++) codes_[run] = staged_codes(x, col + 16 * run);
    d_ = x.d[col / 32];
    const uint2 pairs = *reinterpret_cast<const uint2*>(x.code_sums + col / 16);
    const int first_sum = __dp2a_lo(static_cast<int>(pairs.x), 0x0101, 0);
    const int second_sum = __dp2a_lo(static_cast<int>(pairs.y), 0x0101, 0);
    sums_ = __byte_perm(first_sum, second_sum, 0x5410);
    // Scales and mins of groups 0 to 3 are the low six bits of their bytes; of the others, nibbles of the last word and
    // the upper two bits of those bytes.
    const bool upper = u % 4 >= 2;
    const uint32_t first = u % 2 * 2, low = upper ? first + 4 : first;
    select_ = low | (low + 1) << 4 | first << 8 | (first + 1) << 12;
    low_mask_ = upper ? 0x0F0F : 0x3F3F;
    high_mask_ = upper ? 0x3030 : 0;
    min_shift_ = upper ? 4 : 0;
  }

  __device__ __forceinline__ float add(StagedBytes<16> row, int u, float sum) const {
    const StagedBytes<16> block = row + u / 4 * Format<quant::Type::Q4_K>::kBytes, codes = block + 16 + 32 * (u % 4);
    const Words4 head = load16(block), q0 = load16(codes), q1 = load16(codes + 16);
    const int low = dot_masked(q1.w, 0x0F0F0F0Fu, codes_[1], dot_masked(q0.w, 0x0F0F0F0Fu, codes_[0], 0));
    const int high = dot_masked(q1.w, 0xF0F0F0F0u, codes_[3], dot_masked(q0.w, 0xF0F0F0F0u, codes_[2], 0));  // by 16
    const uint32_t s = __byte_perm(head.w[1], head.w[3], select_), m = __byte_perm(head.w[2], head.w[3], select_);
    const uint32_t scales = (s & low_mask_) | (s >> 18 & high_mask_);
    const uint32_t mins = (m >> min_shift_ & low_mask_) | (m >> 18 & high_mask_);
    const int scaled = static_cast<int>(scales & 63) * low + (static_cast<int>(scales >> 8) * high >> 4);
    const int offset = __dp2a_lo(static_cast<int>(sums_), static_cast<int>(mins), 0);
    const float d = half_value(head.w[0] & 0xFFFF), dmin = half_value(head.w[0] >> 16);
    return fmaf(d_, fmaf(d, static_cast<float>(scaled), -dmin * static_cast<float>(offset)), sum);
  }

 private:
  int4 codes_[4];
  float d_;
  uint32_t sums_;  // of both groups' codes, 16 bits each
  uint32_t select_, low_mask_, high_mask_, min_shift_;
};

// Sixteen columns of each of the four planes of a half of the block: all that a sixteen of the upper bits serves.
template <>
class LaneUnit<Format<quant::Type::Q6_K>, StagedBytes<2>> {
 public:
  __device__ __forceinline__ LaneUnit(const StagedRow& x, int u) {
    const int half = u / 2, side = u % 2, col = 128 * half + 16 * side;
#pragma unroll
    for (int plane = 0; plane < 4; plane++) codes_[plane] = staged_codes(x, col + 32 * plane);
    d_ = x.d[col / 32];
    const uint4 sums = *reinterpret_cast<const uint4*>(x.code_sums + 8 * half);
    const unsigned select = side == 0 ? 0x5410 : 0x7632;
    sums_[0] = __byte_perm(sums.x, sums.y, select);
    sums_[1] = __byte_perm(sums.z, sums.w, select);
  }

  __device__ __forceinline__ float add(StagedBytes<2> row, int u, float sum) const {
    const int half = u / 2 % 2, side = u % 2;
    const StagedBytes<2> block = row + u / 4 * Format<quant::Type::Q6_K>::kBytes, at = block + (64 * half + 16 * side);
    uint32_t q0[4], q1[4], upper[4];
    load_words(at, q0);
    load_words(at + 32, q1);
    load_words(block + (128 + 32 * half + 16 * side), upper);
    int scales[4];
#pragma unroll
    for (int plane = 0; plane < 4; plane++) {
      scales[plane] = static_cast<int8_t>(load1(block + (192 + 8 * half + side + 2 * plane)));
    }
    // Each part of a code is multiplied where it lies: 16 times as much in the high nibbles, and so on.
    const int p0 = dot_masked(q0, 0x0F0F0F0Fu, codes_[0], 0) + (dot_masked(upper, 0x03030303u, codes_[0], 0) << 4);
    const int p1 = dot_masked(q1, 0x0F0F0F0Fu, codes_[1], 0) + (dot_masked(upper, 0x0C0C0C0Cu, codes_[1], 0) << 2);
    const int p2 = dot_masked(q0, 0xF0F0F0F0u, codes_[2], 0) + (dot_masked(upper, 0x30303030u, codes_[2], 0) << 4);
    const int p3 = dot_masked(q1, 0xF0F0F0F0u, codes_[3], 0) + (dot_masked(upper, 0xC0C0C0C0u, codes_[3], 0) << 2);
    const int scaled = scales[0] * p0 + scales[1] * p1 + ((scales[2] * p2 + scales[3] * p3) >> 4);
    const int pair0 = static_cast<int>(__byte_perm(scales[0], scales[1], 0x0040));
    const int pair1 = static_cast<int>(__byte_perm(scales[2], scales[3], 0x0040));
    const int offset = __dp2a_lo(static_cast<int>(sums_[1]), pair1, __dp2a_lo(static_cast<int>(sums_[0]), pair0, 0));
    return fmaf(load_half(block + 208) * d_, static_cast<float>(scaled - 32 * offset), sum);
  }

 private:
  int4 codes_[4];
  float d_;
  uint32_t sums_[2];  // of the planes' codes, 16 bits each
};

}  // namespace strata::kernels::cuda
