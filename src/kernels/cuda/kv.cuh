// Elements of the KV cache on the device: kernels.h says how they are made from float32.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/formats/bytes.cuh"

namespace strata::kernels::cuda {

// Round to nearest even, cut at the largest finite half.
__device__ __forceinline__ uint16_t half_bits(float x) {
  const float cut = x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
  return __half_as_ushort(__float2half_rn(cut));
}
__device__ __forceinline__ uint16_t bfloat_bits(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// A block of 32 elements, one to a lane: halves are rounded away from zero with the scale as it was before it became a
// float16, and what is not finite makes the scale NaN.
__device__ __forceinline__ void store_q8_block(float x, uint8_t* block, int lane) {
  constexpr float kInfinity = __builtin_inff();
  const float magnitude = fabsf(x) < kInfinity ? fabsf(x) : kInfinity;
  const float largest = warp_max(magnitude);
  const float d = largest < kInfinity ? __fdiv_rn(largest, 127.0f) : __builtin_nanf("");
  const float inverse = d != 0 ? __fdiv_rn(1.0f, d) : 0.0f;
  const float value = __fmul_rn(x, inverse);
  const float raised = value > -127.0f ? value : -127.0f;
  const float in_range = raised < 127.0f ? raised : 127.0f;
  const int whole = static_cast<int>(in_range);
  const float rest = in_range - static_cast<float>(whole);
  const int code = whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
  block[2 + lane] = static_cast<uint8_t>(code);
  if (lane == 0) *reinterpret_cast<uint16_t*>(block) = half_bits(d);
}

// The n elements of a head, by one warp.
__device__ __forceinline__ void store_head(KvType type, const float* x, int n, uint8_t* to, int lane) {
  for (int i = lane; i < n; i += kWarp) {
    switch (type) {
      case KvType::kF32: reinterpret_cast<float*>(to)[i] = x[i]; break;
      case KvType::kF16: reinterpret_cast<uint16_t*>(to)[i] = half_bits(x[i]); break;
      case KvType::kBf16: reinterpret_cast<uint16_t*>(to)[i] = bfloat_bits(x[i]); break;
      case KvType::kQ8_0: store_q8_block(x[i], to + i / kWarp * 34, lane); break;
    }
  }
}

// Element i of a head.
__device__ __forceinline__ float head_element(KvType type, const uint8_t* head, int i) {
  switch (type) {
    case KvType::kF32: return reinterpret_cast<const float*>(head)[i];
    case KvType::kF16: return half_value(reinterpret_cast<const uint16_t*>(head)[i]);
    case KvType::kBf16: return float_of_bits(uint32_t{reinterpret_cast<const uint16_t*>(head)[i]} << 16);
    case KvType::kQ8_0: break;
  }
  const uint8_t* block = head + i / 32 * 34;
  const auto code = static_cast<int8_t>(block[2 + i % 32]);
  return half_value(*reinterpret_cast<const uint16_t*>(block)) * static_cast<float>(code);
}

__device__ __forceinline__ bool aligned(const void* p, unsigned bytes) {
  return (reinterpret_cast<uintptr_t>(p) & (bytes - 1)) == 0;
}

// Elements [i, i + 4) of a head that has n; zeros behind. Loads are coherent: kernels read what they have appended.
__device__ __forceinline__ float4 four_elements(KvType type, const uint8_t* head, int i, int n) {
  if (i + 4 <= n) {
    if (type == KvType::kQ8_0) {
      const uint8_t* block = head + i / 32 * 34;
      const auto* pairs = reinterpret_cast<const uint16_t*>(block + 2 + i % 32);  // blocks have even addresses
      const uint32_t low = pairs[0], high = pairs[1];
      const float d = half_value(*reinterpret_cast<const uint16_t*>(block));
      return make_float4(d * static_cast<float>(static_cast<int8_t>(low)),
                         d * static_cast<float>(static_cast<int8_t>(low >> 8)),
                         d * static_cast<float>(static_cast<int8_t>(high)),
                         d * static_cast<float>(static_cast<int8_t>(high >> 8)));
    }
    const uint8_t* at = head + i * (type == KvType::kF32 ? 4 : 2);
    if (type == KvType::kF32) {
      if (aligned(at, 16)) return *reinterpret_cast<const float4*>(at);
    } else if (aligned(at, 8)) {
      const uint2 w = *reinterpret_cast<const uint2*>(at);
      if (type == KvType::kF16) {
        return make_float4(half_value(w.x & 0xFFFF), half_value(w.x >> 16), half_value(w.y & 0xFFFF),
                           half_value(w.y >> 16));
      }
      return make_float4(float_of_bits(w.x << 16), float_of_bits(w.x & 0xFFFF0000u), float_of_bits(w.y << 16),
                         float_of_bits(w.y & 0xFFFF0000u));
    }
  }
  float v[4];
  for (int e = 0; e < 4; e++) v[e] = i + e < n ? head_element(type, head, i + e) : 0;
  return make_float4(v[0], v[1], v[2], v[3]);
}

// Where a position of a sequence lies, in tokens.
__device__ __forceinline__ int64_t token_at(const Places& places, const KvCache& kv, int32_t slot, int64_t position) {
  // Positions have 32 bits, and shorter divisions are faster.
  const auto at = static_cast<uint32_t>(position), tokens = static_cast<uint32_t>(kv.block_tokens);
  const int32_t block = places.block_table[slot * places.table_stride + at / tokens];
  return int64_t{block} * kv.block_tokens + at % tokens;
}

// Where a row of the step attends: its row of the block table, and its position counted through that.
struct RowPlace {
  int32_t slot;
  int64_t position;
};
__device__ __forceinline__ RowPlace place_of(const Places& places, const KvCache& kv, int64_t row) {
  const int64_t position = places.positions[row];
  if (!places.by_row) return {places.slots[row], position};
  const int64_t whole = places.block_table[row * places.table_stride - 1];
  return {static_cast<int32_t>(row), whole * kv.block_tokens + (position + 1) % kv.block_tokens - 1};
}

}  // namespace strata::kernels::cuda
