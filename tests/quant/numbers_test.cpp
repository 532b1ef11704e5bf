// f16 and bf16: exact to float32, nearest even back, over all bit patterns.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "quant/type.h"

namespace strata::quant {
namespace {

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// The value by the definition of the format; not for infinities and NaN.
double f16_by_definition(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return h >> 15 ? -magnitude : magnitude;
}

TEST(F16, EveryPatternWidensExactlyAndComesBack) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    const uint16_t half = static_cast<uint16_t>(h);
    const float wide = f16_to_f32(half);
    if ((h & 0x7C00) != 0x7C00) {
      ASSERT_EQ(static_cast<double>(wide), f16_by_definition(half)) << h;
      ASSERT_EQ(std::signbit(wide), h >> 15 != 0) << h;
      ASSERT_EQ(f32_to_f16(wide), half) << h;
    } else if ((h & 0x3FF) == 0) {
      ASSERT_EQ(wide, h >> 15 ? -INFINITY : INFINITY);
      ASSERT_EQ(f32_to_f16(wide), (h & 0x8000) | 0x7BFF);
    } else {
      ASSERT_TRUE(std::isnan(wide)) << h;
      ASSERT_EQ(f32_to_f16(wide), half | 0x200) << h;  // quiet, payload kept
    }
  }
}

TEST(F16, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint16_t h = 0; h < 0x7BFF; h++) {
    const uint16_t above = static_cast<uint16_t>(h + 1);
    const float middle = static_cast<float>((f16_by_definition(h) + f16_by_definition(above)) / 2);  // exact
    const uint16_t even = h % 2 == 0 ? h : above;
    ASSERT_EQ(f32_to_f16(middle), even) << h;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 0)), h) << h;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, INFINITY)), above) << h;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << h;
  }
}

TEST(F16, ClampsLargeAndFlushesTiny) {
  for (const float x : {65504.0f, 65519.0f, 65520.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(f32_to_f16(x), 0x7BFF) << x;
    EXPECT_EQ(f32_to_f16(-x), 0xFBFF) << x;
  }
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);  // half of the smallest subnormal: to even
  EXPECT_EQ(f32_to_f16(std::nextafterf(0x1p-25f, 1)), 1);
  EXPECT_EQ(f32_to_f16(1e-45f), 0);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
}

TEST(Bf16, EveryPatternWidensToItsUpperHalfAndComesBack) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    const float wide = bf16_to_f32(static_cast<uint16_t>(h));
    ASSERT_EQ(bits_of(wide), h << 16);
    const bool nan = (h & 0x7FFF) > 0x7F80;
    ASSERT_EQ(f32_to_bf16(wide), nan ? h | 0x40 : h) << h;
  }
}

TEST(Bf16, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t h = 0; h < 0x7F80; h++) {
    const uint32_t middle = h << 16 | 0x8000;
    ASSERT_EQ(f32_to_bf16(float_of(middle)), h + h % 2) << h;
    ASSERT_EQ(f32_to_bf16(float_of(middle - 1)), h) << h;
    ASSERT_EQ(f32_to_bf16(float_of(middle + 1)), h + 1) << h;
  }
  EXPECT_EQ(f32_to_bf16(float_of(0x7F800001)), 0x7FC0);  // a NaN whose payload lies below stays NaN
}

}  // namespace
}  // namespace strata::quant
