// scales_finite: every field of every type, in any block.
#include <cstring>
#include <vector>

#include "quant/golden_types.h"
#include "quant/type.h"

namespace strata::quant {
namespace {

// Where a 16-bit (or shorter) scale lies, a pattern that is not finite and the largest that is.
struct Field {
  Type type;
  size_t offset;
  size_t bytes;
  uint64_t bad;
  uint64_t good;
};

std::vector<Field> fields() {
  std::vector<Field> all;
  const auto f16 = [&all](Type type, size_t offset) {
    for (const uint64_t bad : {0x7C00, 0xFC00, 0x7E01}) all.push_back({type, offset, 2, bad, 0xFBFF});
  };
  for (const Type type : {Type::F16, Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1, Type::Q8_0, Type::Q8_1, Type::Q4_K,
                          Type::Q5_K, Type::IQ2_XXS, Type::IQ2_XS, Type::IQ2_S, Type::IQ3_XXS, Type::IQ3_S, Type::IQ1_S,
                          Type::IQ4_NL, Type::IQ4_XS, Type::Q1_0, Type::Q2_0}) {
    f16(type, 0);
  }
  for (const Type type : {Type::Q4_1, Type::Q5_1, Type::Q4_K, Type::Q5_K}) f16(type, 2);
  f16(Type::Q2_K, 80);
  f16(Type::Q2_K, 82);
  f16(Type::Q3_K, 108);
  f16(Type::Q6_K, 208);
  f16(Type::TQ1_0, 52);
  f16(Type::TQ2_0, 64);
  all.push_back({Type::BF16, 0, 2, 0x7F80, 0xFF7F});
  all.push_back({Type::MXFP4, 0, 1, 255, 254});
  all.push_back({Type::F32, 0, 4, 0xFF800000, 0x7F7FFFFF});
  all.push_back({Type::Q8_K, 0, 4, 0x7FC00000, 0xFF7FFFFF});
  all.push_back({Type::F64, 0, 8, 0x7FF0000000000000, 0xFFEFFFFFFFFFFFFF});
  // IQ1_M spreads d over the upper nibbles of four words: 0x7C00 and, with every other bit set, 0xFBFF.
  all.push_back({Type::IQ1_M, 48, 8, 0x7000C00000000000, 0xFFFFBFFFFFFFFFFF});
  return all;
}

TEST(ScalesFinite, FindsOneBadFieldInAnyBlock) {
  constexpr size_t kBlocks = 37;
  for (const Field& field : fields()) {
    const TypeInfo& type = info(field.type);
    const size_t n = kBlocks * type.block_elems;
    std::vector<uint8_t> blocks(kBlocks * type.block_bytes);
    for (size_t block = 0; block < kBlocks; block++) {
      std::memcpy(&blocks[block * type.block_bytes + field.offset], &field.good, field.bytes);
    }
    EXPECT_TRUE(scales_finite(field.type, blocks.data(), n)) << type.name;
    for (const size_t bad : {size_t{0}, kBlocks / 2, kBlocks - 1}) {
      std::vector<uint8_t> spoilt = blocks;
      std::memcpy(&spoilt[bad * type.block_bytes + field.offset], &field.bad, field.bytes);
      EXPECT_FALSE(scales_finite(field.type, spoilt.data(), n)) << type.name << " block " << bad;
      EXPECT_TRUE(scales_finite(field.type, spoilt.data(), bad * type.block_elems)) << type.name;
    }
  }
}

// Codes may have any bits: with finite scales, all other bits set are fine, and so is what they decode to.
TEST(ScalesFinite, AgreesWithTheGoldenBlocks) {
  for (const TypeInfo* type : test::golden_types()) {
    const test::GoldenBlocks golden = test::golden_blocks(*type);
    EXPECT_TRUE(scales_finite(type->type, golden.blocks.data(), golden.values.size())) << type->name;
  }
}

TEST(ScalesFinite, SomeTypesHaveNothingToCheck) {
  const std::vector<uint8_t> ones(36 * 8, 0xFF);
  for (const Type type : {Type::NVFP4, Type::I8, Type::I16, Type::I32, Type::I64}) {
    const TypeInfo& layout = info(type);
    EXPECT_TRUE(scales_finite(type, ones.data(), ones.size() / layout.block_bytes * layout.block_elems)) << layout.name;
  }
}

}  // namespace
}  // namespace strata::quant
