// Models with their experts in every tier: the bits of the arena on cpu, on each device and however prompts are cut,
// with counters that prove that each tier was really asked.
#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "engine/tier_models.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using engine::ExpertPlace;

class Tiers : public testing::TestWithParam<const char*> {
 protected:
  std::vector<float> bits_of(const TierModel& m, const EngineConfig& config, Cut cut) {
    std::vector<float> bits;
    stats_.reset();
    EXPECT_GE(worst_difference(m.golden, config, cut, &bits, &stats_), 0);
    return bits;
  }
  // Leases of experts in the file tier.
  int64_t from_files() const { return stats_.get(Counter::kStageFills) + stats_.get(Counter::kMappedLeases); }

  void expect_tiers_were_asked(const TierRow& row, bool on_sim) {
    const bool copy = row.place == ExpertPlace::kResident || row.budget;
    EXPECT_EQ(stats_.get(Counter::kArenaLeases) > 0, row.place == ExpertPlace::kArena);
    EXPECT_EQ(stats_.get(Counter::kResidentLeases) > 0, copy);
    EXPECT_EQ(stats_.get(Counter::kResidentFileReads) > 0, row.budget || (copy && on_sim));
    // A resident copy on a device with a cache leaves the cache's own experts to the files, once.
    EXPECT_EQ(from_files() > 0, row.place != ExpertPlace::kArena && !(copy && !row.budget && !on_sim));
    EXPECT_EQ(stats_.get(Counter::kResidentReplaced) > 0, row.budget && !on_sim);
    EXPECT_EQ(stats_.get(Counter::kCacheHits) > 0, on_sim);
    EXPECT_EQ(stats_.get(Counter::kCacheLoans) > 0, on_sim);
    EXPECT_EQ(stats_.get(Counter::kStreamedExperts) > 0, on_sim);
  }
  Stats stats_;
};

TEST_P(Tiers, GiveTheBitsOfTheArena) {
  const TierModel m = tier_model(GetParam());
  int seed = 1;
  for (const Cut cut : {Cut::kChunksOf7, Cut::kBatchOfThree}) {
    const std::vector<float> expected = bits_of(m, test_config(), cut);
    ASSERT_FALSE(expected.empty());
    for (const bool on_sim : {false, true}) {
      for (const TierRow& row : kTierRows) {
        EngineConfig config = on_sim ? sim_config(m.n_experts / 4, seed++) : test_config();
        config.stream_rows = 5;
        config.experts = row.place;
        if (row.budget) config.resident_budget_bytes = m.expert_bytes / 3;
        config.adapt_every = 1;
        config.pcie_frac = 0.5;
        if (on_sim) config = lending(config, m.golden);
        SCOPED_TRACE(format("{}, {} on {}", cut_name(cut), row.name, config.device));
        const std::vector<float> found = bits_of(m, config, cut);
        ASSERT_EQ(found.size(), expected.size());
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
        expect_tiers_were_asked(row, on_sim);
        if (cut != Cut::kBatchOfThree) continue;  // all others stream
        EXPECT_EQ(stats_.get(Counter::kLinkedRows) > 0, on_sim && row.place == ExpertPlace::kArena);
      }
    }
  }
}

// With --deterministic the device computes all experts, those too that it cannot read where they lie, and of steps of
// all kinds.
TEST_P(Tiers, LeaveTheCpuNothingWithDeterministic) {
  const TierModel m = tier_model(GetParam());
  const std::vector<float> expected = bits_of(m, test_config(), Cut::kBatchOfThree);
  for (const TierRow& row : kTierRows) {
    EngineConfig config = sim_config(m.n_experts / 4, 1);
    config.experts = row.place;
    if (row.budget) config.resident_budget_bytes = m.expert_bytes / 3;
    config.adapt_every = 1;
    config.deterministic = true;
    config = lending(config, m.golden);
    SCOPED_TRACE(row.name);
    const std::vector<float> found = bits_of(m, config, Cut::kBatchOfThree);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
    EXPECT_EQ(stats_.get(Counter::kExpertRows), 0);
    EXPECT_GT(stats_.get(Counter::kCacheMisses), 0);
  }
}

std::string safe(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Tiers, testing::ValuesIn(kGoldenArchs),
                         [](const auto& row) { return safe(row.param); });
INSTANTIATE_TEST_SUITE_P(Demo, Tiers, testing::Values("demo"), [](const auto& row) { return safe(row.param); });

}  // namespace
}  // namespace strata::test
