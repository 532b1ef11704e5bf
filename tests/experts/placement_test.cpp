// What lies where: which source is chosen for which machine, and that budgets hold whatever the machine and the model.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/format.h"
#include "experts/counting_source.h"
#include "experts/lend_region.h"
#include "experts/mixed_model.h"
#include "experts/placement.h"
#include "experts/test_devices.h"

namespace strata::test {
namespace {

using experts::ExpertKey;
using experts::ExpertLayout;
using experts::PartNeeds;
using experts::PartPlacement;
using experts::PlacementInput;
using experts::PlacementOptions;
using experts::PlacementPlan;
using experts::Slot;
using experts::SourceKind;
using experts::Tier;

constexpr uint64_t kNeeds = 1000;  // of weights, and half as much of state, and of step buffers

// Two layers of eight experts of 6 KiB.
const ExpertLayout& small_layout() {
  static const ExpertModel model({.n_layers = 2, .dim = 16, .ffn = 32, .n_experts = 8}, numbered_parts());
  return model.layout;
}
const uint64_t kBlob = 6 * kKiB;

PartNeeds host_part() {
  return {.device = "cpu", .first_layer = 0, .last_layer = 2, .on_host = true, .weights_bytes = kNeeds,
          .state_bytes = kNeeds / 2, .step_bytes = kNeeds / 2};
}
PartNeeds device_part(uint64_t budget, int first = 0, int last = 2) {
  return {.device = format("sim:{}", first), .first_layer = first, .last_layer = last, .budget_bytes = budget,
          .weights_bytes = kNeeds, .state_bytes = kNeeds / 2, .step_bytes = kNeeds / 2, .host_bytes = 100};
}

// A machine and what it is asked for, with all that the input refers to.
struct Machine {
  const ExpertLayout& layout = small_layout();
  std::vector<PartNeeds> parts = {host_part()};
  uint64_t ram_bytes = 0;
  PlacementOptions options = {};
  std::vector<ExpertKey> ranking = experts::even_ranking(layout);

  PlacementInput input() const { return {layout, parts, ram_bytes, ranking, options, "moe.gguf"}; }
  Result<PlacementPlan> plan() const { return plan_placement(input()); }
};

int64_t count(const PlacementPlan& plan, Tier tier) {
  int64_t n = 0;
  for (const auto& layer : plan.tiers) n += std::count(layer.begin(), layer.end(), tier);
  return n;
}

// RAM for the parts' needs and so many bytes.
Machine cpu_with(uint64_t bytes, PlacementOptions options = {}) {
  Machine machine;
  machine.ram_bytes = 2 * kNeeds + bytes;
  machine.options = options;
  return machine;
}

TEST(Placement, EverythingInRamWhereItFits) {
  const PlacementPlan plan = cpu_with(16 * kBlob).plan().value();
  EXPECT_EQ(plan.source, SourceKind::kArena);
  EXPECT_EQ(plan.experts_bytes, 16 * kBlob);
  EXPECT_EQ(plan.needs_bytes, 2 * kNeeds);
  EXPECT_EQ(plan.ram_bytes(), 2 * kNeeds + 16 * kBlob);
  EXPECT_EQ(count(plan, Tier::kRam), 16);
  EXPECT_NE(cpu_with(16 * kBlob - 1).plan()->source, SourceKind::kArena);
}

TEST(Placement, ElseTheHottestThatFitOverTheFiles) {
  Machine machine = cpu_with(16 * kBlob - 1);
  std::swap(machine.ranking.front(), machine.ranking.back());
  const PlacementPlan plan = machine.plan().value();
  EXPECT_EQ(plan.source, SourceKind::kResident);
  EXPECT_EQ(plan.below, SourceKind::kMapped);
  EXPECT_EQ(plan.resident.blobs().size(), 15u);
  EXPECT_EQ(count(plan, Tier::kFile), 1);
  EXPECT_EQ(plan.tier({0, 0}), Tier::kFile);  // the last of the ranking now
}

TEST(Placement, DirectReadsHaveTheirBuffersFirst) {
  const PlacementOptions direct{.direct_reads = true, .stage_bytes = 3 * kBlob};
  const PlacementPlan plan = cpu_with(8 * kBlob, direct).plan().value();
  EXPECT_EQ(plan.source, SourceKind::kResident);
  EXPECT_EQ(plan.below, SourceKind::kDirect);
  EXPECT_EQ(plan.resident.blobs().size(), 5u);
  EXPECT_EQ(plan.ram_bytes(), 2 * kNeeds + 8 * kBlob);

  const PlacementPlan nothing_kept = cpu_with(4 * kBlob - 1, direct).plan().value();
  EXPECT_EQ(nothing_kept.source, SourceKind::kDirect);
  EXPECT_EQ(count(nothing_kept, Tier::kFile), 16);

  const PlacementPlan mapped = cpu_with(3 * kBlob - 1, direct).plan().value();
  EXPECT_EQ(mapped.source, SourceKind::kResident);
  EXPECT_EQ(mapped.below, SourceKind::kMapped);
  EXPECT_EQ(mapped.stage_bytes, 0u);
  EXPECT_EQ(mapped.resident.blobs().size(), 2u);

  EXPECT_EQ(cpu_with(kBlob - 1, direct).plan()->source, SourceKind::kMapped);
  EXPECT_EQ(cpu_with(0, direct).plan()->source, SourceKind::kMapped);
}

TEST(Placement, AResidentBudgetIsALimit) {
  PlacementOptions options{.resident_budget_bytes = 3 * kBlob + 5};
  const PlacementPlan chosen = cpu_with(100 * kBlob, options).plan().value();
  EXPECT_EQ(chosen.source, SourceKind::kResident);
  EXPECT_EQ(chosen.resident.blobs().size(), 3u);
  options.resident_budget_bytes = 16 * kBlob;
  EXPECT_EQ(cpu_with(100 * kBlob, options).plan()->source, SourceKind::kArena);
  options.resident_budget_bytes = 0;
  EXPECT_EQ(cpu_with(100 * kBlob, options).plan()->source, SourceKind::kMapped);
}

TEST(Placement, WhatIsAskedForIsDone) {
  const auto with = [](SourceKind kind, uint64_t bytes, std::optional<uint64_t> budget = std::nullopt) {
    return cpu_with(bytes, {.source = kind, .resident_budget_bytes = budget, .direct_reads = true,
                            .stage_bytes = 2 * kBlob})
        .plan();
  };
  EXPECT_EQ(with(SourceKind::kArena, 16 * kBlob)->source, SourceKind::kArena);
  EXPECT_EQ(with(SourceKind::kMapped, 16 * kBlob)->source, SourceKind::kMapped);
  EXPECT_EQ(count(*with(SourceKind::kMapped, 16 * kBlob), Tier::kFile), 16);
  EXPECT_EQ(with(SourceKind::kDirect, 16 * kBlob)->source, SourceKind::kDirect);
  EXPECT_EQ(with(SourceKind::kDirect, 16 * kBlob)->ram_bytes(), 2 * kNeeds + 2 * kBlob);

  const PlacementPlan whole = with(SourceKind::kResident, 16 * kBlob).value();
  EXPECT_EQ(whole.source, SourceKind::kResident);
  EXPECT_EQ(whole.below, SourceKind::kMapped);  // nothing is read once it runs
  EXPECT_EQ(whole.stage_bytes, 0u);
  const PlacementPlan part = with(SourceKind::kResident, 15 * kBlob).value();
  EXPECT_EQ(part.below, SourceKind::kDirect);
  EXPECT_EQ(part.resident.blobs().size(), 13u);

  // Direct reads with a budget: the hottest stay in RAM.
  const PlacementPlan direct = with(SourceKind::kDirect, 16 * kBlob, 4 * kBlob).value();
  EXPECT_EQ(direct.source, SourceKind::kResident);
  EXPECT_EQ(direct.below, SourceKind::kDirect);
  EXPECT_EQ(direct.resident.blobs().size(), 4u);
  const PlacementPlan all = with(SourceKind::kDirect, 18 * kBlob, 16 * kBlob).value();
  EXPECT_EQ(all.below, SourceKind::kDirect);
  EXPECT_EQ(all.stage_bytes, 2 * kBlob);
  EXPECT_EQ(with(SourceKind::kMapped, 16 * kBlob, 4 * kBlob)->below, SourceKind::kMapped);
}

TEST(Placement, WhatDoesNotFitIsSaidWithBothSizes) {
  const auto with = [](SourceKind kind, uint64_t bytes, std::optional<uint64_t> budget = std::nullopt) {
    return cpu_with(bytes, {.source = kind, .resident_budget_bytes = budget, .stage_bytes = 2 * kBlob}).plan();
  };
  expect_error(with(SourceKind::kArena, 16 * kBlob - 1), ErrorCode::kNoMemory,
               {"moe.gguf", "experts of 96 KiB", "--ram-gib", "--experts resident"});
  expect_error(with(SourceKind::kDirect, 2 * kBlob - 1), ErrorCode::kNoMemory,
               {"moe.gguf", "direct reads of 12 KiB", "--experts mapped"});
  expect_error(with(SourceKind::kDirect, 2 * kBlob - 1, kBlob), ErrorCode::kNoMemory, {"direct reads"});

  Machine machine = cpu_with(0);
  machine.ram_bytes--;
  expect_error(machine.plan(), ErrorCode::kNoMemory,
               {"moe.gguf", "weights 1000 B", "of RAM that may be used", "--ram-gib"});
  machine.parts = {device_part(2 * kNeeds - 1)};
  machine.ram_bytes = kMiB;
  expect_error(machine.plan(), ErrorCode::kNoMemory, {"moe.gguf", "weights 1000 B", "sim:0", "--ctx"});
  machine.parts = {device_part(2 * kNeeds)};
  machine.ram_bytes = 99;
  expect_error(machine.plan(), ErrorCode::kNoMemory, {"moe.gguf", "100 B", "99 B", "--ram-gib"});
  machine.ram_bytes = kMiB;
  machine.options.cache_slots = 3;
  expect_error(machine.plan(), ErrorCode::kNoMemory, {"--expert-cache 3", "sim:0", "0 slots"});
}

TEST(Placement, ARankingThatCannotBeIsRefused) {
  Machine machine = cpu_with(4 * kBlob);
  machine.ranking.push_back({0, 3});
  expect_error(machine.plan(), ErrorCode::kBadInput, {"expert 3 of layer 0", "twice"});
}

// Room for so many slots beside needs and tables.
uint64_t budget_for(int64_t slots) {
  return 2 * kNeeds + experts::ExpertCache::overhead(small_layout()).device + static_cast<uint64_t>(slots) * kBlob;
}

TEST(Placement, TheCacheTakesTheRestOfADeviceAndPromptsBorrowFromIt) {
  Machine machine;
  machine.parts = {device_part(budget_for(6))};
  machine.ram_bytes = kMiB;
  machine.options.cache_min_slots = 1;
  const PlacementPlan plan = machine.plan().value();
  const PartPlacement& part = plan.parts[0];
  EXPECT_EQ(part.slots.n_slots(), 6);
  EXPECT_EQ(count(plan, Tier::kDevice), 6);
  EXPECT_TRUE(part.borrowed);
  EXPECT_GT(part.lent_slots, 0);
  EXPECT_LE(part.lent_slots, 5);
  EXPECT_EQ(part.lent_slots, part.slots.slots_to_lend(part.ring.bytes(), 1));
  EXPECT_EQ(plan.source, SourceKind::kArena);
  EXPECT_EQ(part.lent_in_ram, part.lent_slots);

  machine.options.cache_min_slots = 128;  // nothing can be lent
  EXPECT_TRUE(machine.plan()->parts[0].ring.empty());
  EXPECT_EQ(machine.plan()->parts[0].lent_slots, 0);

  machine.options = {.cache_min_slots = 1, .prefill_borrow = false};
  const PlacementPlan own = machine.plan().value();
  EXPECT_FALSE(own.parts[0].borrowed);
  EXPECT_FALSE(own.parts[0].ring.empty());
  EXPECT_LT(own.parts[0].slots.n_slots(), 6);
  EXPECT_EQ(own.parts[0].lent_slots, 0);
  machine.options.cache_slots = 6;  // come before a ring
  EXPECT_EQ(machine.plan()->parts[0].slots.n_slots(), 6);
  EXPECT_TRUE(machine.plan()->parts[0].ring.empty());

  // A device that can pay for the ring beside the slots that were asked for lends nothing, and has no region.
  machine.options = {.source = SourceKind::kResident, .cache_slots = 6, .cache_min_slots = 1};
  machine.parts = {device_part(budget_for(6 + experts::RingPlan::make(small_layout(), UINT64_MAX).n_places()))};
  const PlacementPlan paid = machine.plan().value();
  EXPECT_FALSE(paid.parts[0].ring.empty());
  EXPECT_FALSE(paid.parts[0].borrowed);
  EXPECT_EQ(paid.parts[0].lent_slots, 0);
  EXPECT_EQ(paid.resident.blobs().size(), 10u);
  machine.parts[0].budget_bytes--;
  EXPECT_TRUE(machine.plan()->parts[0].borrowed);
}

TEST(Placement, ADeviceThatHasAllExpertsNeedsNoRing) {
  Machine machine;
  machine.parts = {device_part(budget_for(16))};
  machine.ram_bytes = 100 + experts::ExpertCache::overhead(small_layout()).host;
  machine.options.cache_min_slots = 1;
  const PlacementPlan plan = machine.plan().value();
  EXPECT_EQ(count(plan, Tier::kDevice), 16);
  EXPECT_TRUE(plan.parts[0].ring.empty());
  EXPECT_EQ(plan.source, SourceKind::kMapped);  // read at the start
}

TEST(Placement, TheCopyKeepsWhatCachesLackAndLend) {
  Machine machine;
  machine.parts = {device_part(budget_for(6), 0, 1), device_part(budget_for(6), 1, 2)};
  machine.options = {.source = SourceKind::kResident, .cache_min_slots = 1};
  machine.ram_bytes = kMiB;
  const PlacementPlan plan = machine.plan().value();
  const int64_t lent = plan.parts[0].lent_slots;
  ASSERT_GT(lent, 1);
  EXPECT_EQ(count(plan, Tier::kDevice), 12);
  EXPECT_EQ(plan.resident.blobs().size(), static_cast<size_t>(4 + 2 * lent));
  EXPECT_EQ(plan.parts[1].lent_in_ram, lent);
  EXPECT_EQ(plan.below, SourceKind::kMapped);
  for (const PartPlacement& part : plan.parts) {
    for (int64_t i = 0; i < part.slots.n_slots(); i++) {
      EXPECT_EQ(plan.resident.has(part.slots.slots()[static_cast<size_t>(i)].key), i >= part.slots.n_slots() - lent);
    }
  }
  // Without regions what is lent is read from the files, and the plan says so.
  machine.options.lend_regions = false;
  const PlacementPlan without = machine.plan().value();
  EXPECT_EQ(without.resident.blobs().size(), 4u);
  EXPECT_EQ(without.parts[0].lent_slots, lent);
  EXPECT_EQ(without.parts[0].lent_in_ram + without.parts[1].lent_in_ram, 0);
  EXPECT_NE(without.warning.find("100 % of them are read from the files"), std::string::npos) << without.warning;
  machine.options.lend_regions = true;
  // A budget that cuts the second region by one.
  machine.ram_bytes = plan.ram_bytes() - 1;
  const PlacementPlan cut = machine.plan().value();
  EXPECT_EQ(cut.parts[0].lent_in_ram, lent);
  EXPECT_EQ(cut.parts[1].lent_in_ram, lent - 1);
  EXPECT_EQ(cut.resident.blobs().size(), plan.resident.blobs().size() - 1);
  EXPECT_EQ(count(cut, Tier::kFile), 0);
  // That one is read while a prompt has its slot.
  machine.options.direct_reads = true;
  machine.options.stage_bytes = 1;
  EXPECT_EQ(machine.plan()->below, SourceKind::kDirect);
  machine.ram_bytes = plan.ram_bytes();
  EXPECT_EQ(machine.plan()->below, SourceKind::kMapped);
}

// What devices copy out of, if they have memory of their own; an arena if prompts stream out of it.
TEST(Placement, CountsWhatIsPageLocked) {
  EXPECT_EQ(cpu_with(16 * kBlob).plan()->pinned_bytes, 0u);
  EXPECT_EQ(cpu_with(8 * kBlob, {.direct_reads = true, .stage_bytes = kBlob}).plan()->pinned_bytes, 0u);
  Machine machine;
  machine.parts = {device_part(budget_for(6))};
  machine.ram_bytes = kGiB;
  machine.options = {.cache_min_slots = 1};
  const PlacementPlan arena = machine.plan().value();
  EXPECT_EQ(arena.source, SourceKind::kArena);
  EXPECT_FALSE(arena.parts[0].ring.empty());
  EXPECT_EQ(arena.pinned_bytes, 100 + arena.parts[0].cache.host + 16 * kBlob);
  EXPECT_EQ(arena.pinned_bytes, arena.ram_bytes());
  machine.options.source = SourceKind::kResident;
  const PlacementPlan copy = machine.plan().value();
  EXPECT_EQ(copy.pinned_bytes, 100 + copy.parts[0].cache.host + copy.resident.bytes());
  machine.options = {.source = SourceKind::kDirect, .stage_bytes = 2 * kBlob};
  EXPECT_EQ(machine.plan()->pinned_bytes, 100 + copy.parts[0].cache.host + 2 * kBlob);
  machine.options = {};
  machine.parts = {device_part(budget_for(16))};
  const PlacementPlan all_cached = machine.plan().value();
  EXPECT_EQ(all_cached.source, SourceKind::kArena);
  EXPECT_EQ(all_cached.pinned_bytes, 100 + all_cached.parts[0].cache.host);
}

TEST(Placement, IsPrinted) {
  Machine machine;
  machine.parts = {device_part(budget_for(6))};
  machine.ram_bytes = 100 + experts::ExpertCache::overhead(small_layout()).host + 4 * kBlob;
  machine.options = {.cache_min_slots = 1, .direct_reads = true, .stage_bytes = kBlob};
  const std::string text = placement_text(machine.input(), machine.plan().value());
  for (const char* row : {"| sim:0 | weights | 1000 B |", "| sim:0 | expert cache |", "| sim:0 | lent to prompts |",
                          "| RAM | resident copy | 18 KiB | 3 |", "| RAM | buffers of direct reads | 6 KiB |",
                          "| RAM | of these page-locked |",
                          "| files | direct reads | 42 KiB | 7 |", "96 KiB of experts do not fit",
                          "lends 4 slots to the prompt path: 0 keep their experts in RAM too; while one runs, 100 %"}) {
    EXPECT_THAT(text, testing::HasSubstr(row));
  }
  EXPECT_THAT(placement_text(machine.input(), machine.plan().value()), testing::Eq(text));
}

// Models of random shapes; as many as make all the difference, since each is a file.
const ExpertLayout& random_layout() {
  static const std::vector<std::unique_ptr<MixedModel>> models = [] {
    std::vector<std::unique_ptr<MixedModel>> all;
    for (const int64_t n : {1, 3, 8}) {
      ExpertSpec plain{.dim = 16, .ffn = 16, .n_experts = n};
      ExpertSpec mixed = plain, biased = plain;
      mixed.down_type = quant::Type::F16;
      biased.biases = true;
      all.push_back(std::make_unique<MixedModel>(std::vector<ExpertSpec>{plain, plain, plain}, numbered_parts()));
      all.push_back(std::make_unique<MixedModel>(std::vector<ExpertSpec>{plain, mixed, kDenseLayer, biased, mixed},
                                                 numbered_parts()));
      all.push_back(std::make_unique<MixedModel>(std::vector<ExpertSpec>{biased}, numbered_parts()));
    }
    return all;
  }();
  return models[*rc::gen::inRange<size_t>(0, models.size())]->layout;
}

uint64_t up_to(uint64_t limit) { return *rc::gen::inRange<uint64_t>(0, limit + 1); }

Machine random_machine() {
  const ExpertLayout& layout = random_layout();
  Machine machine{.layout = layout};
  const auto n_layers = static_cast<int>(layout.layers().size());
  machine.parts.clear();
  const uint64_t total = layout.total_bytes();
  const bool on_host = *rc::gen::inRange(0, 3) == 0;
  for (int first = 0; first < n_layers;) {
    const int last = on_host ? n_layers : first + *rc::gen::inRange(1, n_layers - first + 1);
    machine.parts.push_back({.device = "d", .first_layer = first, .last_layer = last, .on_host = on_host,
                             .budget_bytes = on_host ? 0 : 2000 + up_to(total + total / 2),
                             .weights_bytes = up_to(1000), .state_bytes = up_to(500), .step_bytes = up_to(600),
                             .host_bytes = on_host ? 0 : up_to(500)});
    first = last;
  }
  const uint64_t tables = machine.parts.size() * experts::ExpertCache::overhead(layout).host;
  machine.ram_bytes = *rc::gen::inRange(0, 2) == 0 ? up_to(total * 2) : 4000 + tables + up_to(total + total / 2);
  constexpr std::optional<SourceKind> kKinds[] = {std::nullopt, SourceKind::kArena, SourceKind::kResident,
                                                  SourceKind::kMapped, SourceKind::kDirect};
  machine.options.source = kKinds[*rc::gen::inRange<size_t>(0, 5)];
  if (*rc::gen::inRange(0, 3) == 0) machine.options.cache_slots = static_cast<int64_t>(up_to(6));
  machine.options.cache_min_slots = static_cast<int64_t>(up_to(4));
  machine.options.prefill_borrow = *rc::gen::inRange(0, 2) == 0;
  if (*rc::gen::inRange(0, 3) == 0) machine.options.resident_budget_bytes = up_to(total);
  machine.options.direct_reads = *rc::gen::inRange(0, 2) == 0;
  machine.options.stage_bytes = up_to(total / 4);
  std::vector<ExpertKey> left = machine.ranking = experts::even_ranking(layout);
  for (ExpertKey& key : machine.ranking) {
    const auto at = *rc::gen::inRange<size_t>(0, left.size());
    key = left[at];
    left.erase(left.begin() + static_cast<int64_t>(at));
  }
  return machine;
}

// Slots, ring and tables of a device within its budget; what is lent within the slots.
void check_device(const Machine& machine, const PartNeeds& needs, const PartPlacement& part) {
  const auto& slots = part.slots.slots();
  uint64_t used = needs.device_bytes();
  if (!slots.empty()) used += experts::ExpertCache::bytes_needed(machine.layout, part.slots).device;
  if (!part.borrowed) used += part.ring.bytes();
  RC_ASSERT(used <= (needs.on_host ? machine.ram_bytes : needs.budget_bytes));
  RC_ASSERT(part.cache.device >= part.slots.bytes());
  if (machine.options.cache_slots) RC_ASSERT(part.slots.n_slots() <= *machine.options.cache_slots);
  RC_ASSERT(part.lent_in_ram <= part.lent_slots);
  RC_ASSERT(part.borrowed == (part.lent_slots > 0));
  if (!part.borrowed) return;
  RC_ASSERT(part.slots.n_slots() - part.lent_slots >= machine.options.cache_min_slots);
  const uint64_t lent = part.slots.bytes() - slots[slots.size() - static_cast<size_t>(part.lent_slots)].offset;
  RC_ASSERT(part.ring.bytes() <= lent);
}

// Each expert is in the cache of the part that has its layer, in RAM, or in the files.
void check_places(const Machine& machine, const PlacementPlan& plan) {
  std::set<ExpertKey> cached;
  for (size_t i = 0; i < plan.parts.size(); i++) {
    for (const Slot& slot : plan.parts[i].slots.slots()) {
      RC_ASSERT(slot.key.layer >= machine.parts[i].first_layer);
      RC_ASSERT(slot.key.layer < machine.parts[i].last_layer);
      RC_ASSERT(cached.insert(slot.key).second);
    }
  }
  for (const ExpertKey& key : machine.ranking) {
    const bool copied = plan.source == SourceKind::kArena ||
                        (plan.source == SourceKind::kResident && plan.resident.has(key));
    const Tier tier = cached.count(key) > 0 ? Tier::kDevice : copied ? Tier::kRam : Tier::kFile;
    RC_ASSERT(plan.tier(key) == tier);
  }
}

void check_ram(const Machine& machine, const PlacementPlan& plan) {
  uint64_t used = 0;
  for (size_t i = 0; i < plan.parts.size(); i++) {
    used += machine.parts[i].host_bytes + plan.parts[i].cache.host;
    if (machine.parts[i].on_host) used += machine.parts[i].device_bytes() + plan.parts[i].cache.device;
  }
  used += plan.source == SourceKind::kArena ? machine.layout.total_bytes() : plan.resident.bytes();
  const bool direct = plan.source == SourceKind::kDirect ||
                      (plan.source == SourceKind::kResident && plan.below == SourceKind::kDirect);
  if (direct) used += machine.options.stage_bytes;
  RC_ASSERT(used == plan.ram_bytes());
  RC_ASSERT(used <= machine.ram_bytes);
  const uint64_t limit = machine.options.resident_budget_bytes.value_or(UINT64_MAX);
  RC_ASSERT(plan.resident.bytes() <= limit);
}

RC_GTEST_PROP(Placement, BudgetsHoldAndEveryExpertIsSomewhere, ()) {
  const Machine machine = random_machine();
  const Result<PlacementPlan> plan = machine.plan();
  RC_CLASSIFY(plan.ok());
  if (!plan.ok()) {
    RC_ASSERT(plan.error().code == ErrorCode::kNoMemory);
    return;
  }
  RC_CLASSIFY(plan->source == SourceKind::kResident, "resident");
  for (size_t i = 0; i < plan->parts.size(); i++) check_device(machine, machine.parts[i], plan->parts[i]);
  check_places(machine, *plan);
  check_ram(machine, *plan);
  RC_ASSERT(placement_text(machine.input(), *plan) == placement_text(machine.input(), *machine.plan()));
}

// One arithmetic sizes both: what a cache lends for the ring of a plan is the region that the plan has counted, and
// those of its experts that the plan says are in RAM too are in the copy.
RC_GTEST_PROP(Placement, ALoanTakesTheRegionOfThePlan, ()) {
  Machine machine = random_machine();
  machine.options.prefill_borrow = true;
  const Result<PlacementPlan> plan = machine.plan();
  if (!plan.ok()) return;
  TestDevice host(Where::kHost);
  const auto stream = host.device().make_stream("test");
  CountingSource source;
  Stats stats;
  for (const PartPlacement& part : plan->parts) {
    if (!part.borrowed) continue;
    const experts::CacheSpec spec{
        .device = host.device(),
        .stream = *stream,
        .source = source,
        .layout = machine.layout,
        .stats = stats,
        .min_slots = experts::slots_kept(part.slots.n_slots(), {.min_slots = machine.options.cache_min_slots})};
    const auto cache = experts::ExpertCache::create(spec, part.slots).value();
    const Result<experts::Loan> loan = cache->lend(part.ring.bytes());
    RC_ASSERT(loan.ok());
    RC_ASSERT(loan->n_slots == part.lent_slots);
    RC_CLASSIFY(part.lent_in_ram < part.lent_slots, "cut");
    if (plan->source != SourceKind::kResident) continue;
    for (int64_t i = 0; i < part.lent_in_ram; i++) {
      RC_ASSERT(plan->resident.has(part.slots.slots()[static_cast<size_t>(part.slots.n_slots() - 1 - i)].key));
    }
  }
}

RC_GTEST_PROP(Placement, WhatFitsGoesOnToFitWithMoreRam, ()) {
  Machine machine = random_machine();
  const bool fits = machine.plan().ok();
  machine.ram_bytes += up_to(machine.layout.total_bytes());
  if (fits) RC_ASSERT(machine.plan().ok());
}

}  // namespace
}  // namespace strata::test
