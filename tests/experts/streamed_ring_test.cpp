// The ring that experts stream through: as large as is useful, never larger than allowed, and none rather than one
// bank.
#include "experts/streamed_ring.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/bytes.h"
#include "experts/mixed_model.h"

namespace strata::test {
namespace {

using experts::RingPlan;

// Blobs of 24,576 bytes, a multiple of the alignment of places.
ExpertModel model_of(int64_t n_experts) {
  return ExpertModel({.n_layers = 2, .dim = 32, .ffn = 64, .n_experts = n_experts}, numbered_parts());
}
constexpr uint64_t kBlob = 3 * 32 * 64 * 4;

TEST(StreamedRing, FourBanksOfAQuarterOfALayer) {
  const ExpertModel eight = model_of(8);
  EXPECT_EQ(RingPlan::make(eight.layout, UINT64_MAX), (RingPlan{4, 2, kBlob}));
  EXPECT_EQ(RingPlan::make(eight.layout, 8 * kBlob), (RingPlan{4, 2, kBlob}));
  const ExpertModel nine = model_of(9);
  EXPECT_EQ(RingPlan::make(nine.layout, UINT64_MAX), (RingPlan{4, 3, kBlob}));
  const ExpertModel one = model_of(1);
  EXPECT_EQ(RingPlan::make(one.layout, UINT64_MAX), (RingPlan{4, 1, kBlob}));
}

TEST(StreamedRing, BanksShrinkAndThenBecomeFewer) {
  const ExpertModel model = model_of(8);
  EXPECT_EQ(RingPlan::make(model.layout, 8 * kBlob - 1), (RingPlan{4, 1, kBlob}));
  EXPECT_EQ(RingPlan::make(model.layout, 4 * kBlob - 1), (RingPlan{3, 1, kBlob}));
  EXPECT_EQ(RingPlan::make(model.layout, 2 * kBlob), (RingPlan{2, 1, kBlob}));
  EXPECT_TRUE(RingPlan::make(model.layout, 2 * kBlob - 1).empty());
  EXPECT_TRUE(RingPlan::make(model.layout, 0).empty());
  EXPECT_EQ(RingPlan().bytes(), 0u);
}

// Five experts of 34 MiB: a quarter of them, two, would be more than it takes to fill a link.
TEST(StreamedRing, BanksOfLargeExpertsAreBoundedInBytes) {
  const ExpertModel model({.dim = 1024, .ffn = 2912, .n_experts = 5}, [](auto, auto, auto&) {});
  const RingPlan ring = RingPlan::make(model.layout, UINT64_MAX);
  EXPECT_EQ(ring, (RingPlan{4, 1, 3 * 1024 * 2912 * 4}));
  EXPECT_LT(ring.place_bytes, RingPlan::kBankBytes);
  EXPECT_GT(2 * ring.place_bytes, RingPlan::kBankBytes);
}

TEST(StreamedRing, PlacesTakeTheLargestBlobAndLieSideBySide) {
  const MixedModel model({{.dim = 32, .ffn = 32, .n_experts = 3},
                          kDenseLayer,
                          {.dim = 32, .ffn = 32, .n_experts = 3, .gate_up_type = quant::Type::Q8_0, .biases = true}},
                         numbered_parts());
  const RingPlan ring = RingPlan::make(model.layout, UINT64_MAX);
  EXPECT_EQ(ring.place_bytes, align_up(model.layout.largest_blob_bytes(), experts::kSlotAlignment));
  EXPECT_EQ(ring.offset(0, 0), 0u);
  EXPECT_EQ(ring.offset(1, 0), static_cast<uint64_t>(ring.bank_places) * ring.place_bytes);
  EXPECT_EQ(ring.offset(ring.n_banks - 1, ring.bank_places - 1) + ring.place_bytes, ring.bytes());
}

TEST(StreamedRing, AutoStreamsFromFourRowsAnExpert) {
  EXPECT_EQ(experts::auto_stream_rows(8, 2), 48);
  EXPECT_EQ(experts::auto_stream_rows(128, 8), 192);
  EXPECT_EQ(experts::auto_stream_rows(512, 10), 615);
  EXPECT_EQ(experts::auto_stream_rows(1, 1), 12);
}

RC_GTEST_PROP(StreamedRingProperty, KeepsItsBudgetAndGrowsWithIt, ()) {
  static const ExpertModel model = model_of(13);
  const auto budget = *rc::gen::inRange<uint64_t>(0, 40 * kBlob);
  const RingPlan ring = RingPlan::make(model.layout, budget);
  RC_ASSERT(ring.bytes() <= budget);
  RC_ASSERT(ring.empty() == (budget < 2 * kBlob));
  RC_ASSERT(ring.empty() || ring.n_banks >= 2);
  RC_ASSERT(RingPlan::make(model.layout, budget + kBlob).bytes() >= ring.bytes());
}

}  // namespace
}  // namespace strata::test
