// Whatever fails on a device, one request ends with an error for it, everything is given back, slots that a prompt has
// borrowed among them, and the next request is right.
#include <gtest/gtest.h>

#include "engine/sim_support.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;

// STRATA_FAULT_STRIDE: the points that are tried are so far apart; the slow form of this test tries all.
constexpr int kStride = STRATA_FAULT_STRIDE;

// A prompt in three chunks, of which the first two stream and the last one has too few rows to, and two tokens of an
// answer, the first of which ends the loan. Where a model has two parts, each chunk is under way in one of them while
// the next one is in the other. The logits of the last row, or an error.
Result<std::vector<float>> request(Engine& engine, std::span<const int32_t> ids) {
  ASSIGN_OR_RETURN(auto sequence, engine.make_sequence());
  RETURN_IF_ERROR(engine.prefill(sequence, ids.first(11), {}));
  for (size_t i = 11; i < 13; i++) {
    const model::BatchRows batch[] = {{&sequence, ids.subspan(i, 1)}};
    RETURN_IF_ERROR(engine.step(batch));
  }
  std::vector<float> last;
  const int32_t row = 0;
  RETURN_IF_ERROR(engine.logits(std::span(&row, 1), [&](int64_t, std::span<const float> logits) -> Status {
    last.assign(logits.begin(), logits.end());
    return {};
  }));
  return last;
}

// Devices and the way that hidden rows take between them.
struct Machine {
  const char* name;
  const char* devices;
  int first_layers;  // of the first device; 0: there is no other
};
const Machine kMachines[] = {{"OneDevice", "sim:256MiB", 0},
                             {"Peers", "sim:128MiB,96MiB", 2},
                             {"ThroughTheHost", "sim:96MiB,128MiB/peer=off", 1}};

class SimFaults : public testing::TestWithParam<std::tuple<const char*, bool, Machine>> {
 protected:
  bool borrows() const { return std::get<1>(GetParam()); }
  const Machine& machine() const { return std::get<2>(GetParam()); }

  EngineConfig config() const {
    EngineConfig config = small_sim_config(experts_ / 8, 16, 4);
    config.device = format("{}/seed=1", machine().devices);
    if (machine().first_layers > 0) config.layer_split = {machine().first_layers, n_layers_ - machine().first_layers};
    config.stream_rows = 4;
    config.prefill_borrow = borrows();
    return borrows() ? lending(config, golden_) : config;
  }
  // The n-th point of the machine fails. Returns whether that was after all that one request passes.
  bool fail_at(int n) {
    EngineConfig failing = config();
    failing.device += format("/fail={}", n);
    stats_.reset();
    auto opened = Engine::open(*model_, failing, stats_);
    if (!opened.ok()) {
      EXPECT_FALSE(opened.error().message.empty());
      refused_opens_++;
      return false;
    }
    Engine& engine = **opened;
    const auto first = request(engine, ids_);
    const int64_t lent = stats_.get(Counter::kCacheLentSlots);
    EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), 0);
    const auto next = request(engine, ids_);
    if (first.ok()) return true;  // the point was the second request's, or nobody's
    EXPECT_FALSE(first.error().message.empty());
    failed_requests_++;
    if (lent > 0) overdue_loans_++;
    if (!next.ok()) ADD_FAILURE() << next.error().message;
    EXPECT_TRUE(next.ok() && next.value() == expected_);
    EXPECT_EQ(stats_.get(Counter::kCacheLentSlots), 0);
    EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), 0);
    return false;
  }

  const GoldenModel golden_ = load_arch_golden(std::get<0>(GetParam()));
  const std::unique_ptr<gguf::Model> model_ = open_golden(golden_);
  const int64_t experts_ = n_experts(golden_);
  const int n_layers_ = n_layers(golden_);
  const std::vector<int32_t> ids_{golden_.sequences[1].ids.begin(), golden_.sequences[1].ids.begin() + 13};
  Stats stats_;
  std::vector<float> expected_;
  int refused_opens_ = 0, failed_requests_ = 0, overdue_loans_ = 0;
};

TEST_P(SimFaults, WhateverFailsEndsOneRequest) {
  const EngineConfig cpu = [&] {
    EngineConfig c = config();
    c.device = "cpu";
    c.layer_split.clear();
    c.expert_cache.reset();
    return c;
  }();
  expected_ = request(*Engine::open(*model_, cpu, stats_).value(), ids_).value();
  EXPECT_EQ(request(*Engine::open(*model_, config(), stats_).value(), ids_).value(), expected_);
  EXPECT_EQ(stats_.get(Counter::kCacheLoans), borrows() ? (machine().first_layers > 0 ? 2 : 1) : 0);
  EXPECT_GT(stats_.get(Counter::kStreamedExperts), 0);
  // Now and then a point fails that nobody needs, as threads happen to meet; three in a row are behind the request.
  int passed = 0;
  for (int n = 1; passed < 3; n += kStride) {
    SCOPED_TRACE(n);
    passed = fail_at(n) ? passed + 1 : 0;
    ASSERT_LT(n, 20000);
    if (HasFailure()) FAIL() << "at point " << n;
  }
  EXPECT_GT(refused_opens_, 30 / kStride);
  EXPECT_GT(failed_requests_, 200 / kStride);
  // A loan that could not be ended was ended before the next request.
  if (kStride > 1) return;
  EXPECT_EQ(overdue_loans_ > 0, borrows());
}

INSTANTIATE_TEST_SUITE_P(All, SimFaults,
                         testing::Combine(testing::ValuesIn(kFewArchs), testing::Bool(), testing::ValuesIn(kMachines)),
                         [](const auto& row) {
                           std::string name = std::get<0>(row.param);
                           std::erase(name, '-');
                           return name + (std::get<1>(row.param) ? "Borrowing" : "Owning") +
                                  std::get<2>(row.param).name;
                         });

}  // namespace
}  // namespace strata::test
