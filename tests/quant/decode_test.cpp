// The baseline decoders against the golden blocks, at any alignment, and within their buffers.
#include <cstring>

#include "quant/golden_types.h"
#include "quant/guarded.h"
#include "quant/type.h"

namespace strata::quant {
namespace {

TEST(Decode, MeetsTheGoldenValuesBitForBit) {
  ASSERT_EQ(test::golden_types().size(), 29u);
  for (const TypeInfo* type : test::golden_types()) {
    const test::GoldenBlocks golden = test::golden_blocks(*type);
    std::vector<float> out(golden.values.size());
    type->decode(golden.blocks.data(), out.data(), out.size());
    test::expect_same_values(golden.values, out.data(), type->name);
  }
}

TEST(Decode, F32IsACopy) {
  const std::vector<float> values = {1, -0.0f, 1e-45f, 3.4e38f, -INFINITY};
  std::vector<float> out(values.size());
  info(Type::F32).decode(reinterpret_cast<const uint8_t*>(values.data()), out.data(), values.size());
  EXPECT_EQ(std::memcmp(out.data(), values.data(), values.size() * sizeof(float)), 0);
}

TEST(Decode, BlocksNeedNoAlignment) {
  for (const TypeInfo* type : test::golden_types()) {
    const test::GoldenBlocks golden = test::golden_blocks(*type);
    for (size_t offset : {1, 2, 3, 13}) {
      std::vector<uint8_t> shifted(offset + golden.blocks.size());
      std::memcpy(shifted.data() + offset, golden.blocks.data(), golden.blocks.size());
      std::vector<float> out(golden.values.size());
      type->decode(shifted.data() + offset, out.data(), out.size());
      test::expect_same_values(golden.values, out.data(), type->name);
    }
  }
}

TEST(Decode, StaysInsideItsBuffers) {
  for (const TypeInfo& type : all_types()) {
    if (type.decode == nullptr) continue;
    for (const test::Guard guard : {test::Guard::kBefore, test::Guard::kBehind}) {
      for (size_t count : {0, 1, 2, 7, 35}) {
        const size_t n = count * type.block_elems;
        test::GuardedBytes blocks(row_bytes(type.type, n), guard);
        test::GuardedBytes out(n * sizeof(float), guard);
        std::memset(blocks.data(), 0x5A, row_bytes(type.type, n));
        type.decode(blocks.data(), out.floats(), n);
        EXPECT_TRUE(scales_finite(type.type, blocks.data(), n)) << type.name;
      }
    }
  }
}

}  // namespace
}  // namespace strata::quant
