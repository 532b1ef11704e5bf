// The quantisers: bytes of the reference where it rounds to nearest, small errors elsewhere, no trouble with any input.
#include "quant/encode.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "base/random.h"
#include "quant/golden_types.h"
#include "quant/guarded.h"

namespace strata::quant {
namespace {

std::vector<const TypeInfo*> encodable_types() {
  std::vector<const TypeInfo*> types;
  for (const TypeInfo& type : all_types()) {
    if (find_encoder(type.type) != nullptr) types.push_back(&type);
  }
  return types;
}

std::vector<uint8_t> encoded(const TypeInfo& type, const std::vector<float>& values) {
  std::vector<uint8_t> blocks(row_bytes(type.type, values.size()), 0xA5);
  find_encoder(type.type)(values.data(), blocks.data(), values.size());
  return blocks;
}

std::vector<float> decoded(const TypeInfo& type, const std::vector<uint8_t>& blocks) {
  std::vector<float> values(blocks.size() / type.block_bytes * type.block_elems);
  type.decode(blocks.data(), values.data(), values.size());
  return values;
}

std::vector<float> gaussian(size_t n, float deviation, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.normal()) * deviation;
  return values;
}

double relative_rms(const TypeInfo& type, const std::vector<float>& values) {
  const std::vector<float> back = decoded(type, encoded(type, values));
  double error = 0, square = 0;
  for (size_t i = 0; i < values.size(); i++) {
    const double difference = static_cast<double>(values[i]) - back[i];
    error += difference * difference;
    square += static_cast<double>(values[i]) * values[i];
  }
  return std::sqrt(error / square);
}

TEST(Encode, ExistsForAllButCodebooksAndIntegers) {
  const std::set<Type> without = {Type::IQ1_S, Type::IQ1_M, Type::IQ2_XXS, Type::IQ2_XS, Type::IQ2_S, Type::IQ3_XXS,
                                  Type::IQ3_S, Type::I8,    Type::I16,     Type::I32,    Type::I64,   Type::F64};
  for (const TypeInfo& type : all_types()) {
    EXPECT_EQ(find_encoder(type.type) == nullptr, without.contains(type.type)) << type.name;
  }
}

TEST(Encode, RoundToNearestGivesTheGoldenBytes) {
  const std::vector<float> source = test::read_f32(test::golden_path("quant/rtn.src.f32.bin"));
  ASSERT_EQ(source.size(), 2560u);
  for (const char* name : {"Q1_0", "Q2_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q8_K", "MXFP4", "NVFP4",
                           "TQ1_0", "TQ2_0"}) {
    const std::vector<uint8_t> golden = test::read_bytes(test::golden_path(std::string("quant/rtn.") + name + ".bin"));
    EXPECT_TRUE(encoded(*find_type(name), source) == golden) << name;
  }
}

TEST(Encode, ActivationsGiveTheGoldenBytes) {
  const std::vector<float> row = test::read_f32(test::golden_path("quant/act.f32.bin"));
  ASSERT_EQ(row.size(), 512u);
  const struct { Type type; const char* file; } formats[] = {
      {Type::Q8_0, "quant/act.q8_0.bin"}, {Type::Q8_1, "quant/act.q8_1.bin"}, {Type::Q8_K, "quant/act.q8_K.bin"}};
  for (const auto& format : formats) {
    EXPECT_TRUE(encoded(info(format.type), row) == test::read_bytes(test::golden_path(format.file))) << format.file;
  }
}

TEST(Encode, PlainTypesAreTheRoundingsOfTheirNumbers) {
  const std::vector<float> source = test::read_f32(test::golden_path("quant/rtn.src.f32.bin"));
  test::expect_same_values(source, decoded(info(Type::F32), encoded(info(Type::F32), source)).data(), "F32");
  const std::vector<float> half = decoded(info(Type::F16), encoded(info(Type::F16), source));
  const std::vector<float> brain = decoded(info(Type::BF16), encoded(info(Type::BF16), source));
  for (size_t i = 0; i < source.size(); i++) {
    EXPECT_EQ(half[i], f16_to_f32(f32_to_f16(source[i]))) << i;
    EXPECT_EQ(brain[i], bf16_to_f32(f32_to_bf16(source[i]))) << i;
  }
}

// The largest relative RMS error on Gaussian values that each type may have. Of the K and IQ4 types this is what the
// public quantisers reach without importances (Q3_K, Q6_K: with plain rounding, which the fit betters).
const std::map<Type, double>& error_limits() {
  static const std::map<Type, double> limits = {
      {Type::F16, 0.00022},  {Type::BF16, 0.0018}, {Type::Q4_0, 0.087},   {Type::Q4_1, 0.079},  {Type::Q5_0, 0.0432},
      {Type::Q5_1, 0.0384},  {Type::Q8_0, 0.0055}, {Type::Q8_1, 0.0055},  {Type::Q8_K, 0.0072}, {Type::Q2_K, 0.277},
      {Type::Q3_K, 0.155},   {Type::Q4_K, 0.071},  {Type::Q5_K, 0.035},   {Type::Q6_K, 0.0179}, {Type::IQ4_NL, 0.0785},
      {Type::IQ4_XS, 0.079}, {Type::MXFP4, 0.116}, {Type::NVFP4, 0.1045}, {Type::TQ1_0, 0.82},  {Type::TQ2_0, 0.82},
      {Type::Q1_0, 0.605},   {Type::Q2_0, 0.73}};
  return limits;
}

TEST(Encode, ErrorsOnGaussianValuesAreSmall) {
  const std::vector<float> values = gaussian(size_t{1} << 16, 1, 7);
  for (const auto& [type, limit] : error_limits()) {
    const double error = relative_rms(info(type), values);
    EXPECT_LE(error, limit) << info(type).name;
    EXPECT_GE(error, limit * 0.9) << info(type).name << ": the limit says nothing";
  }
}

// Weights are small numbers: scales are then subnormal halves at times, but errors must not grow before that.
TEST(Encode, ErrorsDoNotDependOnTheUnit) {
  const std::set<Type> narrow = {Type::NVFP4, Type::F16};  // their own scales or values leave their range
  for (const float unit : {0x1p-7f, 0x1p7f}) {
    const std::vector<float> values = gaussian(size_t{1} << 14, unit, 8);
    for (const auto& [type, limit] : error_limits()) {
      if (narrow.contains(type)) continue;
      EXPECT_LE(relative_rms(info(type), values), limit * 1.02) << info(type).name << " unit " << unit;
    }
  }
}

// Values of one sign, far from zero: the min of an affine type has to take the offset.
TEST(Encode, AffineTypesTakeOffsets) {
  std::vector<float> values = gaussian(size_t{1} << 14, 1, 9);
  for (float& value : values) value -= 8;
  const struct { Type type; double limit; } types[] = {
      {Type::Q4_1, 0.010}, {Type::Q5_1, 0.005}, {Type::Q2_K, 0.042}, {Type::Q4_K, 0.012}, {Type::Q5_K, 0.0075}};
  for (const auto& [type, limit] : types) EXPECT_LE(relative_rms(info(type), values), limit) << info(type).name;
}

TEST(Encode, ZerosStayZeros) {
  const std::vector<float> zeros(512, 0.0f);
  for (const TypeInfo* type : encodable_types()) {
    for (const float value : decoded(*type, encoded(*type, zeros))) ASSERT_EQ(value, 0) << type->name;
  }
}

// A spike does not spread: what is around it stays 0, but for the rounding of a min to f16 and for the table of the IQ4
// types, which has 1 of -127 to 113 in the place of 0.
TEST(Encode, OneLargeValueSurvives) {
  for (const TypeInfo* type : encodable_types()) {
    if (type->type == Type::Q1_0) continue;  // its one magnitude is the mean
    const bool has_zero = type->type != Type::IQ4_NL && type->type != Type::IQ4_XS;
    for (const float spike : {3.0f, -3.0f}) {
      std::vector<float> values(512, 0.0f);
      values[300] = spike;
      const std::vector<float> back = decoded(*type, encoded(*type, values));
      EXPECT_NEAR(back[300], spike, 0.34) << type->name;
      for (size_t i = 0; i < values.size(); i++) {
        if (values[i] == 0) { ASSERT_NEAR(back[i], 0, has_zero ? 0.001 : 3.01 / 113) << type->name << " " << i; }
      }
    }
  }
}

TEST(Encode, BlocksAreIndependentAndNeedNoAlignment) {
  const std::vector<float> values = gaussian(2048, 0.02f, 10);
  for (const TypeInfo* type : encodable_types()) {
    const std::vector<uint8_t> whole = encoded(*type, values);
    std::vector<uint8_t> shifted(whole.size() + 1);
    for (size_t block = 0; block < values.size() / type->block_elems; block++) {
      find_encoder(type->type)(&values[block * type->block_elems], &shifted[1 + block * type->block_bytes],
                               type->block_elems);
    }
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), shifted.begin() + 1)) << type->name;
  }
}

// A block of numbers that are each at some extreme, or bit patterns of any kind.
std::vector<float> hostile(size_t n, bool finite, Random& random) {
  using Limits = std::numeric_limits<float>;
  const float values[] = {0,      -0.0f,     1,     -1,    Limits::denorm_min(), Limits::min(), 1e-38f, 1e-30f,
                          1e-10f, 65504,     65536, 1e10f, 1e20f,                1e30f,         3e38f,  Limits::max(),
                          0.5f,   0x1p-126f, 448,   2688,  6.1e-5f,              5.9e-8f,       1e-7f,  255};
  std::vector<float> out(n);
  const uint64_t kind = random.below(4);
  const float chosen = values[random.below(std::size(values))];
  for (float& x : out) {
    const float value = kind == 0 ? chosen : values[random.below(std::size(values))];
    x = random.below(2) == 0 ? value : -value;
    if (kind == 1) {
      const auto bits = static_cast<uint32_t>(random.next());
      std::memcpy(&x, &bits, sizeof x);
      if (finite && !std::isfinite(x)) x = 1;
    }
    if (kind == 2) x *= static_cast<float>(random.uniform());
  }
  if (!finite) out[random.below(n)] = random.below(2) == 0 ? NAN : -INFINITY;
  return out;
}

TEST(Encode, FiniteValuesGiveFiniteScales) {
  Random random(11);
  for (const TypeInfo* type : encodable_types()) {
    for (int round = 0; round < 300; round++) {
      const std::vector<float> values = hostile(256, true, random);
      const std::vector<uint8_t> blocks = encoded(*type, values);
      ASSERT_TRUE(scales_finite(type->type, blocks.data(), values.size())) << type->name << " round " << round;
      if (!type->in_files) continue;  // Q8_K's scale is rounded in float32, so its largest value may round to infinity
      for (const float value : decoded(*type, blocks)) ASSERT_TRUE(std::isfinite(value)) << type->name << " " << round;
    }
  }
}

TEST(Encode, AnyInputStaysInsideItsBuffers) {
  Random random(12);
  for (const TypeInfo* type : encodable_types()) {
    for (const test::Guard guard : {test::Guard::kBefore, test::Guard::kBehind}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{3}}) {
        const size_t n = count * type->block_elems;
        test::GuardedBytes values(n * sizeof(float), guard);
        test::GuardedBytes blocks(row_bytes(type->type, n), guard);
        for (int round = 0; round < 20 && n > 0; round++) {
          const std::vector<float> source = hostile(n, round % 2 == 0, random);
          std::memcpy(values.data(), source.data(), n * sizeof(float));
          find_encoder(type->type)(values.floats(), blocks.data(), n);
        }
        find_encoder(type->type)(values.floats(), blocks.data(), n);
      }
    }
  }
}

}  // namespace
}  // namespace strata::quant
