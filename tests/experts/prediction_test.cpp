// Predicted tokens a second of placements that are worked out by hand.
#include <gtest/gtest.h>

#include "experts/prediction.h"
#include "experts/support.h"

namespace strata::test {
namespace {

using experts::kDriveShare;
using experts::Bound;
using experts::DecodePrediction;
using experts::kProductShare;
using experts::MachineRates;
using experts::PartNeeds;
using experts::PlacementInput;
using experts::PlacementOptions;
using experts::SourceKind;
using experts::TokenNeeds;

constexpr double kBlob = 6 * 1024;  // of two layers of eight

struct Case {
  ExpertModel model{{.n_layers = 2, .dim = 16, .ffn = 32, .n_experts = 8}, numbered_parts()};
  std::vector<experts::ExpertKey> ranking = experts::even_ranking(model.layout);
  std::vector<PartNeeds> parts = {{.device = "cpu", .last_layer = 2, .on_host = true}};
  PlacementOptions options;
  uint64_t ram_bytes = 16 * 6 * kKiB;
  TokenNeeds needs{.dense_bytes = {10000}, .n_used = 2, .shares = {}};
  MachineRates rates{.ram = 1e6, .drive = 1e5, .devices = {4e6}};

  DecodePrediction predict() const {
    const PlacementInput input{model.layout, parts, ram_bytes, ranking, options, "moe.gguf"};
    return predict_decode(input, plan_placement(input).value(), needs, rates);
  }
};

TEST(Prediction, OnTheCpuAllIsReadFromRam) {
  const DecodePrediction out = Case().predict();
  EXPECT_EQ(out.bound, Bound::kRam);
  EXPECT_DOUBLE_EQ(out.ram_bytes, 10000 + 4 * kBlob);
  EXPECT_DOUBLE_EQ(out.file_bytes, 0);
  EXPECT_NEAR(out.tokens_per_s, 1e6 * kProductShare / (10000 + 4 * kBlob), 1e-9);
}

TEST(Prediction, TheDriveReadsBesideTheComputing) {
  Case c;
  c.options = {.source = SourceKind::kDirect, .resident_budget_bytes = 8 * 6 * kKiB};
  DecodePrediction out = c.predict();  // half of the experts in RAM
  EXPECT_DOUBLE_EQ(out.file_bytes, 2 * kBlob);
  EXPECT_DOUBLE_EQ(out.ram_bytes, 10000 + 4 * kBlob);
  EXPECT_EQ(out.bound, Bound::kDrive);
  EXPECT_NEAR(out.tokens_per_s, kDriveShare * 1e5 / (2 * kBlob), 1e-9);
  c.rates.drive = 1e9;
  EXPECT_EQ(c.predict().bound, Bound::kRam);
}

TEST(Prediction, SharesSayWhatIsHot) {
  Case c;
  c.options = {.source = SourceKind::kDirect, .resident_budget_bytes = 2 * 6 * kKiB};  // expert 0 of both layers
  std::vector<double> shares(8, 0.05);
  shares[0] = 0.65;
  c.needs.shares = {shares, shares};
  EXPECT_NEAR(c.predict().file_bytes, 0.35 * 4 * kBlob, 1e-6);
}

TEST(Prediction, MappedFilesAreThereAsFarAsRamHasRoom) {
  Case c;
  c.options.source = SourceKind::kMapped;
  c.ram_bytes = 4 * 6 * kKiB;  // a quarter of the experts
  EXPECT_NEAR(c.predict().file_bytes, 0.75 * 4 * kBlob, 1e-6);
  c.ram_bytes = kMiB;
  EXPECT_DOUBLE_EQ(c.predict().file_bytes, 0);
}

TEST(Prediction, ADeviceComputesItsExpertsBesideTheCpu) {
  Case c;
  c.parts = {{.device = "sim:0", .last_layer = 2, .budget_bytes = kMiB}};
  c.options = {.cache_slots = 8};  // half of the experts
  c.ram_bytes = kMiB;
  DecodePrediction out = c.predict();
  EXPECT_DOUBLE_EQ(out.device_bytes, 10000 + 2 * kBlob);
  EXPECT_DOUBLE_EQ(out.ram_bytes, 2 * kBlob);
  // The CPU is slower with its half.
  EXPECT_NEAR(1 / out.tokens_per_s, 10000 / 4e6 + 2 * kBlob / (1e6 * kProductShare), 1e-9);
  EXPECT_EQ(out.bound, Bound::kRam);
  c.rates.ram = 1e9;
  out = c.predict();
  EXPECT_NEAR(1 / out.tokens_per_s, (10000 + 2 * kBlob) / 4e6, 1e-9);
  EXPECT_EQ(out.bound, Bound::kDevice);
}

TEST(Prediction, ADeviceReadsItsShareOverTheLink) {
  Case c;
  c.parts = {{.device = "sim:0", .last_layer = 2, .budget_bytes = kMiB}};
  c.options = {.source = SourceKind::kArena, .cache_slots = 8};  // half of the experts
  c.ram_bytes = kMiB;
  c.rates.links = {0.25e6};  // a third of what the CPU computes
  c.rates.layer_s = 1e-3;
  c.rates.task_s = 2e-3;
  DecodePrediction out = c.predict();
  EXPECT_NEAR(out.link_bytes, 2 * kBlob / 4, 1e-9);
  EXPECT_NEAR(out.ram_bytes, 2 * kBlob * 3 / 4, 1e-9);
  const double layers_s = 2 * (1e-3 + 2e-3);
  EXPECT_NEAR(1 / out.tokens_per_s, 10000 / 4e6 + 2 * kBlob / (1e6 * kProductShare + 0.25e6) + layers_s, 1e-9);
  // Of a source whose bytes move, the CPU computes all; and without any the host has no part.
  c.options.source = SourceKind::kMapped;
  EXPECT_DOUBLE_EQ(c.predict().link_bytes, 0);
  c.options = {.source = SourceKind::kArena};
  EXPECT_NEAR(1 / c.predict().tokens_per_s, (10000 + 4 * kBlob) / 4e6 + 2 * 1e-3, 1e-9);
}

TEST(Prediction, PartsComputeOneAfterTheOther) {
  Case c;
  c.parts = {{.device = "sim:0", .last_layer = 1, .budget_bytes = kMiB},
             {.device = "sim:1", .first_layer = 1, .last_layer = 2, .budget_bytes = kMiB}};
  c.needs.dense_bytes = {6000, 4000};
  c.rates.devices = {4e6, 2e6};
  c.ram_bytes = kMiB;
  const DecodePrediction out = c.predict();
  EXPECT_NEAR(1 / out.tokens_per_s, (6000 + 2 * kBlob) / 4e6 + (4000 + 2 * kBlob) / 2e6, 1e-9);
  EXPECT_EQ(out.bound, Bound::kDevice);
  EXPECT_DOUBLE_EQ(out.ram_bytes, 0);
}

}  // namespace
}  // namespace strata::test
