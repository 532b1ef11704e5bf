// The golden blocks and values of tests/golden/quant, and the comparison that its README asks for.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "quant/type.h"
#include "support/golden.h"

namespace strata::test {

// All types with golden data: every one that decodes, but F32.
inline std::vector<const quant::TypeInfo*> golden_types() {
  std::vector<const quant::TypeInfo*> types;
  for (const quant::TypeInfo& type : quant::all_types()) {
    if (type.decode != nullptr && type.type != quant::Type::F32) types.push_back(&type);
  }
  return types;
}

struct GoldenBlocks {
  std::vector<uint8_t> blocks;
  std::vector<float> values;
};

inline GoldenBlocks golden_blocks(const quant::TypeInfo& type) {
  const std::string stem = golden_path(std::string("quant/") + type.name);
  GoldenBlocks golden{read_bytes(stem + ".blocks.bin"), read_f32(stem + ".f32.bin")};
  EXPECT_GT(golden.values.size(), 0u) << type.name;
  EXPECT_EQ(golden.blocks.size(), quant::row_bytes(type.type, golden.values.size())) << type.name;
  return golden;
}

// Same bits, or both zero, or both NaN.
inline bool same_value(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (a == 0 && b == 0) || (std::isnan(a) && std::isnan(b));
}

inline void expect_same_values(const std::vector<float>& expected, const float* actual, const std::string& what) {
  for (size_t i = 0; i < expected.size(); i++) {
    ASSERT_TRUE(same_value(expected[i], actual[i]))
        << what << " element " << i << ": expected " << expected[i] << ", got " << actual[i];
  }
}

}  // namespace strata::test
