// Profiles: what is counted, ranked, written and read again; files that lie are refused without harm.
#include "experts/profile.h"

#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/file_sim.h"
#include "experts/slot_plan.h"
#include "experts/support.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using experts::ExpertKey;
using experts::ExpertProfile;
using experts::RoutedModel;

const RoutedModel kModel{"Tiny MoE", 3, 4};

// Any counts, many of them alike or zero.
ExpertProfile random_profile(const RoutedModel& model) {
  ExpertProfile profile(model);
  for (int32_t l = 0; l < model.n_layers; l++) {
    for (int32_t e = 0; e < model.n_experts; e++) profile.add({l, e}, *rc::gen::inRange(0, 6));
  }
  return profile;
}

ExpertModel model_of(int n_layers, int64_t n_experts) {
  const ExpertSpec spec{.n_layers = n_layers, .dim = 32, .ffn = 32, .n_experts = n_experts};
  return ExpertModel(spec, numbered_parts());
}

bool same_uses(const ExpertProfile& a, const ExpertProfile& b) {
  if (!(a.model() == b.model())) return false;
  for (int32_t l = 0; l < a.model().n_layers; l++) {
    for (int32_t e = 0; e < a.model().n_experts; e++) {
      if (a.uses({l, e}) != b.uses({l, e})) return false;
    }
  }
  return true;
}

TEST(Profile, CountsTheLiveRowsOfSteps) {
  device::host::HostDevice device(host_options());
  const auto ids = device.allocate_host(6 * sizeof(int32_t), device::MemoryKind::kPageable, "ids").value();
  const int32_t values[] = {3, 0, 3, 1, 2, 2};
  std::memcpy(ids->write<int32_t>(0, 6).span().data(), values, sizeof values);
  experts::ProfileCounter counter{ExpertProfile(kModel)};
  counter.routed(1, device::view_of<int32_t>(*ids, 2, 2));  // the third row is not live
  EXPECT_EQ(counter.profile().uses({1, 3}), 2);
  EXPECT_EQ(counter.profile().uses({1, 0}), 1);
  EXPECT_EQ(counter.profile().uses({1, 1}), 1);
  EXPECT_EQ(counter.profile().total(), 4);
  EXPECT_EQ(counter.profile().layer_total(0), 0);
}

TEST(Profile, TheModelIsKnownByNameAndShape) {
  const ExpertModel model = model_of(2, 4);
  const RoutedModel found = RoutedModel::of(*model.model, model.layout);
  EXPECT_EQ(found.n_layers, 2);
  EXPECT_EQ(found.n_experts, 4);
  ExpertProfile profile(kModel);
  for (const RoutedModel& other : {RoutedModel{"Tiny MoE", 3, 5}, RoutedModel{"Tiny MoE", 2, 4},
                                   RoutedModel{"Other", 3, 4}}) {
    const Status status = profile.merge(ExpertProfile(other), "b.profile");
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, testing::AllOf(testing::HasSubstr("b.profile"), testing::HasSubstr("Tiny MoE"),
                                                       testing::HasSubstr("strata profile record")));
  }
}

TEST(Profile, RanksEvenlyWithoutUses) {
  const ExpertModel model = model_of(3, 4);
  EXPECT_EQ(ExpertProfile(kModel).ranking(model.layout), experts::even_ranking(model.layout));
}

TEST(Profile, RanksTheMostUsedFirstAndForgetsNoLayer) {
  const ExpertModel model = model_of(3, 4);
  ExpertProfile profile(kModel);
  for (int32_t e = 0; e < 4; e++) profile.add({1, e}, 100 + e);  // all of the use is in one layer
  profile.add({2, 3}, 7);
  const std::vector<ExpertKey> expected = {{0, 0}, {1, 3}, {2, 3}, {1, 2}, {1, 1}, {1, 0}};
  const std::vector<ExpertKey> ranking = profile.ranking(model.layout);
  EXPECT_EQ(std::vector<ExpertKey>(ranking.begin(), ranking.begin() + 6), expected);
}

// Of any number of experts from the front, each layer has half of its even share, and nobody else is preferred to a
// more used expert of the same layer.
RC_GTEST_PROP(ProfileProperty, EveryLayerHasAFloorAndItsMostUsed, ()) {
  const int layers = *rc::gen::inRange(1, 5);
  const int64_t n_experts = *rc::gen::inRange(1, 7);
  const ExpertModel model = model_of(layers, n_experts);
  const ExpertProfile profile = random_profile({"m", layers, static_cast<int32_t>(n_experts)});
  const std::vector<ExpertKey> ranking = profile.ranking(model.layout);
  RC_ASSERT(static_cast<int64_t>(ranking.size()) == layers * n_experts);
  std::map<int32_t, int64_t> of_layer;
  std::map<int32_t, double> last;  // uses of the last one listed
  std::set<ExpertKey> seen;
  for (size_t n = 0; n < ranking.size(); n++) {
    const ExpertKey key = ranking[n];
    RC_ASSERT(seen.insert(key).second);
    if (of_layer[key.layer]++ > 0) RC_ASSERT(profile.uses(key) <= last[key.layer]);
    last[key.layer] = profile.uses(key);
    for (int32_t l = 0; l < layers; l++) {
      const int64_t floor = static_cast<int64_t>(n + 1) / (2 * layers);
      RC_ASSERT(of_layer[l] >= std::min(floor, n_experts));
    }
  }
}

RC_GTEST_PROP(ProfileProperty, WhatIsWrittenIsRead, ()) {
  const ExpertProfile profile = random_profile(kModel);
  const auto read = ExpertProfile::parse(profile.to_text(), "p");
  RC_ASSERT(read.ok());
  RC_ASSERT(same_uses(*read, profile));
}

RC_GTEST_PROP(ProfileProperty, MergingAddsUses, ()) {
  const ExpertProfile a = random_profile(kModel), b = random_profile(kModel);
  ExpertProfile sum = a;
  RC_ASSERT(sum.merge(b, "b").ok());
  for (int32_t l = 0; l < 3; l++) {
    for (int32_t e = 0; e < 4; e++) RC_ASSERT(sum.uses({l, e}) == a.uses({l, e}) + b.uses({l, e}));
  }
}

TEST(ProfileFile, SavedFilesAreLoaded) {
  const TempDir dir;
  ExpertProfile profile(kModel);
  profile.add({2, 1}, 0.1);
  profile.add({0, 3}, 12345678.5);
  ASSERT_TRUE(profile.save(dir.file("a.profile")).ok());
  const auto read = ExpertProfile::load(real_file_system(), dir.file("a.profile"));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(same_uses(*read, profile));
  EXPECT_EQ(ExpertProfile::load(real_file_system(), dir.file("none")).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(profile.save(dir.file("no/such/folder")).ok());
}

const std::string kHead = "strata expert profile 1\nmodel Tiny MoE\nlayers 3\nexperts 4\n";

TEST(ProfileFile, OtherLineEndsAreFine) {
  std::string text = kHead + "0 1 2";
  EXPECT_TRUE(ExpertProfile::parse(text, "p").ok());
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, "\r");
  const auto read = ExpertProfile::parse(text, "p");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->model(), kModel);
  EXPECT_EQ(read->uses({0, 1}), 2);
}

TEST(ProfileFile, WhatIsWrongIsSaid) {
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {"", "line 0"},
      {"GGUF\x03", "line 1"},
      {"strata expert profile 2\n", "line 1 is 'strata expert profile 2'"},
      {"strata expert profile 1\n", "model NAME"},
      {"strata expert profile 1\nmodel a\nlayers\n", "layers N"},
      {"strata expert profile 1\nmodel a\nlayers 2x\n", "layers N"},
      {"strata expert profile 1\nmodel a\nlayers 99999999999\n", "layers N"},
      {"strata expert profile 1\nmodel a\nlayers 4096\nexperts 65535\n", "4096 layers of 65535 experts"},
      {"strata expert profile 1\nmodel a\nlayers -1\nexperts 4\n", "-1 layers"},
      {"strata expert profile 1\nmodel a\nlayers 3\nexperts 0\n", "0 experts"},
      {"strata expert profile 1\nmodel " + std::string(513, 'a') + "\nlayers 3\nexperts 4\n", "model has"},
      {kHead + "0 1\n", "line 5"},
      {kHead + "0 1 2 3\n", "line 5"},
      {kHead + " 0 1 2\n", "line 5"},
      {kHead + "0 1 2\n\n", "line 6"},
      {kHead + "0 1 nan\n", "line 5"},
      {kHead + "0 1 inf\n", "line 5"},
      {kHead + "0 1 -2\n", "line 5"},
      {kHead + "0 1 0\n", "line 5"},
      {kHead + "0 1 1e300\n", "line 5"},
      {kHead + "3 0 1\n", "that the model has"},
      {kHead + "0 4 1\n", "that the model has"},
      {kHead + "-1 0 1\n", "that the model has"},
      {kHead + "0 1 2\n0 1 2\n", "each expert once"},
  };
  for (const auto& c : cases) {
    const auto read = ExpertProfile::parse(c.text, "bad\n.profile");
    ASSERT_FALSE(read.ok()) << c.text;
    EXPECT_EQ(read.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(read.error().message, testing::AllOf(testing::HasSubstr(c.says), testing::HasSubstr("bad?.profile"),
                                                     testing::Not(testing::HasSubstr("\n"))));
  }
}

// Any change of a file is refused or read as numbers that can be.
RC_GTEST_PROP(ProfileProperty, DamagedFilesDoNoHarm, ()) {
  std::string text = random_profile(kModel).to_text();
  for (int i = *rc::gen::inRange(1, 4); i > 0; i--) {
    const auto at = *rc::gen::inRange<size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        text[at] = *rc::gen::arbitrary<char>();
        break;
      case 1:
        text.resize(at + 1);
        break;
      default:
        text.insert(at, *rc::gen::element<std::string>("9", " ", "\n", "e9", "-", "\r\n"));
    }
  }
  const auto read = ExpertProfile::parse(text, "p");
  if (!read.ok()) return;
  for (int32_t l = 0; l < read->model().n_layers; l++) {
    for (int32_t e = 0; e < read->model().n_experts; e++) RC_ASSERT(std::isfinite(read->uses({l, e})));
  }
}

}  // namespace
}  // namespace strata::test
