// Models with their experts in every tier, beside a CUDA device that holds none, a quarter or all of them: the float
// path stays within the CPU's tolerances, --deterministic gives the same bits in every place of the table, and counters
// prove that each tier was really asked.
#include <algorithm>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "engine/tier_models.h"
#include "gpu/lending.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using engine::ExpertPlace;

constexpr int kPercents[] = {0, 25, 100};  // of the experts, that lie on the device
constexpr uint64_t kBudgetGib = 4;         // of the device, where prompts are to borrow
constexpr Cut kCuts[] = {Cut::kChunksOf7, Cut::kBatchOfThree};

EngineConfig config_of(const TierModel& m, const TierRow& row, int percent) {
  EngineConfig config = test_config();
  config.device = "cuda:0";
  config.expert_cache = m.n_experts * percent / 100;
  config.cache_min_slots = 1;
  config.stream_rows = 5;
  config.experts = row.place;
  if (row.budget) config.resident_budget_bytes = m.expert_bytes / 3;
  config.adapt_every = 1;
  return percent == 25 ? lending_gpu(config, m.golden, kBudgetGib) : config;
}

class GpuTiers : public testing::TestWithParam<const char*> {
 protected:
  // The largest difference from the reference; the logits to `bits`.
  double difference(const EngineConfig& config, Cut cut, std::vector<float>& bits) {
    bits.clear();
    stats_.reset();
    const double worst = worst_difference(model_.golden, config, cut, &bits, &stats_);
    EXPECT_GE(worst, 0);
    for (const Counter counter : {Counter::kCacheHits, Counter::kCacheMisses, Counter::kCacheLoans,
                                  Counter::kCacheSwaps, Counter::kStreamedRows, Counter::kLinkedRows,
                                  Counter::kExpertRows}) {
      sums_.add(counter, stats_.get(counter));
    }
    return worst;
  }
  // Of all runs with so many experts on the device.
  void expect_tiers_were_asked(int percent, bool on_cpu) {
    const auto happened = [&](Counter counter) { return sums_.get(counter) > 0; };
    EXPECT_EQ(happened(Counter::kCacheHits), percent > 0);
    EXPECT_EQ(happened(Counter::kCacheMisses), percent < 100);
    EXPECT_EQ(happened(Counter::kCacheLoans), percent == 25);
    EXPECT_EQ(happened(Counter::kCacheSwaps), percent == 25);
    EXPECT_EQ(happened(Counter::kStreamedRows), percent < 100);
    EXPECT_EQ(happened(Counter::kLinkedRows), percent < 100);
    EXPECT_EQ(happened(Counter::kExpertRows), percent < 100 && on_cpu);
    sums_.reset();
  }

  const TierModel model_ = tier_model(GetParam());
  Stats stats_, sums_;
};

TEST_P(GpuTiers, AgreeWithTheReferenceOnTheFloatPath) {
  std::vector<float> bits;
  for (const int percent : kPercents) {
    for (const TierRow& row : kTierRows) {
      for (const Cut cut : kCuts) {
        EngineConfig config = config_of(model_, row, percent);
        config.pcie_frac = 0.5;
        SCOPED_TRACE(format("{} %, {}, {}", percent, row.name, cut_name(cut)));
        EXPECT_LE(difference(config, cut, bits), model_.golden.limit);
      }
    }
    expect_tiers_were_asked(percent, true);
  }
}

TEST_P(GpuTiers, GiveTheSameBitsWithDeterministic) {
  std::map<Cut, std::vector<float>> bits;  // cuts list their rows in orders of their own
  std::vector<float> found;
  for (const int percent : kPercents) {
    for (const TierRow& row : kTierRows) {
      for (const Cut cut : kCuts) {
        EngineConfig config = config_of(model_, row, percent);
        config.deterministic = true;
        SCOPED_TRACE(format("{} %, {}, {}", percent, row.name, cut_name(cut)));
        EXPECT_LE(difference(config, cut, found), model_.golden.limit);
        std::vector<float>& expected = bits[cut];
        if (expected.empty()) expected = found;
        ASSERT_EQ(found.size(), expected.size());
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
      }
    }
    expect_tiers_were_asked(percent, false);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuTiers, testing::Values("qwen3moe", "gpt-oss", "demo"), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace strata::test
