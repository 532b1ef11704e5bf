// The experts of a device: whatever is filled, lent and restored, and whatever fails meanwhile, the table names a slot
// only while the expert's bytes are in it.
#include <map>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "experts/cache.h"
#include "experts/counting_source.h"
#include "experts/mixed_model.h"
#include "experts/sources/arena.h"
#include "experts/test_devices.h"

namespace strata::test {
namespace {

using experts::ExpertCache;
using experts::ExpertKey;
using experts::Loan;
using experts::PartKind;
using experts::Slot;
using experts::SlotPlan;

// Two types of blobs, with scales and biases, and a layer without experts.
MixedModel mixed_model() {
  ExpertSpec a{.dim = 32, .ffn = 32, .n_experts = 3, .biases = true, .scales = true};
  ExpertSpec b = a;
  b.gate_up_type = quant::Type::Q8_0;
  return MixedModel({a, kDenseLayer, b}, numbered_parts());
}

class CacheRig {
 public:
  explicit CacheRig(Where where, int64_t min_slots = 1, int64_t max_slots = 100)
      : devices_(where), stream_(devices_.device().make_stream("test")) {
    auto plan = SlotPlan::make(model_.layout, experts::even_ranking(model_.layout),
                               {.budget_bytes = kMiB, .max_slots = max_slots});
    cache = ExpertCache::create({.device = devices_.device(), .stream = *stream_, .source = source,
                                 .layout = model_.layout, .stats = stats, .min_slots = min_slots},
                                std::move(plan).value())
                .value();
  }
  ~CacheRig() { EXPECT_EQ(devices_.races(), std::vector<std::string>()); }

  // Slots from `first_lent` on are lent; of the others each expert is in its slot, or (`filled` false) none is.
  void expect_resident(bool filled, int64_t first_lent) {
    int64_t resident = 0;
    std::map<int32_t, ExpertKey> in_slot;
    for (int32_t l = 0; l < 3; l++) {
      const int32_t n = layout().layer(l).n_experts;
      if (n == 0) continue;
      const device::View<int32_t> row = cache->slot_of(l);
      const auto device_row =
          download<int32_t>(*stream_, *row.memory, row.offset, static_cast<size_t>(n));
      for (int32_t e = 0; e < n; e++) {
        const int32_t slot = cache->slot({l, e});
        EXPECT_EQ(device_row[static_cast<size_t>(e)], slot) << "the tables differ";
        if (slot < 0) continue;
        resident++;
        EXPECT_TRUE(in_slot.emplace(slot, ExpertKey{l, e}).second) << "two experts in slot " << slot;
        EXPECT_LT(slot, first_lent);
        expect_bytes(slot, {l, e});
      }
    }
    EXPECT_EQ(resident, filled ? first_lent : 0);
    EXPECT_EQ(cache->n_resident(), resident);
    EXPECT_EQ(source.held(), 0);
  }

  // The slot holds all parts of the expert, where operations look for them.
  void expect_bytes(int32_t slot, ExpertKey key) {
    const experts::LayerLayout& layer = layout().layer(key.layer);
    const device::View<int64_t> offsets = cache->slots().offsets;
    const auto offset = download<int64_t>(*stream_, *offsets.memory, offsets.offset,
                                          static_cast<size_t>(cache->plan().n_slots()))[static_cast<size_t>(slot)];
    const auto bytes = download<uint8_t>(*stream_, *cache->slots().memory, static_cast<size_t>(offset),
                                         layer.blob_bytes());
    for (size_t i = 0; i < layer.parts.size(); i++) {
      const size_t at = layer.part_offset(static_cast<int>(i));
      const std::vector<uint8_t> part(bytes.begin() + static_cast<int64_t>(at),
                                      bytes.begin() + static_cast<int64_t>(at + layer.parts[i].bytes));
      const std::vector<uint8_t> expected(layer.parts[i].bytes, part_number(key, layer.parts[i].kind));
      EXPECT_EQ(part, expected) << "slot " << slot << ", part " << i;
    }
  }

  // What a borrower does.
  void overwrite(const Loan& loan) { stream_->fill_zero(*loan.memory, loan.offset, loan.bytes); }

  const experts::ExpertLayout& layout() const { return model_.layout; }
  device::Stream& stream() { return *stream_; }

 private:
  MixedModel model_ = mixed_model();
  TestDevice devices_;

 public:
  Stats stats;

 private:
  device::host::HostDevice& host_ = devices_.host();
  std::unique_ptr<experts::ExpertSource> arena_ =
      experts::ArenaSource::create(*model_.model, model_.layout, host_, host_.compute().pool(), stats).value();
  std::unique_ptr<device::Stream> stream_;

 public:
  UnreliableSource source{*arena_, model_.layout};
  std::unique_ptr<ExpertCache> cache;
};

class Cache : public testing::TestWithParam<Where> {};

TEST_P(Cache, FillPutsEveryExpertIntoItsSlot) {
  CacheRig rig(GetParam());
  rig.expect_resident(false, 6);
  ASSERT_TRUE(rig.cache->fill().ok());
  rig.expect_resident(true, 6);
  EXPECT_EQ(rig.stats.get(Counter::kCacheUploads), 6);
  EXPECT_EQ(rig.stats.get(Counter::kCacheUploadBytes),
            static_cast<int64_t>(3 * (rig.layout().layer(0).blob_bytes() + rig.layout().layer(2).blob_bytes())));
  EXPECT_EQ(rig.stats.get(Counter::kCacheLoans), 0);
}

TEST_P(Cache, FewerSlotsThanExperts) {
  CacheRig rig(GetParam(), 1, 4);
  ASSERT_TRUE(rig.cache->fill().ok());
  rig.expect_resident(true, 4);
  EXPECT_EQ(rig.cache->slot({0, 2}), -1);
  EXPECT_EQ(rig.cache->slot({2, 1}), 3);
}

TEST_P(Cache, LentSlotsAreNotResidentUntilTheyAreRestored) {
  CacheRig rig(GetParam());
  ASSERT_TRUE(rig.cache->fill().ok());
  const int64_t version = rig.cache->version();
  const uint64_t two = rig.cache->plan().slots()[4].bytes + rig.cache->plan().slots()[5].bytes;
  const Loan loan = rig.cache->lend(two).value();
  EXPECT_EQ(loan.n_slots, 2);
  EXPECT_EQ(loan.bytes, two);
  EXPECT_EQ(loan.offset, rig.cache->plan().slots()[4].offset);
  EXPECT_TRUE(rig.cache->lent());
  EXPECT_GT(rig.cache->version(), version);
  rig.expect_resident(true, 4);
  rig.overwrite(loan);
  ASSERT_TRUE(rig.cache->restore().ok());
  EXPECT_FALSE(rig.cache->lent());
  rig.expect_resident(true, 6);
  EXPECT_EQ(rig.stats.get(Counter::kCacheLoans), 1);
  EXPECT_EQ(rig.stats.get(Counter::kCacheLentBytes), static_cast<int64_t>(two));
  EXPECT_EQ(rig.stats.get(Counter::kCacheUploads), 8);
}

TEST_P(Cache, ALoanThatIsTooLargeChangesNothing) {
  CacheRig rig(GetParam(), 4);
  ASSERT_TRUE(rig.cache->fill().ok());
  const int64_t version = rig.cache->version();
  const uint64_t all_but_four = rig.cache->plan().lendable_bytes(4);
  expect_error(rig.cache->lend(all_but_four + 1), ErrorCode::kNoMemory, {"4 slots", "--cache-min-slots"});
  EXPECT_FALSE(rig.cache->lent());
  EXPECT_EQ(rig.cache->version(), version);
  EXPECT_EQ(rig.stats.get(Counter::kCacheLoans), 0);
  rig.expect_resident(true, 6);
  ASSERT_TRUE(rig.cache->lend(all_but_four).ok());
  rig.expect_resident(true, 4);
}

TEST_P(Cache, AFailedFillLeavesNothingResidentAndMayBeRepeated) {
  CacheRig rig(GetParam());
  rig.source.failing_fetches = 1;
  EXPECT_EQ(rig.cache->fill().error().code, ErrorCode::kIo);
  rig.expect_resident(false, 6);
  rig.source.unhealthy = true;
  EXPECT_EQ(rig.cache->fill().error().code, ErrorCode::kIo);
  rig.expect_resident(false, 6);
  rig.source.unhealthy = false;
  ASSERT_TRUE(rig.cache->fill().ok());
  rig.expect_resident(true, 6);
}

TEST_P(Cache, AFailedRestoreKeepsTheLoanAndMayBeRepeated) {
  CacheRig rig(GetParam());
  ASSERT_TRUE(rig.cache->fill().ok());
  rig.overwrite(rig.cache->lend(rig.cache->plan().lendable_bytes(3)).value());
  rig.source.failing_fetches = 1;
  EXPECT_EQ(rig.cache->restore().error().code, ErrorCode::kIo);
  EXPECT_TRUE(rig.cache->lent());
  rig.expect_resident(true, 3);
  ASSERT_TRUE(rig.cache->restore().ok());
  rig.expect_resident(true, 6);
}

TEST_P(Cache, AStreamThatHasFailedLendsNothing) {
  CacheRig rig(GetParam());
  ASSERT_TRUE(rig.cache->fill().ok());
  rig.stream().abort({ErrorCode::kCancelled, "cancelled"});
  expect_error(rig.cache->lend(1), ErrorCode::kCancelled, {"cancelled"});
  EXPECT_FALSE(rig.cache->lent());
  rig.stream().reset();
  rig.expect_resident(true, 6);
  ASSERT_TRUE(rig.cache->lend(1).ok());
  rig.expect_resident(true, 5);
}

TEST_P(Cache, TakesTheMemoryItSays) {
  TestDevice devices(GetParam());
  const MixedModel model = mixed_model();
  Stats stats;
  const auto source = make_mapped_source(*model.model, model.layout, stats).value();
  SlotPlan plan = SlotPlan::make(model.layout, experts::even_ranking(model.layout),
                                 {.budget_bytes = kMiB, .max_slots = 100}).value();
  const experts::CacheBytes bytes = ExpertCache::bytes_needed(model.layout, plan);
  const auto stream = devices.device().make_stream("test");
  const auto cache = ExpertCache::create({.device = devices.device(), .stream = *stream, .source = *source,
                                          .layout = model.layout, .stats = stats}, std::move(plan)).value();
  const bool host = GetParam() == Where::kHost;  // there both kinds count
  EXPECT_EQ(devices.device().used_bytes(), bytes.device + (host ? bytes.host : 0));
}

INSTANTIATE_TEST_SUITE_P(Devices, Cache, testing::Values(Where::kHost, Where::kSim),
                         [](const auto& tested) { return where_name(tested.param); });

// Any order of loans, returns and failures.
RC_GTEST_PROP(CacheProperty, TableAndSlotsAgreeWhateverHappens, ()) {
  CacheRig rig(Where::kHost, *rc::gen::inRange<int64_t>(0, 4));
  int64_t first_lent = 6;
  bool filled = false;
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 5));
  for (const int step : steps) {
    rig.source.failing_fetches = 0;
    if (step == 4) rig.source.failing_fetches = 1;
    if (!filled) {
      filled = rig.cache->fill().ok();
      RC_ASSERT(filled == (step != 4));
    } else if (rig.cache->lent()) {
      rig.overwrite({rig.cache->slots().memory,
                     static_cast<size_t>(rig.cache->plan().slots()[static_cast<size_t>(first_lent)].offset), 64, 1});
      if (rig.cache->restore().ok()) first_lent = 6;
      RC_ASSERT(rig.cache->lent() == (step == 4));
    } else {
      const auto bytes = *rc::gen::inRange<uint64_t>(1, rig.cache->plan().bytes() + 1000);
      const auto loan = rig.cache->lend(bytes);
      if (loan.ok()) first_lent = 6 - loan->n_slots;
      RC_ASSERT(loan.ok() == rig.cache->lent());
    }
    rig.expect_resident(filled, first_lent);
    RC_ASSERT(!testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace strata::test
