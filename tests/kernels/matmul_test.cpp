// decode, matmul, dot and axpy of every instruction set this machine has: golden values, exact sums of integers, errors
// against double precision, independence of a sum from its neighbours, and guard pages.
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "kernels/kernels.h"
#include "quant/golden_types.h"
#include "quant/guarded.h"

namespace strata::kernels {
namespace {

using quant::Type;
using quant::TypeInfo;
using test::Guard;
using test::GuardedBytes;

class CpuKernels : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_available(GetParam())) GTEST_SKIP() << isa_name(GetParam()) << " is not available here";
    kernels_ = &kernels_for(GetParam());
  }
  const Kernels& kernels() const { return *kernels_; }

 private:
  const Kernels* kernels_ = nullptr;
};

std::vector<float> random_floats(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

std::vector<float> random_integers(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.below(129)) - 64;
  return values;
}

std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

Matrix matrix(Type type, const void* data, int64_t rows, int64_t cols) {
  return {type, static_cast<const uint8_t*>(data), rows, cols, quant::row_bytes(type, static_cast<size_t>(cols))};
}

// y[t][r], rows side by side, of the whole matrix.
std::vector<float> product(const Kernels& kernels, const Matrix& w, const float* x, int64_t n_tokens) {
  std::vector<float> y(static_cast<size_t>(n_tokens * w.rows)), scratch(static_cast<size_t>(w.cols));
  kernels.matmul(w, 0, w.rows, x, w.cols, n_tokens, y.data(), w.rows, scratch.data());
  return y;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

TEST_P(CpuKernels, DecodeMeetsTheGoldenValues) {
  for (const TypeInfo* type : test::golden_types()) {
    const test::GoldenBlocks golden = test::golden_blocks(*type);
    std::vector<float> out(golden.values.size());
    kernels().decode(type->type, golden.blocks.data(), out.data(), out.size());
    test::expect_same_values(golden.values, out.data(), type->name);
  }
}

// Any bit pattern, infinite and NaN scales included, at an odd address.
TEST_P(CpuKernels, DecodeEqualsTheBaselineOnRandomBlocks) {
  for (const TypeInfo& type : quant::all_types()) {
    if (type.decode == nullptr) continue;
    const size_t n = 37 * 2 * type.block_elems;
    const std::vector<uint8_t> bytes = random_bytes(1 + quant::row_bytes(type.type, n), 71);
    std::vector<float> expected(n), out(n);
    type.decode(bytes.data() + 1, expected.data(), n);
    kernels().decode(type.type, bytes.data() + 1, out.data(), n);
    test::expect_same_values(expected, out.data(), type.name);
  }
}

TEST_P(CpuKernels, MatmulMeetsTheGoldenDotProducts) {
  const std::vector<float> act = test::read_f32(test::golden_path("quant/act.f32.bin"));
  for (const TypeInfo* type : test::golden_types()) {
    const test::GoldenBlocks golden = test::golden_blocks(*type);
    std::ifstream in(test::golden_path(std::string("quant/") + type->name + ".dot.json"));
    const nlohmann::json rows = nlohmann::json::parse(in)["rows"];
    const int64_t cols = static_cast<int64_t>(act.size());
    const Matrix w = matrix(type->type, golden.blocks.data(), static_cast<int64_t>(rows.size()), cols);
    ASSERT_EQ(golden.values.size(), rows.size() * act.size());
    const std::vector<float> y = product(kernels(), w, act.data(), 1);
    for (size_t r = 0; r < rows.size(); r++) {
      const double tolerance = 1e-6 * rows[r]["sumabs"].get<double>() + 1e-30;
      EXPECT_NEAR(y[r], rows[r]["dot"].get<double>(), tolerance) << type->name << " row " << r;
    }
  }
}

// Sums of small integers are exact in any order, so a dropped, repeated or misplaced element shows.
TEST_P(CpuKernels, SumsOfIntegersAreExactForAnyLength) {
  std::vector<int64_t> lengths = {1023, 1024, 1025, 2047, 2048, 2049, 5000, 20000};  // around whole chunks
  for (int64_t cols = 0; cols <= 200; cols++) lengths.push_back(cols);
  for (const int64_t cols : lengths) {
    const int64_t rows = cols < 1000 ? 3 : 11, n_tokens = 8;
    const std::vector<float> w = random_integers(static_cast<size_t>(rows * cols), 1);
    const std::vector<float> x = random_integers(static_cast<size_t>(n_tokens * cols), 2);
    const std::vector<float> y = product(kernels(), matrix(Type::F32, w.data(), rows, cols), x.data(), n_tokens);
    for (int64_t t = 0; t < n_tokens; t++) {
      for (int64_t r = 0; r < rows; r++) {
        double expected = 0;
        for (int64_t c = 0; c < cols; c++) {
          expected += static_cast<double>(w[static_cast<size_t>(r * cols + c)]) * x[static_cast<size_t>(t * cols + c)];
        }
        ASSERT_EQ(y[static_cast<size_t>(t * rows + r)], expected) << "cols " << cols << " token " << t << " row " << r;
        ASSERT_EQ(kernels().dot(w.data() + r * cols, x.data() + t * cols, cols), expected);
      }
    }
  }
}

// No sum takes more than cols / 16 + 8 roundings in a row (16 partial sums at least), so the error stays below that
// many half units of the sum of magnitudes.
TEST_P(CpuKernels, ErrorStaysWithinItsBound) {
  for (const Type type : {Type::F32, Type::F16, Type::BF16}) {
    for (const int64_t cols : {1, 5, 63, 64, 777, 4100}) {
      const int64_t rows = 5, n_tokens = 4;
      std::vector<float> w = random_floats(static_cast<size_t>(rows * cols), 3);
      std::vector<uint16_t> halves(w.size());
      for (size_t i = 0; i < w.size() && type != Type::F32; i++) {
        halves[i] = type == Type::F16 ? quant::f32_to_f16(w[i]) : quant::f32_to_bf16(w[i]);
        w[i] = type == Type::F16 ? quant::f16_to_f32(halves[i]) : quant::bf16_to_f32(halves[i]);
      }
      const void* data = type == Type::F32 ? static_cast<const void*>(w.data()) : halves.data();
      const std::vector<float> x = random_floats(static_cast<size_t>(n_tokens * cols), 4);
      const std::vector<float> y = product(kernels(), matrix(type, data, rows, cols), x.data(), n_tokens);
      for (int64_t t = 0; t < n_tokens; t++) {
        for (int64_t r = 0; r < rows; r++) {
          double expected = 0, magnitude = 0;
          for (int64_t c = 0; c < cols; c++) {
            const double term =
                static_cast<double>(w[static_cast<size_t>(r * cols + c)]) * x[static_cast<size_t>(t * cols + c)];
            expected += term;
            magnitude += std::fabs(term);
          }
          const double tolerance = (static_cast<double>(cols) / 16 + 8) * 0x1p-24 * magnitude;
          EXPECT_NEAR(y[static_cast<size_t>(t * rows + r)], expected, tolerance) << cols;
          const float dot = kernels().dot(&w[static_cast<size_t>(r * cols)], &x[static_cast<size_t>(t * cols)], cols);
          EXPECT_NEAR(dot, expected, tolerance) << cols;
        }
      }
    }
  }
}

// Bytes of rows with ordinary values: random ones of the plain types, the first golden blocks of the others.
std::vector<uint8_t> weights(Type type, int64_t rows, int64_t cols) {
  if (type != Type::F32 && type != Type::BF16) return test::golden_blocks(quant::info(type)).blocks;
  const std::vector<float> values = random_floats(static_cast<size_t>(rows * cols), 8);
  std::vector<uint8_t> bytes;
  for (const float value : values) {
    const uint32_t word = type == Type::F32 ? std::bit_cast<uint32_t>(value) : quant::f32_to_bf16(value);
    for (uint32_t i = 0; i < quant::info(type).block_bytes; i++) bytes.push_back(static_cast<uint8_t>(word >> (8 * i)));
  }
  return bytes;
}

// Computes random ranges of rows and tokens with random strides; each sum must have the bits of computing it alone, and
// nothing else may be written.
void check_sums_alone(const Kernels& kernels, const Matrix& w, Random& random) {
  constexpr float kUntouched = -12345;
  const auto up_to = [&random](int64_t max) {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(max) + 1));
  };
  const int64_t tokens_max = 20, n_tokens = up_to(tokens_max);
  const int64_t begin = up_to(w.rows), end = begin + up_to(w.rows - begin);
  const int64_t x_stride = w.cols + up_to(10), y_stride = w.rows + up_to(4);
  const std::vector<float> x = random_floats(static_cast<size_t>(tokens_max * x_stride), random.next());
  std::vector<float> y(static_cast<size_t>(tokens_max * y_stride), kUntouched), scratch(static_cast<size_t>(w.cols));
  kernels.matmul(w, begin, end, x.data(), x_stride, n_tokens, y.data(), y_stride, scratch.data());
  std::vector<float> alone(static_cast<size_t>(w.rows));
  for (int64_t t = 0; t < tokens_max; t++) {
    for (int64_t r = 0; r < y_stride; r++) {
      float expected = kUntouched;
      if (t < n_tokens && r >= begin && r < end) {
        kernels.matmul(w, r, r + 1, &x[static_cast<size_t>(t * x_stride)], w.cols, 1, alone.data(), 1, scratch.data());
        expected = alone[static_cast<size_t>(r)];
      }
      ASSERT_TRUE(same_bits(y[static_cast<size_t>(t * y_stride + r)], expected))
          << quant::info(w.type).name << " token " << t << " of " << n_tokens << " row " << r;
    }
  }
}

TEST_P(CpuKernels, SumsDoNotDependOnTheirNeighbours) {
  struct Shape {
    Type type;
    int64_t rows, cols;
  };
  Random random(5);
  for (const Shape& shape : {Shape{Type::F32, 9, 333},
                             {Type::F32, 11, 3077},
                             {Type::BF16, 13, 2100},
                             {Type::Q8_0, 9, 96},
                             {Type::Q4_K, 8, 2560}}) {
    const std::vector<uint8_t> bytes = weights(shape.type, shape.rows, shape.cols);
    const Matrix w = matrix(shape.type, bytes.data(), shape.rows, shape.cols);
    ASSERT_GE(bytes.size(), static_cast<size_t>(w.rows) * w.row_bytes);
    for (int round = 0; round < 25; round++) check_sums_alone(kernels(), w, random);
  }
}

TEST_P(CpuKernels, AxpyOfAnElementIsTheSameAtAnyPlace) {
  const std::vector<float> x = random_floats(100, 11), y = random_floats(100, 12);
  const float a = 0.7310586f;
  for (size_t n = 0; n <= 99; n++) {
    std::vector<float> result = y;
    kernels().axpy(a, x.data(), result.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < 100; i++) {
      float alone = y[i];
      if (i < n) kernels().axpy(a, &x[i], &alone, 1);
      ASSERT_TRUE(same_bits(result[i], alone)) << n << " " << i;
      if (i < n) {
        const double magnitude = std::fabs(double{a} * x[i]) + std::fabs(y[i]);
        ASSERT_NEAR(result[i], double{a} * x[i] + y[i], magnitude * 0x1p-23);
      }
    }
  }
}

// Rows one block long (and a few elements for plain floats) at the very ends of exactly sized buffers, as the experts
// of a small model lie at the end of a mapped file.
TEST_P(CpuKernels, NothingOutsideTheBuffersIsTouched) {
  for (const TypeInfo& type : quant::all_types()) {
    if (type.decode == nullptr) continue;
    for (const Guard guard : {Guard::kBefore, Guard::kBehind}) {
      for (const size_t count : {1, 3, 7, 33}) {
        const size_t cols = type.block_elems * count, rows = 2, n_tokens = 8;
        const std::vector<uint8_t> bytes(rows * quant::row_bytes(type.type, cols), 0x2A);
        GuardedBytes w(bytes, guard), out(cols * 4, guard), scratch(cols * 4, guard);
        GuardedBytes x(n_tokens * cols * 4, guard), y(n_tokens * rows * 4, guard);
        kernels().decode(type.type, w.data(), out.floats(), cols);
        kernels().matmul(matrix(type.type, w.data(), rows, static_cast<int64_t>(cols)), 0, rows, x.floats(),
                         static_cast<int64_t>(cols), n_tokens, y.floats(), rows, scratch.floats());
        kernels().axpy(2, x.floats(), out.floats(), static_cast<int64_t>(cols));
        EXPECT_EQ(kernels().dot(x.floats(), out.floats(), static_cast<int64_t>(cols)), 0) << type.name;
        for (size_t i = 0; i < n_tokens * rows; i++) EXPECT_EQ(y.floats()[i], 0) << type.name;
      }
    }
  }
}

TEST_P(CpuKernels, F32WeightsNeedNoAlignment) {
  const int64_t cols = 75;
  const std::vector<float> w = random_floats(static_cast<size_t>(cols), 13);
  const std::vector<float> x = random_floats(static_cast<size_t>(cols), 14);
  std::vector<uint8_t> shifted(3 + w.size() * sizeof(float));
  std::memcpy(shifted.data() + 3, w.data(), w.size() * sizeof(float));
  const std::vector<float> aligned = product(kernels(), matrix(Type::F32, w.data(), 1, cols), x.data(), 1);
  const std::vector<float> odd = product(kernels(), matrix(Type::F32, shifted.data() + 3, 1, cols), x.data(), 1);
  EXPECT_TRUE(same_bits(aligned[0], odd[0]));
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuKernels,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx),
                         [](const testing::TestParamInfo<Isa>& param) { return isa_name(param.param); });

}  // namespace
}  // namespace strata::kernels
