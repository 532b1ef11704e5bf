// Random packed weights of every type, whose scales are sane numbers.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "quant/type.h"

namespace strata::test {

// Offsets of the float16 scales of a block; -1: none.
struct HalfScales {
  int first = -1, second = -1;
};
inline HalfScales half_scales(quant::Type type) {
  using quant::Type;
  switch (type) {
    case Type::Q4_1: case Type::Q5_1: case Type::Q4_K: case Type::Q5_K: return {0, 2};
    case Type::Q2_K: return {80, 82};
    case Type::Q3_K: return {108, -1};
    case Type::Q6_K: return {208, -1};
    case Type::TQ1_0: return {52, -1};
    case Type::TQ2_0: return {64, -1};
    case Type::F32: case Type::F16: case Type::BF16: case Type::MXFP4: case Type::NVFP4: case Type::IQ1_M: return {};
    default: return {0, -1};
  }
}

inline std::vector<uint8_t> any_weights(quant::Type type, size_t n, Random& random) {
  using quant::Type;
  const quant::TypeInfo& info = quant::info(type);
  std::vector<uint8_t> bytes(n / info.block_elems * info.block_bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  const HalfScales scales = half_scales(type);
  for (size_t at = 0; at < bytes.size(); at += info.block_bytes) {
    uint8_t* block = bytes.data() + at;
    const auto normal = static_cast<float>(random.normal());
    const uint16_t scale = quant::f32_to_f16(static_cast<float>((0.5 + random.uniform()) / 256));
    if (type == Type::F32) store_le(block, normal);
    if (type == Type::F16) store_le(block, quant::f32_to_f16(normal));
    if (type == Type::BF16) store_le(block, quant::f32_to_bf16(normal));
    if (type == Type::MXFP4) block[0] = static_cast<uint8_t>(120 + random.below(4));
    if (type == Type::IQ1_M) {  // its float16 lies in the upper nibbles of four words
      for (int i = 0; i < 4; i++)
        block[49 + 2 * i] = static_cast<uint8_t>((block[49 + 2 * i] & 15) | (scale >> (4 * i) & 15) << 4);
    }
    if (scales.first >= 0) store_le(block + scales.first, scale);
    if (scales.second >= 0) store_le(block + scales.second, scale);
  }
  return bytes;
}

// Types that weights of files may have and that products take.
inline std::vector<quant::Type> weight_types() {
  std::vector<quant::Type> types;
  for (const quant::TypeInfo& info : quant::all_types()) {
    if (info.in_files && info.decode != nullptr) types.push_back(info.type);
  }
  return types;
}

}  // namespace strata::test
