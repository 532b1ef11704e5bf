#include "text/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "text/counting_new.h"
#include "text/sampler_reference.h"

namespace strata::text {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Logprobs, EqualTheDefinition) {
  Logprobs got;
  for (const size_t n : {1, 2, 10, 5000}) {
    const std::vector<float> logits = test::random_logits(n, n, 4);
    const std::vector<double> p = test::softmax(test::entries_of(logits));
    std::vector<int32_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = static_cast<int32_t>(i);
    const auto of = [&](int32_t id) { return p[static_cast<size_t>(id)]; };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return of(a) > of(b); });
    for (const int32_t n_top : {-1, 0, 1, 7, 20, 2'000'000'000}) {
      const auto chosen = static_cast<int32_t>(n / 2);
      log_probabilities(logits, chosen, n_top, got);
      EXPECT_EQ(got.chosen.id, chosen);
      EXPECT_NEAR(static_cast<double>(got.chosen.logprob), std::log(of(chosen)), 1e-5);
      ASSERT_EQ(got.top.size(), std::min<size_t>(n, static_cast<size_t>(std::max(n_top, 0))));
      for (size_t i = 0; i < got.top.size(); ++i) {
        ASSERT_EQ(got.top[i].id, order[i]);
        EXPECT_NEAR(static_cast<double>(got.top[i].logprob), std::log(of(order[i])), 1e-5);
      }
    }
  }
}

TEST(Logprobs, TiesNanAndInfinities) {
  Logprobs got;
  log_probabilities(std::vector<float>{1, 1, 1, 1}, 3, 2, got);
  EXPECT_FLOAT_EQ(got.chosen.logprob, -std::log(4.0f));
  EXPECT_EQ(got.top[0].id, 0);
  EXPECT_EQ(got.top[1].id, 1);
  log_probabilities(std::vector<float>{NAN, 2, -kInfinity}, 0, 3, got);
  EXPECT_EQ(got.chosen.logprob, -kInfinity);
  EXPECT_EQ(got.top[0].id, 1);
  EXPECT_EQ(got.top[0].logprob, 0);
  log_probabilities(std::vector<float>{kInfinity, 2, kInfinity}, 0, 3, got);
  EXPECT_FLOAT_EQ(got.chosen.logprob, -std::log(2.0f));
  EXPECT_EQ(got.top[2].logprob, -kInfinity);
  log_probabilities(std::vector<float>{NAN, -kInfinity}, 1, 1, got);
  EXPECT_EQ(got.chosen.logprob, -kInfinity);
  EXPECT_EQ(got.top[0].logprob, -kInfinity);
}

// Logits near 1e4 have neighbours 1e-3 apart: the sum must not add to that.
TEST(Logprobs, LargeVocabularyLosesNoDigits) {
  Logprobs got;
  const std::vector<float> flat(250'000, 1.0e4f);
  log_probabilities(flat, 17, 0, got);
  EXPECT_FLOAT_EQ(got.chosen.logprob, -std::log(250'000.0f));
}

TEST(Logprobs, KeepTheirMemory) {
  const std::vector<float> logits = test::random_logits(3000, 1);
  Logprobs out;
  log_probabilities(logits, 0, 20, out);
  const int64_t before = test::n_allocations();
  for (int32_t i = 0; i < 20; ++i) log_probabilities(logits, i, 20 - i, out);
  EXPECT_EQ(test::n_allocations(), before);
}

}  // namespace
}  // namespace strata::text
