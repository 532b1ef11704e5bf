// Every stage alone against its definition, on random logits of many sizes and on small vectors by hand.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "text/sampler_reference.h"
#include "text/sampling/stage.h"

namespace strata::text {
namespace {

using test::Entries;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Nothing active but what a test sets.
SamplerParams off() {
  SamplerParams params;
  params.temp = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  return params;
}

SamplerParams with(void (*set)(SamplerParams&)) {
  SamplerParams params = off();
  set(params);
  return params;
}

Candidates run_stage(StageKind kind, const SamplerParams& params, const std::vector<float>& logits) {
  const auto n = static_cast<int32_t>(logits.size());
  Candidates candidates(n);
  candidates.reset(logits);
  stage_row(kind).make(params, n)->apply(candidates);
  return candidates;
}

std::vector<int32_t> ids_of(const Candidates& candidates) {
  std::vector<int32_t> ids;
  for (const Candidate& candidate : candidates.items()) ids.push_back(candidate.id);
  return ids;
}
std::vector<int32_t> ids_of(const Entries& entries) {
  std::vector<int32_t> ids;
  for (const test::Entry& entry : entries) ids.push_back(entry.id);
  return ids;
}

// The same ids in the same order, the same probabilities, and what Candidates says of them.
void expect_as_reference(StageKind kind, const SamplerParams& params, const std::vector<float>& logits) {
  SCOPED_TRACE(std::string(stage_row(kind).name) + " of " + std::to_string(logits.size()));
  const Candidates got = run_stage(kind, params, logits);
  const Entries wanted = test::reference_stage(kind, params, test::entries_of(logits));
  ASSERT_EQ(ids_of(got), ids_of(wanted));
  const std::vector<double> p = test::softmax(wanted);
  const double total = got.total_weight();
  // Logits are floats: dividing one of up to 20 (in units of 1 / temp) rounds the exponent by 20 * 2^-24.
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(got.weight(got.items()[i]) / total, p[i], p[i] * 2e-5 + 1e-12);
  for (size_t i = 1; i < got.n_sorted(); ++i) EXPECT_TRUE(more_probable(got.items()[i - 1], got.items()[i])) << i;
  const Candidate best = *std::min_element(got.items().begin(), got.items().end(), more_probable);
  EXPECT_EQ(got.best_id(), best.id);
  EXPECT_EQ(got.max_logit(), best.logit);
}

TEST(SamplerStages, EqualTheirDefinitionsOnRandomLogits) {
  struct Case {
    StageKind kind;
    SamplerParams params;
  };
  std::vector<Case> cases;
  for (const int32_t k : {1, 2, 40, 64, 65, 1000, 2'000'000'000}) {
    cases.push_back({StageKind::kTopK, off()});
    cases.back().params.top_k = k;
  }
  for (const int32_t min_keep : {0, 1, 3, 500, 100'000}) {
    const auto add = [&](StageKind kind, float SamplerParams::*field, std::initializer_list<float> values) {
      for (const float value : values) {
        cases.push_back({kind, off()});
        cases.back().params.*field = value;
        cases.back().params.min_keep = min_keep;
        cases.back().params.xtc_probability = 1;
      }
    };
    add(StageKind::kTopP, &SamplerParams::top_p, {0.0f, 0.01f, 0.3f, 0.9f, 0.999f});
    add(StageKind::kMinP, &SamplerParams::min_p, {1e-4f, 0.05f, 0.5f, 1.0f});
    add(StageKind::kTypical, &SamplerParams::typical_p, {0.0f, 0.1f, 0.5f, 0.95f, 0.999f});
    add(StageKind::kXtc, &SamplerParams::xtc_threshold, {0.0f, 1e-3f, 0.02f, 0.1f, 0.5f});
  }
  for (const float n : {0.1f, 1.0f, 2.5f}) {
    cases.push_back({StageKind::kTopNSigma, off()});
    cases.back().params.top_n_sigma = n;
  }
  for (const float temp : {0.0f, 0.3f, 1.0f, 2.0f}) {
    for (const float range : {0.0f, 0.2f, 5.0f}) {
      cases.push_back({StageKind::kTemperature, off()});
      cases.back().params.temp = temp;
      cases.back().params.dynatemp_range = range;
      cases.back().params.dynatemp_exponent = 1.5f;
    }
  }
  uint64_t seed = 1;
  for (const size_t n : {1, 2, 3, 7, 50, 257, 1000, 5000}) {
    for (const double scale : {0.1, 2.0}) {
      const std::vector<float> logits = test::random_logits(n, seed++, scale);
      for (const Case& c : cases) expect_as_reference(c.kind, c.params, logits);
    }
  }
}

TEST(SamplerStages, TiesAreInOrderOfIds) {
  const std::vector<float> logits = {0, 1, 1, 0, 1};
  EXPECT_EQ(ids_of(run_stage(StageKind::kTopK, with([](auto& p) { p.top_k = 2; }), logits)), (std::vector{1, 2}));
  EXPECT_EQ(ids_of(run_stage(StageKind::kTopP, with([](auto& p) { p.top_p = 0.5f; }), logits)), (std::vector{1, 2}));
  EXPECT_EQ(ids_of(run_stage(StageKind::kTypical, with([](auto& p) { p.typical_p = 0.3f; }), logits)),
            (std::vector{1, 2}));
  EXPECT_EQ(ids_of(run_stage(StageKind::kTemperature, with([](auto& p) { p.temp = 0; }), logits)), (std::vector{1}));
}

// Probabilities 1/2, 1/4, 1/8, 1/8 of ids 3, 1, 0, 2.
TEST(SamplerStages, ByHand) {
  const float ln2 = std::log(2.0f);
  const std::vector<float> logits = {0, ln2, 0, 2 * ln2};
  using V = std::vector<int32_t>;
  const auto ids = [&](StageKind kind, const SamplerParams& params) { return ids_of(run_stage(kind, params, logits)); };
  EXPECT_EQ(ids(StageKind::kTopK, with([](auto& p) { p.top_k = 2; })), (V{3, 1}));
  EXPECT_EQ(ids(StageKind::kTopP, with([](auto& p) { p.top_p = 0.4f; })), (V{3}));
  EXPECT_EQ(ids(StageKind::kTopP, with([](auto& p) { p.top_p = 0.7f; })), (V{3, 1}));
  EXPECT_EQ(ids(StageKind::kMinP, with([](auto& p) { p.min_p = 0.4f; })), (V{1, 3}));
  // H = 1.75 bits; surprises 1, 2, 3, 3 bits are 0.75, 0.25, 1.25, 1.25 away.
  EXPECT_EQ(ids(StageKind::kTypical, with([](auto& p) { p.typical_p = 0.2f; })), (V{1}));
  EXPECT_EQ(ids(StageKind::kTypical, with([](auto& p) { p.typical_p = 0.7f; })), (V{1, 3}));
  // mean 3/4 ln 2, sigma sqrt(11)/4 ln 2 = 0.829 ln 2
  EXPECT_EQ(ids(StageKind::kTopNSigma, with([](auto& p) { p.top_n_sigma = 1; })), (V{3}));
  EXPECT_EQ(ids(StageKind::kTopNSigma, with([](auto& p) { p.top_n_sigma = 1.25f; })), (V{1, 3}));
  EXPECT_EQ(ids(StageKind::kXtc, with([](auto& p) { p.xtc_probability = 1; p.xtc_threshold = 0.2f; })), (V{1, 0, 2}));
  EXPECT_EQ(ids(StageKind::kXtc, with([](auto& p) { p.xtc_probability = 1; p.xtc_threshold = 0.3f; })),
            (V{3, 1, 0, 2}));
  EXPECT_EQ(ids(StageKind::kXtc, with([](auto& p) {
                  p.xtc_probability = 1;
                  p.xtc_threshold = 0.2f;
                  p.min_keep = 4;
                })),
            (V{3, 1, 0, 2}));
}

// A flat distribution has all the entropy there is, a certain one none.
TEST(SamplerStages, DynamicTemperatureGoesFromEndToEnd) {
  const SamplerParams params = with([](auto& p) {
    p.temp = 1;
    p.dynatemp_range = 0.5f;
  });
  const Candidates flat = run_stage(StageKind::kTemperature, params, {2, 2, 2, 2});
  EXPECT_EQ(flat.total_weight(), 4);
  const Candidates certain = run_stage(StageKind::kTemperature, params, {80, 0});
  EXPECT_NEAR(static_cast<double>(certain.items()[1].logit), -80 / 0.5, 1e-3);
}

TEST(SamplerStages, InfiniteLogits) {
  const std::vector<float> logits = {kInfinity, -kInfinity, 1, kInfinity, 0};
  SamplerParams params = off();
  params.top_p = 0.9f, params.min_p = 0.1f, params.typical_p = 0.9f, params.top_n_sigma = 1, params.top_k = 4;
  params.xtc_probability = 1, params.xtc_threshold = 0.4f, params.dynatemp_range = 0.3f;
  for (const StageKind kind : default_stage_order()) {
    SCOPED_TRACE(std::string(stage_row(kind).name));
    const Candidates got = run_stage(kind, params, logits);
    const double total = got.total_weight();
    EXPECT_TRUE(total == 1 || total == 2) << total;  // one or both of the infinite ones, nothing else has weight
    EXPECT_TRUE(got.best_id() == 0 || got.best_id() == 3);
    for (const Candidate& candidate : got.items()) EXPECT_FALSE(std::isnan(candidate.logit));
  }
}

TEST(StageOrder, NamesAndLetters) {
  const std::vector<StageKind> usual(default_stage_order().begin(), default_stage_order().end());
  const auto parse = [](std::string_view text) {
    auto order = parse_stage_order(text);
    EXPECT_TRUE(order.ok()) << text;
    return order.ok() ? *order : std::vector<StageKind>();
  };
  EXPECT_EQ(parse("penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"), usual);
  EXPECT_EQ(parse("edskypmxt"), usual);
  EXPECT_EQ(parse("top-k;temp;typical"),
            (std::vector{StageKind::kTopK, StageKind::kTemperature, StageKind::kTypical}));
  EXPECT_EQ(parse("temp"), (std::vector{StageKind::kTemperature}));  // not the letters t, e, m, p
  EXPECT_EQ(parse("tk"), (std::vector{StageKind::kTemperature, StageKind::kTopK}));
  EXPECT_TRUE(parse("").empty());
  for (const char* text : {"top_q", "kk", "top_k;top-k", "k;p", ";", "top_k;", "K", "top_k;\x1b[2J"}) {
    const auto order = parse_stage_order(text);
    ASSERT_FALSE(order.ok()) << text;
    EXPECT_EQ(order.error().code, ErrorCode::kBadInput);
    EXPECT_EQ(order.error().message.find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace strata::text
