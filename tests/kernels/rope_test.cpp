// Rope frequencies against numbers of the published models, and angles at long positions.
#include "kernels/rope.h"

#include <cmath>
#include <map>

#include "support.h"

namespace strata::kernels {
namespace {

using namespace test;

RopeScaling gpt_oss(bool truncate) {
  RopeScaling s;
  s.type = RopeScalingType::kYarn;
  s.n_rot = 64;
  s.base = 150000;
  s.factor = 32;
  s.original_context = 4096;
  s.truncate = truncate;
  return s;
}

double plain_frequency(const RopeScaling& s, int pair) { return std::pow(s.base, -2.0 * pair / s.n_rot); }

bool frequencies_match(const RopeFrequencies& got, const std::map<int, double>& want) {
  for (const auto& [pair, frequency] : want) {
    if (!(std::abs(got.inv_freq[static_cast<size_t>(pair)] / frequency - 1) <= 5e-7)) return false;
  }
  return true;
}

TEST(RopeFrequencies, Plain) {
  RopeScaling s;
  s.n_rot = 128;
  s.base = 1e6;
  const RopeFrequencies got = rope_frequencies(s);
  ASSERT_EQ(got.inv_freq.size(), 64u);
  EXPECT_EQ(got.magnitude, 1.0f);
  for (int p = 0; p < 64; p++) {
    EXPECT_EQ(got.inv_freq[static_cast<size_t>(p)], static_cast<float>(plain_frequency(s, p)));
  }
}

TEST(RopeFrequencies, LinearDividesAll) {
  RopeScaling s;
  s.n_rot = 64;
  s.type = RopeScalingType::kLinear;
  s.factor = 4;
  const RopeFrequencies got = rope_frequencies(s);
  EXPECT_EQ(got.magnitude, 1.0f);
  for (int p = 0; p < 32; p++) {
    EXPECT_EQ(got.inv_freq[static_cast<size_t>(p)], static_cast<float>(plain_frequency(s, p) / 4));
  }
}

TEST(RopeFrequencies, YarnOfGptOss) {
  const std::map<int, double> rounded = {{0, 1},           {8, 0.05081327},    {10, 0.01945097},   {13, 0.004069555},
                                         {17, 2.279479e-4}, {18, 3.830881e-5}, {31, 3.023511e-7}};
  const std::map<int, double> real = {{0, 1},           {8, 0.05081327},   {9, 0.0317057},    {10, 0.0193350},
                                      {13, 0.003860359}, {15, 0.001052602}, {16, 4.564839e-4}, {17, 1.293187e-4},
                                      {18, 3.830881e-5}, {31, 3.023511e-7}};
  // 0.0193350 is given to six digits only.
  const RopeFrequencies with = rope_frequencies(gpt_oss(true)), without = rope_frequencies(gpt_oss(false));
  EXPECT_TRUE(frequencies_match(with, rounded));
  for (const auto& [pair, frequency] : real) {
    EXPECT_NEAR(without.inv_freq[static_cast<size_t>(pair)] / frequency, 1, 3e-6) << pair;
  }
  EXPECT_FALSE(frequencies_match(without, rounded));
  EXPECT_NEAR(with.magnitude, 1.3465736, 1e-6);
  EXPECT_NEAR(without.magnitude, 1.3465736, 1e-6);
}

// The ramp's ends show in where the frequency is still the plain one, and where it is first the stretched one.
void expect_ramp(const RopeScaling& s, int low, int high) {
  const RopeFrequencies got = rope_frequencies(s);
  const auto ratio = [&](int p) { return got.inv_freq[static_cast<size_t>(p)] / plain_frequency(s, p); };
  EXPECT_NEAR(ratio(low), 1, 1e-6);
  EXPECT_LT(ratio(low + 1), 0.999);
  EXPECT_GT(ratio(high - 1), 1.001 / s.factor);
  EXPECT_NEAR(ratio(high) * s.factor, 1, 1e-6);
}

TEST(RopeFrequencies, YarnOfDeepSeekKeepsItsMagnitudeForTheScores) {
  RopeScaling s;
  s.type = RopeScalingType::kYarn;
  s.n_rot = 64;
  s.base = 10000;
  s.factor = 40;
  s.original_context = 4096;
  s.has_log_multiplier = true;
  expect_ramp(s, 10, 23);
  EXPECT_EQ(rope_frequencies(s).magnitude, 1.0f);
  s.attn_factor = 0.5;
  EXPECT_EQ(rope_frequencies(s).magnitude, 0.5f);
}

RopeScaling yarn_of_qwen3() {
  RopeScaling s;
  s.type = RopeScalingType::kYarn;
  s.n_rot = 128;
  s.base = 1e6;
  s.factor = 4;
  s.original_context = 32768;
  return s;
}

TEST(RopeFrequencies, YarnOfQwen3) {
  RopeScaling s = yarn_of_qwen3();
  expect_ramp(s, 23, 40);
  EXPECT_NEAR(rope_frequencies(s).magnitude, 1.1386294, 1e-6);
  s.attn_factor = 2;
  EXPECT_NEAR(rope_frequencies(s).magnitude, 2 * 1.1386294, 2e-6);
}

// Pairs 0 to 23 keep their frequency, 40 and on are stretched by 4.
TEST(RopeFrequencies, YarnKeepsAsMuchAsItIsTold) {
  RopeScaling s = yarn_of_qwen3();
  s.ext_factor = 0.5;
  RopeFrequencies got = rope_frequencies(s);
  EXPECT_TRUE(frequencies_match(got, {{0, 0.625}, {23, 0.625 * plain_frequency(s, 23)},
                                      {40, plain_frequency(s, 40) / 4}, {63, plain_frequency(s, 63) / 4}}));
  EXPECT_NEAR(got.magnitude, 1.1386294, 1e-6);
  s.ext_factor = 0;
  got = rope_frequencies(s);
  for (int p = 0; p < 64; p++) {
    EXPECT_EQ(got.inv_freq[static_cast<size_t>(p)], static_cast<float>(plain_frequency(s, p) / 4));
  }
  EXPECT_EQ(got.magnitude, 1.0f);
}

// Spec: corr(beta) = n_rot * ln(C / (beta * 2 pi)) / (2 ln base), which is 23.6 for 32 turns and 39.6 for one: with the
// bounds exchanged for 64 and 2 turns, 20.4 and 36.4.
TEST(RopeFrequencies, YarnRampEndsWhereTheTurnsSay) {
  RopeScaling s = yarn_of_qwen3();
  s.beta_fast = 64;
  s.beta_slow = 2;
  expect_ramp(s, 20, 37);
}

TEST(RopeFrequencies, DivisorsDivideEachPair) {
  RopeScaling s;
  s.n_rot = 128;
  s.base = 5e5;
  std::vector<float> divisors(64, 1.0f);
  divisors[29] = 1.2074839f;
  divisors[63] = 8;
  s.divisors = divisors;
  const RopeFrequencies got = rope_frequencies(s);
  EXPECT_TRUE(frequencies_match(got, {{28, plain_frequency(s, 28)},
                                      {29, plain_frequency(s, 29) / 1.2074839},
                                      {63, plain_frequency(s, 63) / 8}}));
}

TEST(RopeAngles, LongPositionsKeepTheirDigits) {
  const std::vector<float> inv_freq = {1.0f, 0.8058422f, 1e-3f, 3e-7f};
  std::vector<float> cos(4), sin(4);
  for (const int64_t position : {int64_t{0}, int64_t{1}, int64_t{262143}, int64_t{10000000}}) {
    rope_angles(position, inv_freq.data(), 4, 1.5f, cos.data(), sin.data());
    for (size_t p = 0; p < 4; p++) {
      const long double angle = static_cast<long double>(position) * static_cast<long double>(inv_freq[p]);
      EXPECT_NEAR(cos[p], static_cast<double>(std::cos(angle) * 1.5L), 2e-7) << position;
      EXPECT_NEAR(sin[p], static_cast<double>(std::sin(angle) * 1.5L), 2e-7) << position;
    }
  }
}

}  // namespace
}  // namespace strata::kernels
