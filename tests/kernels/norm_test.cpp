// Norms and rope against the double forms, over lengths with every kind of tail.
#include "kernels/ref/ref.h"
#include "support.h"

namespace strata::kernels {
namespace {

using namespace test;

constexpr size_t kLengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 128, 1000, 2048, 2880};

// The sum of n squares in at least four lanes is off by at most n/4 + 4 roundings, its root by half of that; a few more
// roundings follow.
double norm_tolerance(size_t n, double want) { return (static_cast<double>(n) / 8 + 8) * kU * std::abs(want); }

TEST(RmsNorm, MatchesTheDoubleForm) {
  Random random(11);
  for (const size_t n : kLengths) {
    for (const bool with_gain : {false, true}) {
      const Floats x(normals(random, n, 3));
      const Floats gain(normals(random, n));
      const float* gains = with_gain ? gain.data() : nullptr;
      const auto length = static_cast<int64_t>(n);
      std::vector<double> want(n);
      ref::rms_norm(x.data(), gains, want.data(), length, double{1e-6f});
      const auto tolerance = [&](size_t i) { return norm_tolerance(n, want[i]); };
      for_each_isa([&](const Kernels& k) {
        Floats y(n);
        k.rms_norm(x.data(), gains, y.data(), length, 1e-6f);
        expect_close(y.data(), want, tolerance);
        EXPECT_TRUE(y.intact());
        Floats in_place(x.values());
        k.rms_norm(in_place.data(), gains, in_place.data(), length, 1e-6f);
        EXPECT_TRUE(same_bits(in_place.values(), y.values()));
      });
    }
  }
}

TEST(RmsNorm, ComparisonNoticesAChangedGain) {
  Random random(12);
  const size_t n = 2048;
  const std::vector<float> x = normals(random, n);
  std::vector<float> gain = normals(random, n);
  std::vector<double> want(n);
  ref::rms_norm(x.data(), gain.data(), want.data(), n, double{1e-6f});
  gain[n - 1] *= 1.0001f;
  for_each_isa([&](const Kernels& k) {
    std::vector<float> y(n);
    k.rms_norm(x.data(), gain.data(), y.data(), n, 1e-6f);
    EXPECT_EQ(first_far(y.data(), want, [&](size_t i) { return norm_tolerance(n, want[i]); }), int64_t{n} - 1);
  });
}

TEST(RmsNorm, EpsilonCarriesTinyAndZeroRows) {
  for_each_isa([&](const Kernels& k) {
    std::vector<float> y(40);
    k.rms_norm(std::vector<float>(40, 0.0f).data(), nullptr, y.data(), 40, 1e-5f);
    for (const float value : y) EXPECT_EQ(value, 0.0f);
    k.rms_norm(std::vector<float>(40, 1e-4f).data(), nullptr, y.data(), 40, 1e-5f);
    for (const float value : y) EXPECT_NEAR(value, 1e-4 / std::sqrt(1e-8 + 1e-5), 1e-7);
  });
}

TEST(L2Norm, MatchesTheDoubleForm) {
  Random random(13);
  for (const size_t n : kLengths) {
    const Floats x(normals(random, n));
    const auto length = static_cast<int64_t>(n);
    const float scale = 0.08838834764f;
    std::vector<double> want(n);
    ref::l2_norm(x.data(), want.data(), length, double{1e-6f}, double{scale});
    for_each_isa([&](const Kernels& k) {
      Floats y(n);
      k.l2_norm(x.data(), y.data(), length, 1e-6f, scale);
      expect_close(y.data(), want, [&](size_t i) { return norm_tolerance(n, want[i]); });
      EXPECT_TRUE(y.intact());
      Floats in_place(x.values());
      k.l2_norm(in_place.data(), in_place.data(), length, 1e-6f, scale);
      EXPECT_TRUE(same_bits(in_place.values(), y.values()));
    });
  }
}

struct Turn {
  std::vector<float> cos, sin;
  Turn(Random& random, int n_pairs) {
    for (int p = 0; p < n_pairs; p++) {
      const double angle = random.uniform() * 100;
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
};

TEST(Rope, MatchesTheDoubleForm) {
  Random random(14);
  for (const int n_pairs : {1, 2, 3, 5, 8, 16, 17, 32, 40, 64, 128}) {
    const auto pairs = static_cast<size_t>(n_pairs);
    const Turn turn(random, n_pairs);
    const Floats cos(turn.cos), sin(turn.sin);
    const std::vector<float> x = normals(random, 2 * pairs);
    for (const bool interleaved : {false, true}) {
      std::vector<double> want(2 * pairs);
      ref::rope(x.data(), cos.data(), sin.data(), want.data(), n_pairs, interleaved);
      const auto tolerance = [&](size_t i) {
        const size_t other = interleaved ? i ^ 1 : (i < pairs ? i + pairs : i - pairs);
        return 2 * kU * (std::abs(x[i]) + std::abs(x[other]));
      };
      for_each_isa([&](const Kernels& k) {
        Floats rotated(x);
        k.rope(rotated.data(), cos.data(), sin.data(), n_pairs, interleaved);
        expect_close(rotated.data(), want, tolerance);
        EXPECT_TRUE(rotated.intact());
        EXPECT_GE(first_far(x.data(), want, tolerance), 0) << "the comparison passes without a rotation";
      });
    }
  }
}

TEST(Rope, InterleavedPairsEqualPermutedHalves) {
  Random random(15);
  const int n_pairs = 20;
  const Turn turn(random, n_pairs);
  const std::vector<float> x = normals(random, 2 * n_pairs);
  for_each_isa([&](const Kernels& k) {
    std::vector<float> halves = x;
    std::vector<float> pairs(x.size());
    for (size_t p = 0; p < n_pairs; p++) {
      pairs[2 * p] = x[p];
      pairs[2 * p + 1] = x[p + n_pairs];
    }
    k.rope(halves.data(), turn.cos.data(), turn.sin.data(), n_pairs, false);
    k.rope(pairs.data(), turn.cos.data(), turn.sin.data(), n_pairs, true);
    for (size_t p = 0; p < n_pairs; p++) {
      EXPECT_EQ(pairs[2 * p], halves[p]);
      EXPECT_EQ(pairs[2 * p + 1], halves[p + n_pairs]);
    }
  });
}

}  // namespace
}  // namespace strata::kernels
