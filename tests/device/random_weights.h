// Random packed weights whose scales are sane numbers, and their decoded values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/kernels.h"
#include "quant/type.h"

namespace strata::test {

// Random bytes for n elements of F32, F16, Q8_0, Q4_K or MXFP4; decoded values are around 1.
inline std::vector<uint8_t> random_weights(quant::Type type, size_t n, Random& random) {
  const quant::TypeInfo& info = quant::info(type);
  std::vector<uint8_t> bytes(n / info.block_elems * info.block_bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  const auto put_f16 = [&](size_t at, double value) {
    store_le(bytes.data() + at, quant::f32_to_f16(static_cast<float>(value)));
  };
  for (size_t at = 0; at < bytes.size(); at += info.block_bytes) {
    const double scale = 0.5 + random.uniform();
    switch (type) {
      case quant::Type::F32: store_le(bytes.data() + at, static_cast<float>(random.normal())); break;
      case quant::Type::F16: put_f16(at, random.normal()); break;
      case quant::Type::Q8_0: put_f16(at, scale / 128); break;
      case quant::Type::Q4_K: put_f16(at, scale / 512), put_f16(at + 2, scale / 512); break;
      case quant::Type::MXFP4: bytes[at] = static_cast<uint8_t>(125 + random.below(2)); break;
      default: ASSERT(false);
    }
  }
  return bytes;
}

inline std::vector<float> decoded(quant::Type type, const uint8_t* bytes, size_t n) {
  std::vector<float> values(n);
  quant::info(type).decode(bytes, values.data(), n);
  return values;
}

}  // namespace strata::test
