// Layers shared out to devices, and what a model's parts are measured to need.
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "engine/placing.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using engine::kGpuChunk;
using engine::PlacementRequest;
using engine::PlannedDevice;
using engine::settle_chunk;
using engine::split_layers;

std::vector<int> split(std::vector<uint64_t> layers, std::vector<uint64_t> budgets) {
  return split_layers(layers, budgets);
}

TEST(SplitLayers, IsInProportionToTheBudgets) {
  EXPECT_EQ(split({1, 1, 1, 1}, {7}), (std::vector<int>{4}));
  EXPECT_EQ(split({1, 1, 1, 1}, {7, 7}), (std::vector<int>{2, 4}));
  EXPECT_EQ(split({1, 1, 1, 1}, {1, 3}), (std::vector<int>{1, 4}));
  EXPECT_EQ(split({6, 1, 1, 1, 1, 1, 1}, {5, 5}), (std::vector<int>{1, 7}));
  EXPECT_EQ(split({1, 1, 1, 1, 1, 1}, {1, 1, 1}), (std::vector<int>{2, 4, 6}));
}

TEST(SplitLayers, LeavesNoRunEmpty) {
  EXPECT_EQ(split({1, 1, 1}, {0, 9, 0}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(split({1, 1}, {5, 5, 5}), (std::vector<int>{1, 2}));  // one device too many
  EXPECT_EQ(split({1, 1}, {0, 0}), (std::vector<int>{1, 2}));
}

RC_GTEST_PROP(SplitLayers, RunsAreContiguousAndNearTheirShare, ()) {
  const auto layers = *rc::gen::nonEmpty(rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(1, 50)));
  const auto budgets =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(1, 50)));
  const std::vector<int> ends = split_layers(layers, budgets);
  const size_t n = std::min(layers.size(), budgets.size());
  RC_ASSERT(ends.size() == n);
  RC_ASSERT(ends.back() == static_cast<int>(layers.size()));
  for (size_t i = 0; i < n; i++) RC_ASSERT(ends[i] > (i == 0 ? 0 : ends[i - 1]));
  if (budgets.size() != 2 || layers.size() < 4) return;
  // Of two runs, the border that is nearest to the share, if it may be there.
  const auto bytes = [&](int end) { return std::accumulate(layers.begin(), layers.begin() + end, 0.0); };
  const double wanted = bytes(ends[1]) * static_cast<double>(budgets[0]) / static_cast<double>(budgets[0] + budgets[1]);
  for (int end = 1; end < ends[1]; end++) {
    RC_ASSERT(std::abs(bytes(ends[0]) - wanted) <= std::abs(bytes(end) - wanted) + 1e-6);
  }
}

EngineConfig small_config() {
  EngineConfig config;
  config.context = 64;
  config.chunk = 16;
  return config;
}

TEST(SettleChunk, GrowsOnGpusThatAllHaveRoom) {
  const auto settled = [](bool may_grow, const std::vector<uint64_t>& budgets) {
    EngineConfig config;
    config.chunk = kGpuChunk;
    config.chunk_may_grow = may_grow;
    std::vector<PlannedDevice> devices;
    for (const uint64_t budget : budgets) devices.push_back({.name = "cuda", .budget_bytes = budget});
    settle_chunk(devices, config);
    return config.chunk;
  };
  EXPECT_EQ(settled(true, {14 * kGiB}), 4096);
  EXPECT_EQ(settled(true, {14 * kGiB - 1}), 2048);
  EXPECT_EQ(settled(true, {80 * kGiB, 24 * kGiB}), 4096);
  EXPECT_EQ(settled(true, {80 * kGiB, 8 * kGiB}), 2048);
  EXPECT_EQ(settled(false, {80 * kGiB}), 2048) << "said by the user";
}

// The golden models, their parts on devices, from metadata alone.
PlacementRequest request_for(const std::string& arch, const EngineConfig& config,
                             const std::vector<PlannedDevice>& devices) {
  const auto model = gguf::Model::open(golden_path("arch/" + arch + "/model-bf16.gguf"), real_file_system()).value();
  const model::ArchInfo* info = model::find_architecture(*model).value();
  const model::HParams hp = info->read(model::Keys(*model, info->name)).value();
  return engine::placement_request(
             {.model = *model, .arch = *info, .hp = hp, .config = config, .devices = devices, .ram_bytes = 64 * kMiB})
      .value();
}

TEST(PlacementRequest, MeasuresWhatPartsNeed) {
  for (const char* arch : {"qwen3moe", "gpt-oss", "qwen3next", "qwen4exp"}) {
    const EngineConfig config = small_config();
    const PlacementRequest host = request_for(arch, config, {{.name = "cpu", .budget_bytes = kMiB, .on_host = true}});
    ASSERT_EQ(host.parts.size(), 1u);
    EXPECT_GT(host.parts[0].weights_bytes, 0u);
    EXPECT_GT(host.parts[0].state_bytes, 0u);
    EXPECT_EQ(host.parts[0].context_tokens, 64);
    EXPECT_EQ(host.parts[0].last_layer, static_cast<int>(host.layout.layers().size()));
    EXPECT_EQ(plan_placement(host.input())->source, experts::SourceKind::kArena);

    const PlacementRequest two =
        request_for(arch, config, {{.name = "a", .budget_bytes = kMiB}, {.name = "b", .budget_bytes = kMiB}});
    ASSERT_EQ(two.parts.size(), 2u);
    EXPECT_EQ(two.parts[0].last_layer, two.parts[1].first_layer);
    EXPECT_EQ(two.parts[1].last_layer, host.parts[0].last_layer);
    EXPECT_EQ(two.parts[0].state_bytes + two.parts[1].state_bytes, host.parts[0].state_bytes);
    EXPECT_GE(two.parts[0].weights_bytes + two.parts[1].weights_bytes, host.parts[0].weights_bytes);
    EXPECT_GT(two.parts[0].host_bytes, 0u);
  }
}

TEST(PlacementRequest, TakesTheOptionsOfTheConfiguration) {
  EngineConfig config = small_config();
  config.expert_cache = 3;
  config.cache_min_slots = 2;
  config.prefill_borrow = false;
  config.experts = engine::ExpertPlace::kDirect;
  config.resident_budget_bytes = 5;
  const PlacementRequest request = request_for("qwen3moe", config, {{.name = "a", .budget_bytes = kMiB}});
  EXPECT_EQ(request.options.source, experts::SourceKind::kDirect);
  EXPECT_EQ(request.options.cache_slots, 3);
  EXPECT_EQ(request.options.cache_min_slots, 2);
  EXPECT_FALSE(request.options.prefill_borrow);
  EXPECT_EQ(request.options.resident_budget_bytes, 5u);
  EXPECT_GT(request.options.stage_bytes, 0u);
  config.experts = engine::ExpertPlace::kAuto;
  EXPECT_EQ(request_for("qwen3moe", config, {{.name = "a", .budget_bytes = kMiB}}).options.source, std::nullopt);
}

}  // namespace
}  // namespace strata::test
