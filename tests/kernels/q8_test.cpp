// The integer products of every instruction set against the golden dot products (tests/golden/quant.md, points 3
// and 4), and the promise that a result's bits depend on nothing beside it.
#include <algorithm>
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

constexpr int64_t kGoldenCols = 512;

class Q8 : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_available(GetParam())) GTEST_SKIP() << isa_name(GetParam()) << " is not available here";
    kernels_ = &kernels_for(GetParam());
  }
  const Kernels& kernels() const { return *kernels_; }

 private:
  const Kernels* kernels_ = nullptr;
};

std::vector<const TypeInfo*> integer_types() {
  std::vector<const TypeInfo*> types;
  for (const TypeInfo& type : quant::all_types()) {
    if (type.in_files && act_format(type.type) != ActFormat::kNone) types.push_back(&type);
  }
  return types;
}

nlohmann::json golden_json(const TypeInfo& type) {
  std::ifstream in(test::golden_path(std::string("quant/") + type.name + ".dot.json"));
  EXPECT_TRUE(in) << type.name;
  return nlohmann::json::parse(in);
}

// One activation row of the golden files in our layout, with sums of our own.
std::vector<uint8_t> golden_act_row(ActFormat format) {
  const bool super = format == ActFormat::kSuper;
  const std::vector<uint8_t> packed =
      test::read_bytes(test::golden_path(super ? "quant/act.q8_K.bin" : "quant/act.q8_0.bin"));
  const ActRowLayout at = act_row_layout(format, kGoldenCols);
  std::vector<uint8_t> row(at.bytes);
  const int64_t width = act_scale_cols(format);
  const size_t block_bytes = super ? 292 : 34;
  for (int64_t b = 0; b < kGoldenCols / width; b++) {
    const uint8_t* block = packed.data() + static_cast<size_t>(b) * block_bytes;
    float d;
    if (super) {
      std::memcpy(&d, block, sizeof d);
    } else {
      uint16_t half;
      std::memcpy(&half, block, sizeof half);
      d = quant::f16_to_f32(half);
    }
    std::memcpy(row.data() + at.d + static_cast<size_t>(b) * sizeof d, &d, sizeof d);
    std::memcpy(row.data() + b * width, block + (super ? 4 : 2), static_cast<size_t>(width));
  }
  for (int64_t g = 0; g < kGoldenCols / 16; g++) {
    int16_t sum = 0;
    for (int i = 0; i < 16; i++)
      sum = static_cast<int16_t>(sum + static_cast<int8_t>(row[static_cast<size_t>(16 * g + i)]));
    std::memcpy(row.data() + at.sums + static_cast<size_t>(g) * sizeof sum, &sum, sizeof sum);
  }
  return row;
}

std::vector<uint8_t> quantized(const Kernels& kernels, ActFormat format, const std::vector<float>& x, int64_t cols) {
  const size_t n_rows = x.size() / static_cast<size_t>(cols);
  const size_t bytes = act_row_layout(format, cols).bytes;
  std::vector<uint8_t> rows(n_rows * bytes);
  for (size_t r = 0; r < n_rows; r++) {
    kernels.quantize_row(format, x.data() + r * static_cast<size_t>(cols), cols, rows.data() + r * bytes);
  }
  return rows;
}

std::vector<uint8_t> packed_tiles(const Kernels& kernels, ActFormat format, const std::vector<uint8_t>& rows,
                                  int64_t cols) {
  const size_t row_bytes = act_row_layout(format, cols).bytes;
  const size_t tile_bytes = act_tile_layout(format, cols).bytes;
  const size_t n_rows = rows.size() / row_bytes;
  const size_t n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  std::vector<uint8_t> tiles(n_tiles * tile_bytes);
  for (size_t t = 0; t < n_tiles; t++) {
    const uint8_t* row[kTileRows] = {};
    int n = 0;
    for (; n < kTileRows && t * kTileRows + static_cast<size_t>(n) < n_rows; n++) {
      row[n] = rows.data() + (t * kTileRows + static_cast<size_t>(n)) * row_bytes;
    }
    kernels.pack_tile(format, row, n, cols, tiles.data() + t * tile_bytes);
  }
  return tiles;
}

Matrix matrix(Type type, const void* data, int64_t rows, int64_t cols) {
  return {type, static_cast<const uint8_t*>(data), rows, cols, quant::row_bytes(type, static_cast<size_t>(cols))};
}

// y[token][row]
std::vector<float> product(const Kernels& kernels, const Matrix& w, const std::vector<uint8_t>& x, int64_t n_tokens,
                           bool tiles) {
  std::vector<float> y(static_cast<size_t>(n_tokens * w.rows), 12345.0f);
  std::vector<uint8_t> scratch(kQ8ScratchBytes);
  kernels.matmul_q8(w, 0, w.rows, x.data(), n_tokens, tiles, {y.data(), w.rows}, scratch.data());
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_golden(const nlohmann::json& golden, const float* y, const char* what) {
  for (const auto& row : golden.at("rows")) {
    const size_t r = row.at("row").get<size_t>();
    const double bound = 2e-6 * row.at("sumabs_actq").get<double>() + 1e-30;
    const double expected = row.at("dot_actq").get<double>();
    EXPECT_LE(std::fabs(static_cast<double>(y[r]) - expected), bound)
        << what << " row " << r << " (" << row.at("kind").get<std::string>() << "): " << y[r] << ", expected "
        << expected;
  }
}

// Point 3: one row, and tiles of 1, 16 and 19 equal rows.
TEST_P(Q8, ProductsMeetTheGoldenDotProducts) {
  for (const TypeInfo* type : integer_types()) {
    const nlohmann::json golden = golden_json(*type);
    const std::vector<uint8_t> blocks =
        test::read_bytes(test::golden_path(std::string("quant/") + type->name + ".blocks.bin"));
    const Matrix w = matrix(type->type, blocks.data(), golden.at("n_rows").get<int64_t>(), kGoldenCols);
    const ActFormat format = act_format(type->type);
    const std::vector<uint8_t> row = golden_act_row(format);
    expect_golden(golden, product(kernels(), w, row, 1, false).data(), type->name);
    if (!kernels().has_tiles) continue;
    for (const int64_t n_tokens : {1, 16, 19}) {
      std::vector<uint8_t> rows;
      for (int64_t t = 0; t < n_tokens; t++) rows.insert(rows.end(), row.begin(), row.end());
      const std::vector<uint8_t> tiles = packed_tiles(kernels(), format, rows, kGoldenCols);
      const std::vector<float> y = product(kernels(), w, tiles, n_tokens, true);
      for (int64_t t = 0; t < n_tokens; t++) expect_golden(golden, y.data() + t * w.rows, type->name);
    }
  }
}

// Point 4: scale bits equal, codes within 1, sums those of the codes.
TEST_P(Q8, ActivationsMeetTheGoldenOnes) {
  const std::vector<float> x = test::read_f32(test::golden_path("quant/act.f32.bin"));
  ASSERT_EQ(x.size(), static_cast<size_t>(kGoldenCols));
  for (const ActFormat format : {ActFormat::kSuper, ActFormat::kBlock}) {
    const std::vector<uint8_t> golden = golden_act_row(format);
    const std::vector<uint8_t> row = quantized(kernels(), format, x, kGoldenCols);
    const ActRowLayout at = act_row_layout(format, kGoldenCols);
    EXPECT_EQ(std::memcmp(golden.data() + at.d, row.data() + at.d, at.sums - at.d), 0) << "scales";
    for (size_t i = 0; i < static_cast<size_t>(kGoldenCols); i++) {
      EXPECT_LE(std::abs(static_cast<int8_t>(row[i]) - static_cast<int8_t>(golden[i])), 1) << i;
    }
    for (size_t g = 0; g < static_cast<size_t>(kGoldenCols) / 16; g++) {
      int16_t sum;
      std::memcpy(&sum, row.data() + at.sums + 2 * g, sizeof sum);
      int expected = 0;
      for (size_t i = 0; i < 16; i++) expected += static_cast<int8_t>(row[16 * g + i]);
      EXPECT_EQ(sum, expected) << g;
    }
  }
}

// Rows of odd values: zeros, tiny, huge, infinite, NaN.
TEST_P(Q8, OddActivationsStayWhatTheyAre) {
  for (const ActFormat format : {ActFormat::kSuper, ActFormat::kBlock}) {
    const auto d_of = [&](float value) {
      std::vector<float> x(256, 0.0f);
      x[17] = value;
      const std::vector<uint8_t> row = quantized(kernels(), format, x, 256);
      float d;
      std::memcpy(&d, row.data() + act_row_layout(format, 256).d, sizeof d);
      return d;
    };
    EXPECT_EQ(d_of(0), 0);
    EXPECT_EQ(d_of(1e-44f), 0);
    EXPECT_TRUE(std::isfinite(d_of(3e38f)));
    EXPECT_FALSE(std::isfinite(d_of(INFINITY)));
    EXPECT_TRUE(std::isnan(d_of(NAN)));
  }
}

// Bias and the old value join after the sum, in this order.
TEST_P(Q8, BiasAndOldValueJoinTheSum) {
  Random random(5);
  const int64_t cols = 512, n_rows = 21, n_tokens = 19;
  const std::vector<uint8_t> blocks = test::read_bytes(test::golden_path("quant/Q4_K.blocks.bin"));
  const Matrix w = matrix(Type::Q4_K, blocks.data(), n_rows, cols);
  std::vector<float> x(static_cast<size_t>(n_tokens * cols)), bias(static_cast<size_t>(n_rows));
  std::vector<float> old(static_cast<size_t>(n_tokens * n_rows));
  for (auto* values : {&x, &bias, &old}) {
    for (float& v : *values) v = static_cast<float>(random.normal());
  }
  const std::vector<uint8_t> rows = quantized(kernels(), ActFormat::kSuper, x, cols);
  const std::vector<float> plain = product(kernels(), w, rows, n_tokens, false);
  std::vector<uint8_t> scratch(kQ8ScratchBytes);
  for (const bool tiles : {false, true}) {
    if (tiles && !kernels().has_tiles) continue;
    std::vector<float> y = old;
    const std::vector<uint8_t> act = tiles ? packed_tiles(kernels(), ActFormat::kSuper, rows, cols) : rows;
    kernels().matmul_q8(w, 0, n_rows, act.data(), n_tokens, tiles, {y.data(), n_rows, bias.data(), true},
                        scratch.data());
    for (size_t i = 0; i < y.size(); i++) {
      const float sum = plain[i] + bias[i % static_cast<size_t>(n_rows)];
      ASSERT_EQ(y[i], old[i] + sum) << i;
    }
  }
}

struct Case {
  int64_t rows, cols, tokens;
};

std::vector<uint8_t> random_blocks(const TypeInfo& type, int64_t rows, int64_t cols, Random& random) {
  // Rows of the golden blocks in random order: legal bytes with finite scales of every kind.
  const std::vector<uint8_t> golden =
      test::read_bytes(test::golden_path(std::string("quant/") + type.name + ".blocks.bin"));
  const size_t n_golden = golden.size() / type.block_bytes;
  std::vector<uint8_t> blocks(quant::row_bytes(type.type, static_cast<size_t>(rows * cols)));
  for (size_t b = 0; b < blocks.size() / type.block_bytes; b++) {
    std::memcpy(blocks.data() + b * type.block_bytes, golden.data() + random.below(n_golden) * type.block_bytes,
                type.block_bytes);
  }
  return blocks;
}

// A result is the same bits alone, in rows, in tiles, at any place of them, and cut at any weight row; and on every
// instruction set with fused multiply-add. Odd shapes; so wide that not all activations fit the scratch when prepared,
// then not one of them; weights end at an unreadable page.
TEST_P(Q8, BitsDependOnNothingBeside) {
  Random random(7);
  for (const TypeInfo* type : integer_types()) {
    const ActFormat format = act_format(type->type);
    const int64_t unit = std::max<int64_t>(type->block_elems, 32);
    for (const Case& c : {Case{5, unit, 3}, Case{33, unit * 3, 21}, Case{16, 4096 + unit, 17}, Case{6, 32768 + unit, 4},
                          Case{2, 131072 + unit, 2}}) {
      SCOPED_TRACE(testing::Message() << type->name << " " << c.rows << " x " << c.cols << ", " << c.tokens
                                      << " tokens");
      GuardedBytes blocks(random_blocks(*type, c.rows, c.cols, random), Guard::kBehind);
      const Matrix w = matrix(type->type, blocks.data(), c.rows, c.cols);
      std::vector<float> x(static_cast<size_t>(c.tokens * c.cols));
      for (float& v : x) v = static_cast<float>(random.normal());
      const std::vector<uint8_t> rows = quantized(kernels(), format, x, c.cols);
      const size_t row_bytes = act_row_layout(format, c.cols).bytes;
      std::vector<float> alone;
      for (int64_t t = 0; t < c.tokens; t++) {
        const std::vector<uint8_t> one(rows.begin() + t * static_cast<int64_t>(row_bytes),
                                       rows.begin() + (t + 1) * static_cast<int64_t>(row_bytes));
        const std::vector<float> y = product(kernels(), w, one, 1, false);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      EXPECT_TRUE(same_bits(alone, product(kernels(), w, rows, c.tokens, false))) << "rows";
      if (kernels().has_tiles) {
        const std::vector<uint8_t> tiles = packed_tiles(kernels(), format, rows, c.cols);
        EXPECT_TRUE(same_bits(alone, product(kernels(), w, tiles, c.tokens, true))) << "tiles";
      }
      std::vector<float> cut(alone.size());
      std::vector<uint8_t> scratch(kQ8ScratchBytes);
      const int64_t border = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(c.rows - 1)));
      for (const auto& [begin, end] : {std::pair{int64_t{0}, border}, std::pair{border, c.rows}}) {
        kernels().matmul_q8(w, begin, end, rows.data(), c.tokens, false, {cut.data(), c.rows}, scratch.data());
      }
      EXPECT_TRUE(same_bits(alone, cut)) << "cut at " << border;
      if (GetParam() != Isa::kScalar) {
        const Kernels& other = kernels_for(Isa::kAvx2);
        EXPECT_TRUE(same_bits(alone, product(other, w, quantized(other, format, x, c.cols), c.tokens, false)))
            << "avx2";
      }
    }
  }
}

// A block with as many bytes as possible set to `fill` that still decodes to values of ordinary size: codes at the ends
// of their range, with a scale that is a number.
std::vector<uint8_t> extreme_block(const TypeInfo& type, uint8_t fill, Random& random) {
  std::vector<uint8_t> block = random_blocks(type, 1, type.block_elems, random);
  std::vector<float> values(type.block_elems);
  for (uint8_t& byte : block) {
    const uint8_t before = byte;
    byte = fill;
    type.decode(block.data(), values.data(), values.size());
    const bool ordinary = std::all_of(values.begin(), values.end(), [](float v) { return std::fabs(v) < 1e4f; });
    if (!ordinary) byte = before;
  }
  return block;
}

// Products of the largest codes with the largest activations, all of one sign: sums of 16 bits on the way would show.
TEST_P(Q8, LargestCodesDoNotOverflow) {
  Random random(11);
  const int64_t cols = 512, n_rows = 8, n_tokens = 17;
  for (const TypeInfo* type : integer_types()) {
    std::vector<uint8_t> blocks;
    for (const int fill : {0x00, 0x0F, 0x7F, 0x80, 0xAA, 0xF0, 0xF7, 0xFF}) {
      for (int64_t c = 0; c < cols; c += type->block_elems) {
        const std::vector<uint8_t> block = extreme_block(*type, static_cast<uint8_t>(fill), random);
        blocks.insert(blocks.end(), block.begin(), block.end());
      }
    }
    const Matrix w = matrix(type->type, blocks.data(), n_rows, cols);
    std::vector<float> weights(static_cast<size_t>(n_rows * cols));
    type->decode(blocks.data(), weights.data(), weights.size());
    for (const float a : {1.0f, -1.0f}) {
      const std::vector<float> x(static_cast<size_t>(n_tokens * cols), a);
      const ActFormat format = act_format(type->type);
      const std::vector<uint8_t> rows = quantized(kernels(), format, x, cols);
      const std::vector<float> y = product(kernels(), w, rows, n_tokens, false);
      if (kernels().has_tiles) {
        const std::vector<uint8_t> tiles = packed_tiles(kernels(), format, rows, cols);
        EXPECT_TRUE(same_bits(y, product(kernels(), w, tiles, n_tokens, true))) << type->name << " tiles";
      }
      for (size_t r = 0; r < static_cast<size_t>(n_rows); r++) {
        double sum = 0, sum_of_sizes = 0;
        for (size_t c = 0; c < static_cast<size_t>(cols); c++) {
          const double weight = static_cast<double>(weights[r * static_cast<size_t>(cols) + c]);
          sum += weight * static_cast<double>(a);
          sum_of_sizes += std::fabs(weight);
        }
        // 127 times the scale is 1 but for the scale's rounding to float16.
        EXPECT_NEAR(static_cast<double>(y[r]), sum, 0x1p-10 * sum_of_sizes) << type->name << " row " << r;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Q8, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx),
                         [](const auto& instance) { return std::string(isa_name(instance.param)); });

}  // namespace
}  // namespace strata::kernels
