// A split whose resident copy keeps each part's lend region: what prompts borrow is read from RAM while they run, for
// less page-locked memory than an arena takes, and in as little simulated time.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sim_support.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using engine::ExpertPlace;

class SplitTiers : public testing::Test {
 protected:
  // Two devices that cache half of their experts each, from which prompts of 16 rows a chunk borrow: more than there
  // are buffers for direct reads.
  EngineConfig config() const { return lending(roomy(), golden_); }
  // On devices that have room for more.
  EngineConfig roomy() const {
    EngineConfig config = small_sim_config(experts_ / 4, 192, 16);
    config.device = "sim:2x128MiB/link=1GiBps/drive=200MiBps/host=8GiBps/compute=200GFLOPs/seed=2";
    config.layer_split = {4, 4};
    config.stream_rows = 16;
    config.experts = ExpertPlace::kResident;
    return config;
  }
  std::unique_ptr<Engine> open(const EngineConfig& config) {
    return open_engine(*model_, config, stats_);
  }
  // Reads so many chunks; simulated nanoseconds.
  int64_t read_prompt(Engine& engine, int64_t chunks) {
    auto sequence = engine.make_sequence().value();
    std::vector<int32_t> ids(static_cast<size_t>(chunks * engine.max_rows()));
    for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<int32_t>((7 * i + 3) % 500);
    const int64_t start = engine.now_ns();
    const Status status = engine.prefill(sequence, ids, {});
    EXPECT_TRUE(status.ok()) << status.error().message;
    return engine.now_ns() - start;
  }
  int64_t counted(Counter counter) const { return stats_.get(counter); }
  static int64_t lent(const Engine& engine) {
    int64_t n = 0;
    for (const experts::PartPlacement& part : engine.placement().parts) n += part.lent_slots;
    return n;
  }
  static int64_t lent_in_ram(const Engine& engine) {
    int64_t n = 0;
    for (const experts::PartPlacement& part : engine.placement().parts) n += part.lent_in_ram;
    return n;
  }
  // Of the experts that no cache holds.
  static uint64_t complement_bytes(const Engine& engine) {
    uint64_t bytes = 0;
    for (const experts::ResidentBlob& blob : engine.placement().resident.blobs()) {
      const bool cached = engine.placement().tier(blob.key) == experts::Tier::kDevice;
      if (!cached) bytes += blob.bytes;
    }
    return bytes;
  }

  const GoldenModel golden_ = load_demo_golden();
  const std::unique_ptr<gguf::Model> model_ = open_golden(golden_);
  const int64_t experts_ = n_experts(golden_);
  Stats stats_;
};

TEST_F(SplitTiers, WhatIsLentIsReadFromTheCopy) {
  const auto engine = open(config());
  EXPECT_GT(lent(*engine), 2);
  EXPECT_EQ(lent_in_ram(*engine), lent(*engine));
  EXPECT_TRUE(engine->placement().warning.empty());
  read_prompt(*engine, 3);
  EXPECT_EQ(counted(Counter::kCacheLoans), 2);
  EXPECT_EQ(counted(Counter::kCacheLentSlots), lent(*engine)) << "as many as the plan has regions for";
  EXPECT_GT(counted(Counter::kStreamedExperts), 0);
  ASSERT_TRUE(engine->end_loan().ok());
  EXPECT_EQ(counted(Counter::kResidentFileReads), 0);
  EXPECT_EQ(counted(Counter::kStageFills) + counted(Counter::kMappedLeases), 0);
}

// Of each chunk every expert streams once that its part's cache lacks: one that the budget has cut is read from the
// files each time, and once more to put it back.
TEST_F(SplitTiers, ABudgetCutsExactlyThePairsPastIt) {
  EngineConfig cut = config();
  const auto whole = open(cut);
  const auto& blobs = whole->placement().resident.blobs();
  for (const size_t n_cut : {size_t{1}, size_t{2}}) {
    cut.resident_budget_bytes = blobs[blobs.size() - n_cut].offset;
    const auto engine = open(cut);
    EXPECT_EQ(lent_in_ram(*engine), lent(*engine) - static_cast<int64_t>(n_cut));
    EXPECT_THAT(engine->placement().warning, testing::HasSubstr("of them are read from the files"));
    for (size_t i = 0; i < blobs.size(); i++) {
      EXPECT_EQ(engine->placement().resident.has(blobs[i].key), i + n_cut < blobs.size());
    }
    read_prompt(*engine, 3);
    EXPECT_EQ(counted(Counter::kResidentFileReads), 3 * static_cast<int64_t>(n_cut));
    ASSERT_TRUE(engine->end_loan().ok());
    EXPECT_EQ(counted(Counter::kResidentFileReads), 4 * static_cast<int64_t>(n_cut));
  }
}

TEST_F(SplitTiers, RegionsAreAsFastAsAnArenaAndPinLess) {
  constexpr int64_t kChunks = 6;
  EngineConfig arena = config();
  arena.experts = ExpertPlace::kArena;
  const int64_t arena_ns = read_prompt(*open(arena), kChunks);
  const auto with_regions = open(config());
  const int64_t regions_ns = read_prompt(*with_regions, kChunks);
  const uint64_t complement = complement_bytes(*with_regions), copy = with_regions->placement().resident.bytes();
  EngineConfig without = config();
  without.experts = ExpertPlace::kDirect;  // whose reads take the time of the simulated drive
  without.resident_budget_bytes = kGiB;
  without.lend_regions = false;
  const auto no_regions = open(without);
  EXPECT_EQ(lent_in_ram(*no_regions), 0);
  EXPECT_EQ(no_regions->placement().resident.bytes(), complement);
  const int64_t files_ns = read_prompt(*no_regions, kChunks);
  const experts::PlacementPlan all_in_ram = open(arena)->placement();
  const uint64_t all = all_in_ram.experts_bytes;
  const std::string found =
      format("arena of {} bytes {} ns; complement {} + regions {} bytes {} ns; complement alone {} ns", all, arena_ns,
             complement, copy - complement, regions_ns, files_ns);
  std::printf("%s\n", found.c_str());
  EXPECT_GT(copy, complement);
  EXPECT_LT(copy, all);
  EXPECT_EQ(with_regions->placement().pinned_bytes - copy, all_in_ram.pinned_bytes - all) << "all of both is";
  EXPECT_LE(static_cast<double>(regions_ns), 1.05 * static_cast<double>(arena_ns));
  EXPECT_GT(static_cast<double>(files_ns), 1.2 * static_cast<double>(regions_ns)) << "reads come back";
}

// Everything fits the devices together: the host computes and carries nothing.
TEST_F(SplitTiers, WhatFitsTheDevicesTogetherNeedsNoHost) {
  EngineConfig all = roomy();
  all.expert_cache.reset();
  const auto engine = open(all);
  EXPECT_EQ(engine->placement().resident.blobs().size(), 0u);
  EXPECT_EQ(lent(*engine), 0);
  const auto& parts = engine->placement().parts;
  EXPECT_EQ(parts[0].slots.n_slots() + parts[1].slots.n_slots(), experts_);
  read_prompt(*engine, 2);
  EXPECT_GT(counted(Counter::kCacheHits), 0);
  EXPECT_EQ(counted(Counter::kCacheMisses) + counted(Counter::kExpertRows) + counted(Counter::kStreamedExperts), 0);
  EXPECT_EQ(counted(Counter::kCacheLoans), 0);
}

// Computing takes longest: the chunks are many, the links fast, and the layers shared out evenly.
TEST_F(SplitTiers, TwoDevicesReadALongPromptFaster) {
  constexpr int64_t kChunks = 9;
  const auto time = [&](const std::string& devices, std::vector<int> split, std::optional<int64_t> slots) {
    EngineConfig bound = roomy();
    bound.device = devices + "/link=64GiBps/peer=64GiBps/host=256GiBps/mem=512GiBps/compute=1GFLOPs/seed=3";
    bound.layer_split = std::move(split);
    bound.expert_cache = slots;
    return static_cast<double>(read_prompt(*open(bound), kChunks));
  };
  for (const std::optional<int64_t> slots : {std::optional<int64_t>(experts_ / 8), std::optional<int64_t>()}) {
    const double one = time("sim:256MiB", {8}, slots), two = time("sim:2x256MiB", {4, 4}, slots);
    EXPECT_GE(one / two, 1.6) << one << " ns on one device, " << two << " on two";
  }
}

}  // namespace
}  // namespace strata::test
