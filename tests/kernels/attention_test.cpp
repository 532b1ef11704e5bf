// The KV cache formats, and attention over paged blocks against the naive form over gathered keys and values.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/ref/ref.h"
#include "quant/type.h"
#include "support.h"

namespace strata::kernels {
namespace {

using namespace test;

struct Shape {
  int n_q, head_dim, value_dim, block_tokens;
  int64_t first, last;
  bool sinks = false;
  KvType type = KvType::kF32;
  int n_kv_heads = 2;
};

// A cache whose blocks lie in shuffled order, filled through kv_store of the plainest kernels. Positions outside
// [first, last] hold NaN: a row must not see them.
class Case {
 public:
  Case(const Shape& s, uint64_t seed)
      : shape(s), scale(1 / std::sqrt(static_cast<float>(s.head_dim))), random_(seed) {
    const int64_t n_blocks = s.last / s.block_tokens + 1;
    table_.resize(static_cast<size_t>(n_blocks));
    std::iota(table_.begin(), table_.end(), 0);
    for (size_t i = table_.size(); i > 1; i--) std::swap(table_[i - 1], table_[random_.below(i)]);
    k_token_bytes_ = static_cast<size_t>(s.n_kv_heads * s.head_dim) * kv_bytes(s.type);
    v_token_bytes_ = static_cast<size_t>(s.n_kv_heads * s.value_dim) * kv_bytes(s.type);
    const auto tokens = static_cast<size_t>(n_blocks * s.block_tokens);
    k_cache_ = std::make_unique<Guarded<uint8_t>>(std::vector<uint8_t>(tokens * k_token_bytes_, 0xff));
    v_cache_ = std::make_unique<Guarded<uint8_t>>(std::vector<uint8_t>(tokens * v_token_bytes_, 0xff));
    q = std::make_unique<Floats>(normals(random_, static_cast<size_t>(s.n_q * q_stride())));
    for (int64_t position = s.first; position <= s.last; position++) fill(position);
    sinks = normals(random_, static_cast<size_t>(s.n_q), 2);
  }

  int64_t q_stride() const { return shape.head_dim; }

  // Runs the kernel on all heads or, when `only` >= 0, on that one alone; [n_q][value_dim].
  std::vector<float> run(const Kernels& kernels, int only = -1) {
    const int n_q = only < 0 ? shape.n_q : 1;
    const int64_t out_stride = shape.value_dim + 3;
    Floats out(static_cast<size_t>((n_q - 1) * out_stride + shape.value_dim));
    Floats scratch(static_cast<size_t>(attention_scratch(n_q, shape.value_dim, shape.block_tokens)));
    AttentionArgs args = {};
    const int from = std::max(only, 0);
    args.q = q->data() + from * q_stride();
    args.q_stride = q_stride();
    args.n_q = n_q;
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
    args.first = shape.first;
    args.last = shape.last;
    args.scale = scale;
    args.sinks = shape.sinks ? sinks.data() + from : nullptr;
    args.out = out.data();
    args.out_stride = out_stride;
    args.scratch = scratch.data();
    kernels.attention(args);
    EXPECT_TRUE(out.intact());
    EXPECT_TRUE(scratch.intact());
    return without_gaps(out, n_q, out_stride);
  }

  // What the naive form gives, and how far float32 may be off. A score is off by the roundings of its products (in at
  // least eight sums) and of what follows, which changes its weight by as much relative to itself; exp adds 2e-7. So
  // an output is off by the average of that, over the softmax, of the value's and the output's own size; and its sums
  // by one rounding a token.
  void reference(std::vector<double>* want, std::vector<double>* tolerance) const {
    const int64_t n = shape.last - shape.first + 1;
    for (int h = 0; h < shape.n_q; h++) {
      const std::vector<double> out = average(h, values, shape.value_dim);
      const std::vector<float> weight_off = weight_errors(h);
      std::vector<float> sizes = values, sizes_off = values;
      for (size_t i = 0; i < values.size(); i++) {
        sizes[i] = std::abs(values[i]);
        sizes_off[i] = sizes[i] * weight_off[i / static_cast<size_t>(shape.value_dim)];
      }
      const std::vector<double> size = average(h, sizes, shape.value_dim);
      const std::vector<double> size_off = average(h, sizes_off, shape.value_dim);
      const double total_off = average(h, weight_off, 1)[0];
      for (size_t d = 0; d < out.size(); d++) {
        want->push_back(out[d]);
        tolerance->push_back(size_off[d] + total_off * std::abs(out[d]) + static_cast<double>(n + 16) * kU * size[d]);
      }
    }
  }

  Shape shape;
  float scale;
  std::unique_ptr<Floats> q;
  std::vector<float> keys, values;  // of the visible positions, as the cache holds them
  std::vector<float> sinks;

  // Bytes of the visible key at `position`, for tests that change the cache.
  uint8_t* key(int64_t position) { return at(*k_cache_, k_token_bytes_, position) + head_offset(shape.head_dim); }

 private:
  size_t head_offset(int dim) const {
    return static_cast<size_t>((shape.n_kv_heads - 1) * dim) * kv_bytes(shape.type);
  }
  uint8_t* at(Guarded<uint8_t>& cache, size_t token_bytes, int64_t position) {
    const int64_t block = table_[static_cast<size_t>(position / shape.block_tokens)];
    return cache.data() + static_cast<size_t>(block * shape.block_tokens + position % shape.block_tokens) * token_bytes;
  }
  void fill(int64_t position) {
    store(key(position), shape.head_dim, &keys);
    store(at(*v_cache_, v_token_bytes_, position) + head_offset(shape.value_dim), shape.value_dim, &values);
  }
  void store(uint8_t* to, int dim, std::vector<float>* gathered) {
    const std::vector<float> x = normals(random_, static_cast<size_t>(dim));
    kernels_for(Isa::kScalar).kv_store(shape.type, x.data(), to, dim);
    for (const float value : x) {
      gathered->push_back(shape.type == KvType::kF32 ? value : quant::f16_to_f32(quant::f32_to_f16(value)));
    }
  }
  // The softmax average of rows of `width` values for head h.
  std::vector<double> average(int h, const std::vector<float>& rows, int width) const {
    const float* sink = shape.sinks ? &sinks[static_cast<size_t>(h)] : nullptr;
    std::vector<double> out(static_cast<size_t>(width));
    ref::attention({q->data() + h * q_stride(), keys.data(), rows.data(), shape.last - shape.first + 1, shape.head_dim,
                    width, scale, sink}, out.data());
    return out;
  }
  // The relative error of each visible key's weight for head h.
  std::vector<float> weight_errors(int h) const {
    const float* query = q->data() + h * q_stride();
    std::vector<float> errors;
    for (size_t from = 0; from < keys.size(); from += static_cast<size_t>(shape.head_dim)) {
      double size = 0;
      for (int d = 0; d < shape.head_dim; d++) {
        size += std::abs(double{query[d]} * keys[from + static_cast<size_t>(d)]);
      }
      errors.push_back(static_cast<float>((shape.head_dim / 8.0 + 8) * kU * scale * size + 2e-7));
    }
    return errors;
  }
  static std::vector<float> without_gaps(const Floats& out, int n_q, int64_t stride) {
    const int64_t width = static_cast<int64_t>(out.size()) - (n_q - 1) * stride;
    std::vector<float> packed;
    for (int h = 0; h < n_q; h++) {
      const float* row = out.data() + h * stride;
      packed.insert(packed.end(), row, row + width);
      if (h + 1 == n_q) break;
      for (int64_t i = width; i < stride; i++) {
        uint32_t bits;
        std::memcpy(&bits, row + i, sizeof bits);
        EXPECT_EQ(bits, 0xf7f7f7f7u) << "written between the heads";
      }
    }
    return packed;
  }

  Random random_;
  std::vector<int32_t> table_;
  size_t k_token_bytes_ = 0, v_token_bytes_ = 0;
  std::unique_ptr<Guarded<uint8_t>> k_cache_, v_cache_;
};

void expect_matches_reference(const Shape& shape, uint64_t seed) {
  Case test_case(shape, seed);
  std::vector<double> want, tolerance;
  test_case.reference(&want, &tolerance);
  for_each_isa([&](const Kernels& k) {
    const std::vector<float> got = test_case.run(k);
    ASSERT_EQ(got.size(), want.size());
    expect_close(got.data(), want, [&](size_t i) { return tolerance[i]; });
  });
}

TEST(Attention, MatchesTheNaiveForm) {
  uint64_t seed = 100;
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    for (const int head_dim : {1, 3, 32, 40, 64, 80, 128, 256}) {
      for (const int block_tokens : {16, 32}) {
        for (const int64_t last : {0, 1, 15, 16, 31, 33, 200}) {
          const bool sinks = seed % 2 == 0;
          const int n_q = static_cast<int>(seed % 9) + 1;
          SCOPED_TRACE(testing::Message() << "head_dim " << head_dim << " blocks of " << block_tokens << " last "
                                          << last << " heads " << n_q << (type == KvType::kF16 ? " f16" : " f32"));
          expect_matches_reference({n_q, head_dim, head_dim, block_tokens, 0, last, sinks, type}, seed++);
        }
      }
    }
  }
}

TEST(Attention, MatchesTheNaiveFormOverRandomWindows) {
  Random random(41);
  for (uint64_t i = 0; i < 60; i++) {
    const auto last = static_cast<int64_t>(random.below(400));
    const auto window = static_cast<int64_t>(random.below(static_cast<uint64_t>(last) + 1)) + 1;
    Shape shape = {};
    shape.n_q = static_cast<int>(random.below(8)) + 1;
    shape.head_dim = static_cast<int>(random.below(200)) + 1;
    shape.value_dim = static_cast<int>(random.below(200)) + 1;
    shape.block_tokens = random.below(2) == 0 ? 16 : 32;
    shape.first = last - window + 1;
    shape.last = last;
    shape.sinks = random.below(2) == 0;
    shape.type = random.below(2) == 0 ? KvType::kF32 : KvType::kF16;
    shape.n_kv_heads = static_cast<int>(random.below(3)) + 1;
    SCOPED_TRACE(i);
    expect_matches_reference(shape, 1000 + i);
  }
}

TEST(Attention, ComparisonNoticesAChangedKey) {
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    Case test_case({4, 128, 128, 16, 5, 90, true, type}, 42);
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

TEST(Attention, AHeadDoesNotDependOnItsNeighbours) {
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    Case test_case({7, 80, 72, 16, 3, 77, true, type}, 43);
    for_each_isa([&](const Kernels& k) {
      const std::vector<float> together = test_case.run(k);
      for (int h = 0; h < 7; h++) {
        const std::vector<float> alone = test_case.run(k, h);
        EXPECT_TRUE(same_bits(alone, {together.begin() + h * 72, together.begin() + (h + 1) * 72})) << h;
      }
    });
  }
}

TEST(Attention, SinkOfMinusInfinityIsNone) {
  Case with({5, 64, 64, 32, 0, 70, true}, 44);
  Case without({5, 64, 64, 32, 0, 70, false}, 44);
  with.sinks.assign(5, -std::numeric_limits<float>::infinity());
  for_each_isa([&](const Kernels& k) { EXPECT_TRUE(same_bits(with.run(k), without.run(k))); });
}

TEST(Attention, SurvivesLargeScores) {
  // Scores of several thousands: the maximum is in the last block, so everything before is rescaled to nothing.
  Case test_case({4, 64, 64, 16, 0, 40, true}, 45);
  test_case.scale = 500;
  std::vector<double> want, tolerance;
  test_case.reference(&want, &tolerance);
  for_each_isa([&](const Kernels& k) {
    const std::vector<float> got = test_case.run(k);
    for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], want[i], 2e-2);
  });
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
