// Which experts the resident copy keeps: the complement of the caches, then lend regions, within one budget.
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "experts/complement.h"
#include "experts/support.h"

namespace strata::test {
namespace {

using experts::CachedKeys;
using experts::ExpertKey;
using experts::LayerBlobs;
using experts::ResidentBlob;
using experts::ResidentPlan;

constexpr uint64_t kPlenty = 1000000;

std::vector<ExpertKey> keys_of(const ResidentPlan& plan) {
  std::vector<ExpertKey> keys;
  for (const ResidentBlob& blob : plan.blobs()) keys.push_back(blob.key);
  return keys;
}

TEST(Complement, HoldsWhatNoCacheHoldsLayerByLayerWithoutGaps) {
  const std::vector<LayerBlobs> layers = {{3, 10}, {0, 0}, {2, 7}};
  const std::vector<CachedKeys> caches = {{{2, 0}, {0, 1}}, {}};
  const ResidentPlan plan = ResidentPlan::complement(layers, caches, kPlenty).value();
  EXPECT_EQ(keys_of(plan), (std::vector<ExpertKey>{{0, 0}, {0, 2}, {2, 1}}));
  EXPECT_EQ(plan.blobs()[0].offset, 0u);
  EXPECT_EQ(plan.blobs()[1].offset, 10u);
  EXPECT_EQ(plan.blobs()[2].offset, 20u);
  EXPECT_EQ(plan.blobs()[2].bytes, 7u);
  EXPECT_EQ(plan.bytes(), 27u);
  EXPECT_EQ(plan.find({0, 2}), 1);
  EXPECT_EQ(plan.find({2, 1}), 2);
  EXPECT_EQ(plan.find({0, 1}), -1);
  EXPECT_FALSE(plan.has({2, 0}));
}

TEST(Complement, AModelWithoutCachesIsItsOwnComplement) {
  const std::vector<LayerBlobs> layers = {{2, 10}, {2, 7}};
  EXPECT_EQ(ResidentPlan::complement(layers, {}, kPlenty)->blobs().size(), 4u);
  EXPECT_EQ(ResidentPlan::complement(layers, {}, 34)->bytes(), 34u);
  expect_error(ResidentPlan::complement(layers, {}, 33), ErrorCode::kNoMemory, {"34 B", "33 B"});
}

TEST(Complement, WhatCannotBeIsRefused) {
  const std::vector<LayerBlobs> layers = {{2, 10}, {3, 7}};
  const auto with = [&](std::vector<CachedKeys> caches) {
    return ResidentPlan::complement(layers, caches, kPlenty);
  };
  expect_error(with({{{0, 1}, {1, 0}, {0, 1}}}), ErrorCode::kBadInput, {"expert 1 of layer 0", "two places"});
  expect_error(with({{{0, 1}}, {{1, 0}, {0, 1}}}), ErrorCode::kBadInput, {"expert 1 of layer 0", "two places"});
  expect_error(with({{{0, 2}}}), ErrorCode::kBadInput, {"expert 2 of layer 0"});
  expect_error(with({{}, {{1, -1}}}), ErrorCode::kBadInput, {"expert -1 of layer 1"});
  expect_error(with({{{2, 0}}}), ErrorCode::kBadInput, {"layer 2"});
  expect_error(with({{{-1, 0}}}), ErrorCode::kBadInput, {"layer -1"});
}

TEST(Complement, SizesThatCannotBeAreRefused) {
  const auto of = [](std::vector<LayerBlobs> layers) { return ResidentPlan::complement(layers, {}, UINT64_MAX); };
  expect_error(of({{2, 10}, {1, 0}}), ErrorCode::kBadInput, {"layer 1", "0 bytes"});
  expect_error(of({{-1, 10}}), ErrorCode::kBadInput, {"layer 0", "-1 experts"});
  expect_error(of({{2, uint64_t{1} << 63}}), ErrorCode::kBadInput, {"layer 0"});   // their product overflows
  expect_error(of({{1, UINT64_MAX}, {1, 1}}), ErrorCode::kBadInput, {"layer 0"});  // their sum would
  expect_error(of({{1, uint64_t{1} << 61}, {2, uint64_t{1} << 61}}), ErrorCode::kBadInput, {"layer 1"});
}

TEST(Complement, TheHottestFillABudget) {
  const std::vector<LayerBlobs> layers = {{3, 10}, {2, 4}};
  const std::vector<CachedKeys> caches = {{{0, 2}}};
  const std::vector<ExpertKey> ranking = {{0, 2}, {1, 1}, {0, 1}, {0, 0}, {1, 0}};
  const auto kept = [&](uint64_t budget) {
    return keys_of(ResidentPlan::hottest(layers, caches, ranking, budget).value());
  };
  EXPECT_EQ(kept(3), (std::vector<ExpertKey>{}));
  EXPECT_EQ(kept(4), (std::vector<ExpertKey>{{1, 1}}));
  EXPECT_EQ(kept(8), (std::vector<ExpertKey>{{1, 0}, {1, 1}}));  // past two that are too large
  EXPECT_EQ(kept(14), (std::vector<ExpertKey>{{0, 1}, {1, 1}}));
  EXPECT_EQ(kept(24), (std::vector<ExpertKey>{{0, 0}, {0, 1}, {1, 1}}));
  EXPECT_EQ(kept(28), (std::vector<ExpertKey>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST(Complement, RankingsThatCannotBeAreRefused) {
  const std::vector<LayerBlobs> layers = {{2, 10}};
  const auto with = [&](std::vector<ExpertKey> ranking) { return ResidentPlan::hottest(layers, {}, ranking, 0); };
  expect_error(with({{0, 1}, {0, 1}}), ErrorCode::kBadInput, {"ranking", "expert 1 of layer 0", "twice"});
  expect_error(with({{0, 1}, {0, 2}}), ErrorCode::kBadInput, {"ranking", "expert 2 of layer 0"});
  expect_error(with({{1, 0}}), ErrorCode::kBadInput, {"ranking", "layer 1"});
}

// Blobs of 5, 3, 3 and 5 bytes in the slots 0 to 3 of a cache, and a complement of 10.
struct Vectors {
  std::vector<LayerBlobs> layers = {{2, 5}, {2, 3}, {1, 10}};
  std::vector<CachedKeys> caches = {{{0, 0}, {1, 0}, {1, 1}, {0, 1}}};
  std::vector<ExpertKey> region = {{0, 1}, {1, 1}, {1, 0}};  // down to slot 1

  // The lowest slot of the region whose expert the copy has; 4 when it has none.
  int64_t kept_from(uint64_t budget) const {
    ResidentPlan plan = ResidentPlan::complement(layers, caches, budget).value();
    const int64_t kept = plan.keep_lent(region).value();
    EXPECT_LE(plan.bytes(), budget);
    EXPECT_EQ(static_cast<int64_t>(plan.blobs().size()), 1 + kept);
    return 4 - kept;
  }
};

TEST(LendRegions, AreKeptFromTheHighestSlotDownward) {
  const Vectors v;
  EXPECT_FALSE(ResidentPlan::complement(v.layers, v.caches, 9).ok());
  EXPECT_EQ(v.kept_from(10), 4);
  EXPECT_EQ(v.kept_from(14), 4);
  EXPECT_EQ(v.kept_from(15), 3);
  EXPECT_EQ(v.kept_from(17), 3);
  EXPECT_EQ(v.kept_from(18), 2);
  EXPECT_EQ(v.kept_from(20), 2);
  EXPECT_EQ(v.kept_from(21), 1);
  EXPECT_EQ(v.kept_from(100), 1);
}

TEST(LendRegions, LieBehindTheComplement) {
  const Vectors v;
  ResidentPlan plan = ResidentPlan::complement(v.layers, v.caches, kPlenty).value();
  ASSERT_EQ(plan.keep_lent(v.region).value(), 3);
  EXPECT_EQ(keys_of(plan), (std::vector<ExpertKey>{{2, 0}, {0, 1}, {1, 1}, {1, 0}}));
  EXPECT_EQ(plan.blobs()[1].offset, 10u);
  EXPECT_EQ(plan.blobs()[3].end(), 21u);
}

TEST(LendRegions, AWalkStopsAtItsFirstThatDoesNotFitAndTheNextStillRuns) {
  const std::vector<LayerBlobs> layers = {{2, 5}, {2, 3}};
  const std::vector<CachedKeys> caches = {{{1, 0}, {0, 0}}, {{0, 1}, {1, 1}}};
  ResidentPlan plan = ResidentPlan::complement(layers, caches, 7).value();
  EXPECT_EQ(plan.bytes(), 0u);
  // Part 0: the 3 behind the 5 that is kept would not fit; neither is anything taken out of turn.
  EXPECT_EQ(plan.keep_lent(std::vector<ExpertKey>{{0, 0}, {1, 0}}).value(), 1);
  EXPECT_EQ(plan.keep_lent(std::vector<ExpertKey>{{1, 1}}).value(), 0);
  ResidentPlan other = ResidentPlan::complement(layers, caches, 4).value();
  EXPECT_EQ(other.keep_lent(std::vector<ExpertKey>{{0, 0}, {1, 0}}).value(), 0);
  EXPECT_EQ(other.keep_lent(std::vector<ExpertKey>{{1, 1}, {0, 1}}).value(), 1);
  EXPECT_EQ(keys_of(other), (std::vector<ExpertKey>{{1, 1}}));
}

TEST(LendRegions, AnExpertThatIsThereCostsNothing) {
  const std::vector<LayerBlobs> layers = {{3, 5}};
  ResidentPlan plan = ResidentPlan::complement(layers, std::vector<CachedKeys>{{{0, 0}, {0, 1}}}, 10).value();
  EXPECT_EQ(plan.keep_lent(std::vector<ExpertKey>{{0, 2}, {0, 1}, {0, 2}, {0, 1}}).value(), 4);
  EXPECT_EQ(plan.bytes(), 10u);
  EXPECT_EQ(keys_of(plan), (std::vector<ExpertKey>{{0, 2}, {0, 1}}));
}

TEST(LendRegions, ARefusedWalkLeavesThePlanAsItWas) {
  const Vectors v;
  ResidentPlan plan = ResidentPlan::complement(v.layers, v.caches, kPlenty).value();
  const auto refuse = [&](ExpertKey key) {
    expect_error(plan.keep_lent(std::vector<ExpertKey>{{0, 1}, key}), ErrorCode::kBadInput, {"lend region"});
    EXPECT_EQ(keys_of(plan), (std::vector<ExpertKey>{{2, 0}}));
    EXPECT_EQ(plan.bytes(), 10u);
    EXPECT_FALSE(plan.has({0, 1}));
  };
  refuse({0, 2});
  refuse({3, 0});
  refuse({-1, 0});
  refuse({0, -1});
}

// Random layers, their experts dealt out to caches and the rest, with each cache's lend region.
struct Dealt {
  std::vector<LayerBlobs> layers;
  std::vector<ExpertKey> all;
  std::vector<CachedKeys> caches;
  std::vector<std::vector<ExpertKey>> regions;
  uint64_t rest_bytes = 0;
};

Dealt deal() {
  Dealt dealt;
  const auto n_layers = *rc::gen::inRange(1, 6);
  dealt.caches.resize(*rc::gen::inRange<size_t>(0, 4));
  for (int32_t l = 0; l < n_layers; l++) {
    dealt.layers.push_back({*rc::gen::inRange(0, 6), *rc::gen::inRange<uint64_t>(1, 9)});
    for (int32_t e = 0; e < dealt.layers.back().n_experts; e++) {
      dealt.all.push_back({l, e});
      const auto place = *rc::gen::inRange<size_t>(0, dealt.caches.size() + 1);
      if (place < dealt.caches.size()) dealt.caches[place].push_back({l, e});
      else dealt.rest_bytes += dealt.layers.back().blob_bytes;
    }
  }
  for (const CachedKeys& cache : dealt.caches) {
    const auto n = *rc::gen::inRange<size_t>(0, cache.size() + 1);
    dealt.regions.emplace_back(cache.rbegin(), cache.rbegin() + static_cast<int64_t>(n));
  }
  return dealt;
}

RC_GTEST_PROP(Complement, CopyAndCachesAreAllExpertsAndTheBudgetHolds, ()) {
  const Dealt dealt = deal();
  const uint64_t budget = *rc::gen::inRange<uint64_t>(0, dealt.rest_bytes + 30);
  auto made = ResidentPlan::complement(dealt.layers, dealt.caches, budget);
  RC_ASSERT(made.ok() == (dealt.rest_bytes <= budget));
  if (!made.ok()) return;
  ResidentPlan& plan = *made;
  RC_ASSERT(plan.bytes() == dealt.rest_bytes);
  std::multiset<ExpertKey> placed;
  for (const ResidentBlob& blob : plan.blobs()) placed.insert(blob.key);
  for (const CachedKeys& cache : dealt.caches) placed.insert(cache.begin(), cache.end());
  RC_ASSERT(placed == std::multiset<ExpertKey>(dealt.all.begin(), dealt.all.end()));

  for (const std::vector<ExpertKey>& region : dealt.regions) {
    const int64_t kept = plan.keep_lent(region).value();
    for (size_t i = 0; i < region.size(); i++) {
      if (static_cast<int64_t>(i) < kept) RC_ASSERT(plan.has(region[i]));
    }
    if (kept < static_cast<int64_t>(region.size())) {
      const ExpertKey next = region[static_cast<size_t>(kept)];
      RC_ASSERT(plan.bytes() + dealt.layers[static_cast<size_t>(next.layer)].blob_bytes > budget);
    }
  }
  uint64_t at = 0;
  std::set<ExpertKey> once;
  for (size_t i = 0; i < plan.blobs().size(); i++) {
    const ResidentBlob& blob = plan.blobs()[i];
    RC_ASSERT(blob.offset == at);
    RC_ASSERT(blob.bytes == dealt.layers[static_cast<size_t>(blob.key.layer)].blob_bytes);
    RC_ASSERT(once.insert(blob.key).second);
    RC_ASSERT(plan.find(blob.key) == static_cast<int64_t>(i));
    at = blob.end();
  }
  RC_ASSERT(at <= budget);
}

RC_GTEST_PROP(Complement, TheHottestKeepTheBudgetAndLeaveOutOnlyWhatDoesNotFit, ()) {
  const Dealt dealt = deal();
  const uint64_t budget = *rc::gen::inRange<uint64_t>(0, dealt.rest_bytes + 3);
  std::vector<ExpertKey> left = dealt.all, ranking;
  while (!left.empty()) {
    const auto at = *rc::gen::inRange<size_t>(0, left.size());
    ranking.push_back(left[at]);
    left.erase(left.begin() + static_cast<int64_t>(at));
  }
  const ResidentPlan plan = ResidentPlan::hottest(dealt.layers, dealt.caches, ranking, budget).value();
  RC_ASSERT(plan.bytes() <= budget);
  std::set<ExpertKey> cached;
  for (const CachedKeys& cache : dealt.caches) cached.insert(cache.begin(), cache.end());
  uint64_t hotter = 0;  // bytes of the copy's experts that are ranked before
  for (const ExpertKey& key : ranking) {
    const uint64_t bytes = dealt.layers[static_cast<size_t>(key.layer)].blob_bytes;
    if (cached.count(key) > 0) RC_ASSERT(!plan.has(key));
    else RC_ASSERT(plan.has(key) == (hotter + bytes <= budget));
    if (plan.has(key)) hotter += bytes;
  }
}

}  // namespace
}  // namespace strata::test
