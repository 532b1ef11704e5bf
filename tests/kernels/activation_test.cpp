// exp over all exponents, and the activations against the double forms.
#include <algorithm>
#include <limits>

#include "kernels/ref/ref.h"
#include "support.h"

namespace strata::kernels {

// exp_unit.inl.h
namespace exp_scalar { void exp_all(const float* x, float* out, int64_t n); }
namespace exp_avx2 { void exp_all(const float* x, float* out, int64_t n); }
namespace exp_avx512 { void exp_all(const float* x, float* out, int64_t n); }

namespace {

using namespace test;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

using ExpFn = void (*)(const float* x, float* out, int64_t n);

std::vector<float> exp_of(const Kernels& k, const std::vector<float>& x) {
  const ExpFn fn = k.isa >= Isa::kAvx512 ? exp_avx512::exp_all : k.isa == Isa::kAvx2 ? exp_avx2::exp_all
                                                                                      : exp_scalar::exp_all;
  const Floats in(x);
  Floats out(x.size());
  fn(in.data(), out.data(), static_cast<int64_t>(x.size()));
  EXPECT_TRUE(out.intact());
  return out.values();
}

// Normal results within 2e-7, subnormal ones within one step of their spacing.
double exp_tolerance(double want) { return std::max(2e-7 * want, 0x1p-149); }

TEST(Exp, AccurateForEveryExponent) {
  Random random(21);
  std::vector<float> inputs;
  for (uint32_t exponent = 0; exponent < 255; exponent++) {
    for (int i = 0; i < 64; i++) {
      uint32_t bits = exponent << 23 | static_cast<uint32_t>(random.below(1u << 23)) |
                      static_cast<uint32_t>(random.below(2)) << 31;
      float x;
      std::memcpy(&x, &bits, sizeof x);
      inputs.push_back(x);
    }
  }
  for (int i = 0; i < 100000; i++) inputs.push_back(static_cast<float>(random.uniform() * 195 - 105));
  const double largest = std::numeric_limits<float>::max();
  for_each_isa([&](const Kernels& k) {
    double worst = 0;
    const std::vector<float> results = exp_of(k, inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
      const float x = inputs[i], got = results[i];
      const double want = std::exp(double{x});
      if (want > largest) {
        EXPECT_EQ(got, kInf) << x;
      } else {
        ASSERT_LE(std::abs(got - want), exp_tolerance(want)) << x;
      }
      if (want > 1e-37 && want <= largest) worst = std::max(worst, std::abs(got - want) / want);
    }
    EXPECT_GT(worst, 1e-8) << "float32 can't be this good: is anything compared?";
  });
}

TEST(Exp, EndsOfTheRange) {
  const float top = std::numeric_limits<float>::max();
  for_each_isa([&](const Kernels& k) {
    // Exactly 1 at 0; infinite ends; ln of the largest float is 88.72283905, of half the smallest subnormal -103.97208.
    const std::vector<float> got =
        exp_of(k, {0.0f, -0.0f, kInf, -kInf, top, -top, 88.72283f, 88.72285f, -103.9f, -104.1f, kNaN, -kNaN});
    const std::vector<float> want = {1, 1, kInf, 0, kInf, 0};
    EXPECT_TRUE(same_bits({got.begin(), got.begin() + 6}, want));
    EXPECT_TRUE(std::isfinite(got[6]));
    EXPECT_EQ(got[7], kInf);
    EXPECT_EQ(got[8], 0x1p-149f);
    EXPECT_EQ(got[9], 0.0f);
    EXPECT_TRUE(std::isnan(got[10]));
    EXPECT_TRUE(std::isnan(got[11]));
  });
}

// Every activation as (gate, up) -> out, so that one test serves all.
struct Activation {
  const char* name;
  void (*run)(const Kernels& k, const float* gate, const float* up, float* out, int64_t n);
  void (*want)(const float* gate, const float* up, double* out, int64_t n);
  double (*size)(double gate, double up);  // what relative errors refer to
};

constexpr float kAlpha = 1.702f;

const Activation kActivations[] = {
    {"silu_mul",
     [](const Kernels& k, const float* g, const float* u, float* out, int64_t n) { k.silu_mul(g, u, out, n); },
     [](const float* g, const float* u, double* out, int64_t n) { ref::silu_mul(g, u, out, n); },
     [](double g, double u) { return std::abs(ref::silu(g) * u); }},
    {"swiglu_clamped",
     [](const Kernels& k, const float* g, const float* u, float* out, int64_t n) {
       k.swiglu_clamped(g, u, out, n, kAlpha, 7);
     },
     [](const float* g, const float* u, double* out, int64_t n) {
       ref::swiglu_clamped(g, u, out, n, double{kAlpha}, 7);
     },
     // alpha*g is rounded before the exponential, which turns its relative error into one of |alpha*g| times that.
     [](double g, double u) {
       g = std::min(g, 7.0);
       return std::abs(g) * ref::sigmoid(double{kAlpha} * g) * (std::abs(u) + 1) * (1 + std::abs(g) / 4);
     }},
    {"sigmoid_mul",
     [](const Kernels& k, const float* g, const float* u, float* out, int64_t n) {
       if (out != u) std::memcpy(out, u, static_cast<size_t>(n) * sizeof(float));
       k.sigmoid_mul(out, g, n);
     },
     [](const float* g, const float* u, double* out, int64_t n) { ref::sigmoid_mul(u, g, out, n); },
     [](double g, double u) { return std::abs(ref::sigmoid(g) * u); }},
    {"silu_gate",
     [](const Kernels& k, const float* g, const float* u, float* out, int64_t n) {
       if (out != u) std::memcpy(out, u, static_cast<size_t>(n) * sizeof(float));
       k.silu_gate(out, g, n);
     },
     [](const float* g, const float* u, double* out, int64_t n) { ref::silu_gate(u, g, out, n); },
     [](double g, double u) { return std::abs(ref::silu(g) * u); }},
};

// exp may be off by 2e-7; a sum, a division and up to three products follow.
double activation_tolerance(const Activation& a, float gate, float up) {
  return (2e-7 + 6 * kU) * a.size(gate, up) + 0x1p-140;
}

TEST(Activation, MatchesTheDoubleForm) {
  Random random(22);
  for (const Activation& a : kActivations) {
    SCOPED_TRACE(a.name);
    for (const size_t n : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 100, 1024}) {
      const Floats gate(normals(random, n, n % 2 == 0 ? 2 : 30));
      const Floats up(normals(random, n, 4));
      const auto length = static_cast<int64_t>(n);
      std::vector<double> want(n);
      a.want(gate.data(), up.data(), want.data(), length);
      const auto tolerance = [&](size_t i) { return activation_tolerance(a, gate.data()[i], up.data()[i]); };
      for_each_isa([&](const Kernels& k) {
        Floats out(n);
        a.run(k, gate.data(), up.data(), out.data(), length);
        expect_close(out.data(), want, tolerance);
        EXPECT_TRUE(out.intact());
        Floats over_up(up.values());
        a.run(k, gate.data(), over_up.data(), over_up.data(), length);
        EXPECT_TRUE(same_bits(over_up.values(), out.values()));
        out[n - 1] *= 1.0001f;
        EXPECT_EQ(first_far(out.data(), want, tolerance), length - 1) << "the comparison misses a change of 1e-4";
      });
    }
  }
}

TEST(Activation, OutputMayBeTheGate) {
  Random random(23);
  const std::vector<float> gate = normals(random, 77), up = normals(random, 77);
  for_each_isa([&](const Kernels& k) {
    std::vector<float> apart(77), over = gate;
    k.silu_mul(gate.data(), up.data(), apart.data(), 77);
    k.silu_mul(over.data(), up.data(), over.data(), 77);
    EXPECT_TRUE(same_bits(over, apart));
    over = gate;
    k.swiglu_clamped(gate.data(), up.data(), apart.data(), 77, kAlpha, 7);
    k.swiglu_clamped(over.data(), up.data(), over.data(), 77, kAlpha, 7);
    EXPECT_TRUE(same_bits(over, apart));
  });
}

TEST(Activation, SigmoidKeepsItsEndsAndNaN) {
  const std::vector<float> gate = {0.0f, -0.0f, 200.0f, -200.0f, kInf, -kInf, kNaN, -88.0f, 88.0f};
  for_each_isa([&](const Kernels& k) {
    std::vector<float> x(gate.size(), 1.0f);
    k.sigmoid_mul(x.data(), gate.data(), static_cast<int64_t>(x.size()));
    EXPECT_EQ(x[0], 0.5f);
    EXPECT_EQ(x[1], 0.5f);
    EXPECT_EQ(x[2], 1.0f);
    EXPECT_EQ(x[3], 0.0f);
    EXPECT_EQ(x[4], 1.0f);
    EXPECT_EQ(x[5], 0.0f);
    EXPECT_TRUE(std::isnan(x[6]));
    EXPECT_NEAR(x[7] / std::exp(-88.0), 1, 4e-7);
    EXPECT_EQ(x[8], 1.0f);
  });
}

TEST(Activation, NaNGoesThroughTheClamps) {
  const std::vector<float> gate = {kNaN, 1, 2}, up = {1, kNaN, 2};
  for_each_isa([&](const Kernels& k) {
    std::vector<float> out(3);
    k.swiglu_clamped(gate.data(), up.data(), out.data(), 3, kAlpha, 7);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_FALSE(std::isnan(out[2]));
  });
}

TEST(Activation, GptOssVectors) {
  const std::vector<float> gate = {0, 1, -3, 6.9f, 7.5f, 20, -20, -1};
  const std::vector<float> up = {0, 0.5f, 2, -6.9f, 3, -20, 8, -7.5f};
  const std::vector<double> want = {0,        1.268694,  -0.05421393,   -40.70968,
                                    27.99981, -41.99972, -2.634728e-13, 0.9252254};
  const auto tolerance = [&](size_t i) { return 1e-6 * std::abs(want[i]); };
  for_each_isa([&](const Kernels& k) {
    std::vector<float> out(gate.size());
    k.swiglu_clamped(gate.data(), up.data(), out.data(), static_cast<int64_t>(out.size()), kAlpha, 7);
    expect_close(out.data(), want, tolerance);
  });
}

}  // namespace
}  // namespace strata::kernels
