// The KV cache formats, and attention over paged blocks against the naive form over gathered keys and values.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/ref/ref.h"
#include "quant/encode.h"
#include "quant/type.h"
#include "support.h"

namespace strata::kernels {
namespace {

using namespace test;

struct Shape {
  int n_q, head_dim, value_dim, block_tokens;
  int64_t position;    // of row 0
  int64_t window = 0;  // 0: all
  bool sinks = false;
  KvType type = KvType::kF32;
  int n_rows = 1;
  int n_kv_heads = 2;

  int64_t first(int row) const { return window > 0 ? std::max<int64_t>(0, position + row - window + 1) : 0; }
  int64_t last() const { return position + n_rows - 1; }
};

// Rows and heads that one call computes.
struct Pick {
  int row = 0, n_rows = 0;  // 0: all
  int head = 0, n_q = 0;
};

// The elements of the cache that kv_store makes of values, as float32.
std::vector<float> stored(KvType type, const std::vector<float>& x) {
  std::vector<float> y = x;
  if (type == KvType::kQ8_0) {
    std::vector<uint8_t> blocks(kv_bytes(type, static_cast<int64_t>(x.size())));
    quant::find_encoder(quant::Type::Q8_0)(x.data(), blocks.data(), x.size());
    quant::info(quant::Type::Q8_0).decode(blocks.data(), y.data(), y.size());
  }
  for (float& value : y) {
    if (type == KvType::kF16) value = quant::f16_to_f32(quant::f32_to_f16(value));
    if (type == KvType::kBf16) value = quant::bf16_to_f32(quant::f32_to_bf16(value));
  }
  return y;
}

// A cache whose blocks lie in shuffled order, filled through kv_store of the plainest kernels. What no row sees holds
// NaN (0xff everywhere): a row must not see it.
class Case {
 public:
  Case(const Shape& s, uint64_t seed)
      : shape(s), scale(1 / std::sqrt(static_cast<float>(s.head_dim))), random_(seed) {
    const int64_t n_blocks = s.last() / s.block_tokens + 1;
    table_.resize(static_cast<size_t>(n_blocks));
    std::iota(table_.begin(), table_.end(), 0);
    for (size_t i = table_.size(); i > 1; i--) std::swap(table_[i - 1], table_[random_.below(i)]);
    k_token_bytes_ = kv_bytes(s.type, s.n_kv_heads * s.head_dim);
    v_token_bytes_ = kv_bytes(s.type, s.n_kv_heads * s.value_dim);
    const auto tokens = static_cast<size_t>(n_blocks * s.block_tokens);
    k_cache_ = std::make_unique<Guarded<uint8_t>>(std::vector<uint8_t>(tokens * k_token_bytes_, 0xff));
    v_cache_ = std::make_unique<Guarded<uint8_t>>(std::vector<uint8_t>(tokens * v_token_bytes_, 0xff));
    q = std::make_unique<Floats>(normals(random_, static_cast<size_t>(s.n_rows * q_row_stride())));
    for (int64_t position = s.first(0); position <= s.last(); position++) fill(position);
    sinks = normals(random_, static_cast<size_t>(s.n_q), 2);
  }

  int64_t q_stride() const { return shape.head_dim; }
  int64_t q_row_stride() const { return shape.n_q * q_stride() + 5; }
  const float* query(int row, int head) const { return q->data() + row * q_row_stride() + head * q_stride(); }

  // [rows][heads][value_dim] of what was picked, by attention() or in two steps.
  std::vector<float> run(const Kernels& kernels, Pick pick = {}, bool by_spans = false) const {
    if (pick.n_rows == 0) pick.n_rows = shape.n_rows;
    if (pick.n_q == 0) pick.n_q = shape.n_q;
    const int64_t stride = shape.value_dim + 3;
    const int64_t row_stride = pick.n_q * stride + 2;
    Floats out(static_cast<size_t>((pick.n_rows - 1) * row_stride + (pick.n_q - 1) * stride + shape.value_dim));
    Floats scratch(static_cast<size_t>(
        attention_scratch(pick.n_rows * pick.n_q, shape.head_dim, shape.value_dim, shape.block_tokens)));
    AttentionArgs args = args_of(pick);
    args.out = out.data();
    args.out_row_stride = row_stride;
    args.out_stride = stride;
    args.scratch = scratch.data();
    if (by_spans) {
      run_spans(kernels, args);
    } else {
      kernels.attention(args);
    }
    EXPECT_TRUE(out.intact());
    EXPECT_TRUE(scratch.intact());
    std::vector<float> packed;
    size_t at = 0;
    for (int64_t r = 0; r < pick.n_rows; r++) {
      for (int64_t h = 0; h < pick.n_q; h++) {
        const auto begin = static_cast<size_t>(r * row_stride + h * stride);
        expect_untouched(out, at, begin);
        at = begin + static_cast<size_t>(shape.value_dim);
        packed.insert(packed.end(), out.data() + begin, out.data() + at);
      }
    }
    return packed;
  }

  // What the naive form gives, and how far float32 may be off. A score is off by the roundings of its products (in at
  // least four sums; they go either way, so half of them count) and of what follows, which changes its weight by as
  // much relative to itself; exp adds 2e-7. So an output is off by the average of that, over the softmax, of the
  // value's and the output's own size; and its sums by one rounding a token.
  void reference(std::vector<double>* want, std::vector<double>* tolerance) const {
    for (int row = 0; row < shape.n_rows; row++) {
      const auto begin = static_cast<size_t>(shape.first(row) - shape.first(0));
      const auto n = static_cast<size_t>(shape.position + row - shape.first(row) + 1);
      const std::vector<float> row_keys = part(keys, begin, n, shape.head_dim);
      const std::vector<float> row_values = part(values, begin, n, shape.value_dim);
      for (int h = 0; h < shape.n_q; h++) {
        const Average average{*this, query(row, h), shape.sinks ? &sinks[static_cast<size_t>(h)] : nullptr, row_keys};
        const std::vector<double> out = average.of(row_values, shape.value_dim);
        const std::vector<float> weight_off = average.weight_errors();
        std::vector<float> sizes = row_values, sizes_off = row_values;
        for (size_t i = 0; i < sizes.size(); i++) {
          sizes[i] = std::abs(row_values[i]);
          sizes_off[i] = sizes[i] * weight_off[i / static_cast<size_t>(shape.value_dim)];
        }
        const std::vector<double> size = average.of(sizes, shape.value_dim);
        const std::vector<double> size_off = average.of(sizes_off, shape.value_dim);
        const double total_off = average.of(weight_off, 1)[0];
        for (size_t d = 0; d < out.size(); d++) {
          want->push_back(out[d]);
          tolerance->push_back(size_off[d] + total_off * std::abs(out[d]) + static_cast<double>(n + 16) * kU * size[d]);
        }
      }
    }
  }

  Shape shape;
  float scale;
  std::unique_ptr<Floats> q;
  std::vector<float> keys, values;  // of the visible positions, as the cache holds them
  std::vector<float> sinks;

  // Bytes of the visible key and value at `position`, for tests that change the cache.
  uint8_t* key(int64_t position) { return at(*k_cache_, k_token_bytes_, position) + head_offset(shape.head_dim); }
  uint8_t* value(int64_t position) { return at(*v_cache_, v_token_bytes_, position) + head_offset(shape.value_dim); }

 private:
  // The softmax averages of one query over the keys of its row.
  struct Average {
    const Case& c;
    const float* query;
    const float* sink;
    const std::vector<float>& keys;

    // Of rows of `width` values.
    std::vector<double> of(const std::vector<float>& rows, int width) const {
      std::vector<double> out(static_cast<size_t>(width));
      const auto n = static_cast<int64_t>(rows.size()) / width;
      ref::attention({query, keys.data(), rows.data(), n, c.shape.head_dim, width, c.scale, sink}, out.data());
      return out;
    }
    // The relative error of each key's weight.
    std::vector<float> weight_errors() const {
      const auto dim = static_cast<size_t>(c.shape.head_dim);
      std::vector<float> errors;
      for (size_t from = 0; from < keys.size(); from += dim) {
        double size = 0;
        for (size_t d = 0; d < dim; d++) size += std::abs(double{query[d]} * keys[from + d]);
        errors.push_back(static_cast<float>((c.shape.head_dim / 8.0 + 8) * kU * c.scale * size + 2e-7));
      }
      return errors;
    }
  };

  static std::vector<float> part(const std::vector<float>& rows, size_t begin, size_t n, int width) {
    const auto at = rows.begin() + static_cast<ptrdiff_t>(begin) * width;
    return {at, at + static_cast<ptrdiff_t>(n) * width};
  }

  AttentionArgs args_of(const Pick& pick) const {
    AttentionArgs args = {};
    args.q = query(pick.row, pick.head);
    args.q_row_stride = q_row_stride();
    args.q_stride = q_stride();
    args.n_rows = pick.n_rows;
    args.n_q = pick.n_q;
    args.head_dim = shape.head_dim;
    args.value_dim = shape.value_dim;
    args.type = shape.type;
    args.k = k_cache_->data();
    args.v = v_cache_->data();
    args.k_token_bytes = k_token_bytes_;
    args.v_token_bytes = v_token_bytes_;
    args.k_head_offset = head_offset(shape.head_dim);
    args.v_head_offset = head_offset(shape.value_dim);
    args.block_table = table_.data();
    args.block_tokens = shape.block_tokens;
    args.position = shape.position + pick.row;
    args.window = shape.window;
    args.scale = scale;
    args.sinks = shape.sinks ? sinks.data() + pick.head : nullptr;
    return args;
  }

  // Row by row, the spans from the last to the first.
  void run_spans(const Kernels& kernels, const AttentionArgs& all) const {
    const int64_t state = attention_state(all.n_q, all.value_dim);
    for (int r = 0; r < all.n_rows; r++) {
      AttentionArgs args = all;
      args.n_rows = 1;
      args.q += r * all.q_row_stride;
      args.out += r * all.out_row_stride;
      args.position += r;
      const int64_t first = shape.first(static_cast<int>(args.position - shape.position));
      const int64_t n = attention_spans(first, args.position);
      const int64_t stride = state + 7;
      Floats states(static_cast<size_t>((n - 1) * stride + state));
      for (int64_t i = n; i-- > 0;)
        kernels.attention_span(args, first / kAttentionSpan + i, states.data() + i * stride);
      kernels.attention_join(args, states.data(), stride);
      EXPECT_TRUE(states.intact());
    }
  }

  static void expect_untouched(const Floats& out, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
      uint32_t bits;
      std::memcpy(&bits, out.data() + i, sizeof bits);
      EXPECT_EQ(bits, 0xf7f7f7f7u) << "written between the heads";
    }
  }

  size_t head_offset(int dim) const { return kv_bytes(shape.type, (shape.n_kv_heads - 1) * dim); }
  uint8_t* at(Guarded<uint8_t>& cache, size_t token_bytes, int64_t position) {
    const int64_t block = table_[static_cast<size_t>(position / shape.block_tokens)];
    return cache.data() + static_cast<size_t>(block * shape.block_tokens + position % shape.block_tokens) * token_bytes;
  }
  void fill(int64_t position) {
    store(key(position), shape.head_dim, &keys);
    store(value(position), shape.value_dim, &values);
  }
  void store(uint8_t* to, int dim, std::vector<float>* gathered) {
    const std::vector<float> x = normals(random_, static_cast<size_t>(dim));
    kernels_for(Isa::kScalar).kv_store(shape.type, x.data(), to, dim);
    const std::vector<float> y = stored(shape.type, x);
    gathered->insert(gathered->end(), y.begin(), y.end());
  }

  Random random_;
  std::vector<int32_t> table_;
  size_t k_token_bytes_ = 0, v_token_bytes_ = 0;
  std::unique_ptr<Guarded<uint8_t>> k_cache_, v_cache_;
};

void expect_matches_reference(const Shape& shape, uint64_t seed) {
  const Case test_case(shape, seed);
  std::vector<double> want, tolerance;
  test_case.reference(&want, &tolerance);
  for_each_isa([&](const Kernels& k) {
    const std::vector<float> got = test_case.run(k);
    ASSERT_EQ(got.size(), want.size());
    expect_close(got.data(), want, [&](size_t i) { return tolerance[i]; });
  });
}

// The next width that rows of the type may have.
int fitting(KvType type, int dim) { return (dim + kv_block(type) - 1) / kv_block(type) * kv_block(type); }

TEST(Attention, MatchesTheNaiveForm) {
  uint64_t seed = 100;
  for (const KvType type : kKvTypes) {
    for (const int dim : {1, 3, 32, 40, 64, 80, 128, 256}) {
      if (fitting(type, dim) != dim) continue;
      for (const int block_tokens : {16, 32}) {
        for (const int64_t position : {0, 1, 15, 16, 31, 33, 200}) {
          const bool sinks = seed % 2 == 0;
          const int n_q = static_cast<int>(seed % 9) + 1;
          SCOPED_TRACE(testing::Message() << "head_dim " << dim << " blocks of " << block_tokens << " position "
                                          << position << " heads " << n_q << " " << kv_type_name(type));
          expect_matches_reference({n_q, dim, dim, block_tokens, position, 0, sinks, type}, seed++);
        }
      }
    }
  }
}

// Over spans, at and beside their borders.
TEST(Attention, MatchesTheNaiveFormOverSpans) {
  uint64_t seed = 300;
  for (const KvType type : kKvTypes) {
    for (const int64_t position : {kAttentionSpan - 1, kAttentionSpan, 2 * kAttentionSpan + 3}) {
      for (const int64_t window : {int64_t{0}, kAttentionSpan, int64_t{40}}) {
        SCOPED_TRACE(testing::Message() << "position " << position << " window " << window << " "
                                        << kv_type_name(type));
        const bool sinks = seed % 2 == 0;
        expect_matches_reference({3, 32, 64, 32, position, window, sinks, type, 2}, seed++);
      }
    }
  }
}

Shape random_shape(Random& random) {
  Shape shape = {};
  shape.type = kKvTypes[random.below(std::size(kKvTypes))];
  shape.n_q = static_cast<int>(random.below(8)) + 1;
  shape.n_rows = static_cast<int>(random.below(12)) + 1;
  shape.head_dim = fitting(shape.type, static_cast<int>(random.below(200)) + 1);
  shape.value_dim = fitting(shape.type, static_cast<int>(random.below(200)) + 1);
  shape.block_tokens = 4 << random.below(4);
  shape.position = static_cast<int64_t>(random.below(2) == 0 ? random.below(600) : random.below(40));
  shape.window = random.below(2) == 0 ? 0 : static_cast<int64_t>(random.below(600)) + 1;
  shape.sinks = random.below(2) == 0;
  shape.n_kv_heads = static_cast<int>(random.below(3)) + 1;
  return shape;
}

TEST(Attention, MatchesTheNaiveFormOverRandomShapes) {
  Random random(41);
  for (uint64_t i = 0; i < 60; i++) {
    SCOPED_TRACE(i);
    expect_matches_reference(random_shape(random), 1000 + i);
  }
}

TEST(Attention, ComparisonNoticesAChangedKey) {
  for (const KvType type : kKvTypes) {
    Case test_case({4, 128, 128, 16, 90, 86, true, type}, 42);
    std::vector<double> want, tolerance;
    test_case.reference(&want, &tolerance);
    std::vector<float> changed(test_case.keys.end() - 128, test_case.keys.end());
    changed[127] += 0.1f;
    kernels_for(Isa::kScalar).kv_store(type, changed.data(), test_case.key(90), 128);
    for_each_isa([&](const Kernels& k) {
      const std::vector<float> got = test_case.run(k);
      EXPECT_GE(first_far(got.data(), want, [&](size_t i) { return tolerance[i]; }), 0);
    });
  }
}

// A row's bits are its own: computed with all others, with some of them, head by head, or by spans on other threads.
TEST(Attention, ARowDoesNotDependOnWhatIsComputedWithIt) {
  Random random(43);
  for (uint64_t i = 0; i < 40; i++) {
    SCOPED_TRACE(i);
    const Shape shape = random_shape(random);
    const Case test_case(shape, 2000 + i);
    const int split = static_cast<int>(random.below(static_cast<uint64_t>(shape.n_rows)));
    for_each_isa([&](const Kernels& k) {
      const std::vector<float> together = test_case.run(k);
      EXPECT_TRUE(same_bits(test_case.run(k, {}, true), together)) << "by spans";
      std::vector<float> cut;
      for (const auto& [row, n] : {std::pair{0, split}, std::pair{split, shape.n_rows - split}}) {
        if (n == 0) continue;
        const std::vector<float> some = test_case.run(k, {.row = row, .n_rows = n});
        cut.insert(cut.end(), some.begin(), some.end());
      }
      EXPECT_TRUE(same_bits(cut, together)) << "cut at row " << split;
      for (int h = 0; h < shape.n_q; h++) {
        const auto row = static_cast<size_t>(shape.n_rows - 1);
        const std::vector<float> alone = test_case.run(k, {.row = shape.n_rows - 1, .n_rows = 1, .head = h, .n_q = 1});
        const auto at = together.begin() + static_cast<ptrdiff_t>((row * shape.n_q + h) * shape.value_dim);
        EXPECT_TRUE(same_bits(alone, {at, at + shape.value_dim})) << "head " << h;
      }
    });
  }
}

// What a later token stored, infinite or NaN, reaches no earlier row, though they are computed together.
TEST(Attention, ARowDoesNotSeeLaterTokensOfItsTile) {
  for (const KvType type : kKvTypes) {
    Case test_case({4, 64, 64, 32, 60, 30, false, type, 8}, 44);
    std::vector<std::vector<float>> before;
    for_each_isa([&](const Kernels& k) { before.push_back(test_case.run(k)); });
    std::fill_n(test_case.key(67), kv_bytes(type, 64), uint8_t{0xff});
    std::fill_n(test_case.value(67), kv_bytes(type, 64), uint8_t{0xff});
    size_t isa = 0;
    for_each_isa([&](const Kernels& k) {
      std::vector<float> found = test_case.run(k);
      EXPECT_TRUE(std::isnan(found.back()));
      const size_t others = 7 * 4 * 64;
      found.resize(others);
      before[isa].resize(others);
      EXPECT_TRUE(same_bits(found, before[isa++]));
    });
  }
}

TEST(Attention, SinkOfMinusInfinityIsNone) {
  Case with({5, 64, 64, 32, 70, 0, true}, 44);
  const Case without({5, 64, 64, 32, 70, 0, false}, 44);
  with.sinks.assign(5, -std::numeric_limits<float>::infinity());
  for_each_isa([&](const Kernels& k) { EXPECT_TRUE(same_bits(with.run(k), without.run(k))); });
}

TEST(Attention, SurvivesLargeScores) {
  // Scores of several thousands: the maximum is in the last block, so everything before is rescaled to nothing.
  Case test_case({4, 64, 64, 16, 40, 0, true}, 45);
  test_case.scale = 500;
  std::vector<double> want, tolerance;
  test_case.reference(&want, &tolerance);
  for_each_isa([&](const Kernels& k) {
    const std::vector<float> got = test_case.run(k);
    for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], want[i], 2e-2);
  });
}

// How far the cache's rounding moves the result: a score by what rounding the key takes from it, and so its weight by
// e to that at most; the result by the change of the weights and by what rounding the values takes.
TEST(Attention, NarrowTypesStayWithinTheirRoundingOfFloat) {
  const auto step = [](KvType type, double size) {  // of one element whose head's largest is `size`
    if (type == KvType::kF16) return size * 0x1p-11;
    if (type == KvType::kBf16) return size * 0x1p-8;
    // Half a code; and the scale's own rounding, which 127 codes feel.
    return type == KvType::kQ8_0 ? size / 127 / 2 + size * 0x1p-11 : 0;
  };
  for (const KvType type : {KvType::kF16, KvType::kBf16, KvType::kQ8_0}) {
    const Shape exact_shape = {4, 128, 64, 32, 300, 0, false, KvType::kF32, 3};
    Shape shape = exact_shape;
    shape.type = type;
    const Case exact(exact_shape, 46), narrow(shape, 46);
    const auto largest = [](const std::vector<float>& x) {
      double m = 0;
      for (const float v : x) m = std::max(m, std::abs(double{v}));
      return m;
    };
    const double value_size = largest(exact.values);
    double score_off = 0;
    for (int row = 0; row < shape.n_rows; row++) {
      for (int h = 0; h < shape.n_q; h++) {
        double sum = 0;
        for (int d = 0; d < shape.head_dim; d++) sum += std::abs(exact.query(row, h)[d]);
        score_off = std::max(score_off, sum * exact.scale * step(type, largest(exact.keys)));
      }
    }
    const double allowed = std::expm1(2 * score_off) * value_size + step(type, value_size) + 1e-5;
    for_each_isa([&](const Kernels& k) {
      const std::vector<float> want = exact.run(k), got = narrow.run(k);
      double worst = 0;
      for (size_t i = 0; i < want.size(); i++) worst = std::max(worst, double{std::abs(got[i] - want[i])});
      EXPECT_LE(worst, allowed) << kv_type_name(type);
      EXPECT_GT(worst, 1e-6) << "it was the same cache";
    });
  }
}

TEST(KvStore, HalvesAreRoundedToNearestEvenAndClamped) {
  Random random(46);
  std::vector<float> x = normals(random, 103, 100);
  for (const float special : {0.0f, -0.0f, 65504.0f, 65519.0f, 65520.0f, -1e30f, 1e-8f, 5.9604645e-8f, 2049.0f, 2051.0f,
                              std::numeric_limits<float>::infinity()}) {
    x.push_back(special);
    x.push_back(-special);
  }
  for_each_isa([&](const Kernels& k) {
    for (size_t n = 0; n <= x.size(); n++) {
      const Floats in(std::vector<float>(x.end() - static_cast<ptrdiff_t>(n), x.end()));
      Guarded<uint8_t> out(2 * n);
      k.kv_store(KvType::kF16, in.data(), out.data(), static_cast<int64_t>(n));
      EXPECT_TRUE(out.intact());
      for (size_t i = 0; i < n; i++) {
        uint16_t half;
        std::memcpy(&half, out.data() + 2 * i, sizeof half);
        ASSERT_EQ(half, quant::f32_to_f16(in.data()[i])) << in.data()[i];
      }
    }
  });
}

TEST(KvStore, BfloatsAreRoundedToNearestEven) {
  Random random(48);
  std::vector<float> x = normals(random, 103, 100);
  const float kInf = std::numeric_limits<float>::infinity();
  for (const float special : {0.0f, 1e-40f, 3.4e38f, 1.00390625f, 1.01171875f, kInf, std::nanf("")}) {
    x.push_back(special);
    x.push_back(-special);
  }
  for_each_isa([&](const Kernels& k) {
    for (size_t n = 0; n <= x.size(); n++) {
      const Floats in(std::vector<float>(x.end() - static_cast<ptrdiff_t>(n), x.end()));
      Guarded<uint8_t> out(2 * n);
      k.kv_store(KvType::kBf16, in.data(), out.data(), static_cast<int64_t>(n));
      EXPECT_TRUE(out.intact());
      for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        std::memcpy(&bits, out.data() + 2 * i, sizeof bits);
        ASSERT_EQ(bits, quant::f32_to_bf16(in.data()[i])) << in.data()[i];
      }
    }
  });
}

TEST(KvStore, BlocksAreThoseOfTheEncoder) {
  Random random(49);
  for_each_isa([&](const Kernels& k) {
    for (const double scale : {1.0, 1e-3, 1e-8, 1e-42, 1e30, 0.0}) {
      std::vector<float> x = normals(random, 96, scale);
      // Codes half-way between two others: an extreme of 127 makes d = 1.
      for (size_t i = 0; i < 32; i++) x[i] = static_cast<float>(i) - 15.5f;
      x[7] = 127;
      std::vector<uint8_t> want(kv_bytes(KvType::kQ8_0, 96));
      quant::find_encoder(quant::Type::Q8_0)(x.data(), want.data(), 96);
      const Floats in(x);
      Guarded<uint8_t> out(want.size());
      k.kv_store(KvType::kQ8_0, in.data(), out.data(), 96);
      EXPECT_TRUE(out.intact());
      EXPECT_EQ(out.values(), want) << scale;
    }
  });
}

TEST(KvStore, WhatIsNotANumberShowsInItsBlock) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(64, 1.0f);
    x[40] = bad;
    for_each_isa([&](const Kernels& k) {
      std::vector<uint8_t> out(kv_bytes(KvType::kQ8_0, 64));
      k.kv_store(KvType::kQ8_0, x.data(), out.data(), 64);
      std::vector<float> back(64);
      quant::info(quant::Type::Q8_0).decode(out.data(), back.data(), 64);
      for (size_t i = 0; i < 64; i++) ASSERT_EQ(std::isnan(back[i]), i >= 32) << i;
    });
  }
}

TEST(KvStore, FloatsAreCopied) {
  Random random(47);
  const std::vector<float> x = normals(random, 37);
  for_each_isa([&](const Kernels& k) {
    Guarded<uint8_t> out(4 * x.size());
    k.kv_store(KvType::kF32, x.data(), out.data(), 37);
    EXPECT_EQ(std::memcmp(out.data(), x.data(), out.size()), 0);
    EXPECT_TRUE(out.intact());
  });
}

}  // namespace
}  // namespace strata::kernels
