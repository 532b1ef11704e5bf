#include "base/bytes.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(BytesTest, CheckedArithmeticEndsExactlyAtTheTypesLimit) {
  EXPECT_EQ(checked_mul(UINT64_MAX, 1), UINT64_MAX);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 31), uint64_t{1} << 63);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(0, UINT64_MAX), 0u);
  EXPECT_EQ(checked_add(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
}

TEST(BytesTest, AlignmentRoundsUpAndReportsOverflow) {
  EXPECT_EQ(checked_align_up(0, 32), 0u);
  EXPECT_EQ(checked_align_up(1, 32), 32u);
  EXPECT_EQ(checked_align_up(32, 32), 32u);
  EXPECT_EQ(checked_align_up(UINT64_MAX - 31, 32), UINT64_MAX - 31);
  EXPECT_EQ(checked_align_up(UINT64_MAX - 30, 32), std::nullopt);
  static_assert(align_up(33, 32) == 64 && align_up(64, 32) == 64);
}

TEST(BytesTest, LoadsAndStoresNeedNoAlignment) {
  unsigned char bytes[16] = {};
  store_le<uint32_t>(bytes + 1, 0x01020304);
  EXPECT_EQ(bytes[1], 4);
  EXPECT_EQ(bytes[4], 1);
  EXPECT_EQ(load_le<uint32_t>(bytes + 1), 0x01020304u);
  store_le<double>(bytes + 3, -2.5);
  EXPECT_EQ(load_le<double>(bytes + 3), -2.5);
}

}  // namespace
}  // namespace strata
