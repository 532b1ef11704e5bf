// Controls of the layer split: with a fault switched on, what the checks look at goes wrong.
#include <gtest/gtest.h>

#include "base/mutation.h"
#include "engine/hand_off_steps.h"
#include "engine/sim_support.h"

namespace strata::test {
namespace {

class Mutated {
 public:
  explicit Mutated(Mutation mutation) { g_mutation = mutation; }
  ~Mutated() { g_mutation = Mutation::kNone; }
};

TEST(SplitControl, RowsThatAreNotAwaitedAreARace) {
  EXPECT_EQ(hand_over("sim:2x1MiB/seed=1").races, 0u);
  const Mutated mutated(Mutation::kHandOffNotAwaited);
  EXPECT_GT(hand_over("sim:2x1MiB/seed=1").races, 0u);
  EXPECT_GT(hand_over("sim:2x1MiB/peer=off/seed=1").races, 0u);
}

// Regions switched off: the reads come back.
TEST(SplitControl, WithoutRegionsWhatIsLentIsReadFromTheFiles) {
  const GoldenModel golden = load_arch_golden("qwen3moe");
  const auto model = open_golden(golden);
  engine::EngineConfig config = small_sim_config(n_experts(golden) / 8, 96, 16);
  config.device = "sim:2x64MiB/seed=1";
  config.layer_split = {1, 2};
  config.stream_rows = 16;
  config.experts = engine::ExpertPlace::kResident;
  config = lending(config, golden);
  const auto file_reads = [&] {
    Stats stats;
    auto opened = engine::Engine::open(*model, config, stats);
    EXPECT_TRUE(opened.ok());
    stats.reset();
    auto sequence = (*opened)->make_sequence().value();
    EXPECT_TRUE((*opened)->prefill(sequence, std::span(golden.sequences[2].ids).first(48), {}).ok());
    EXPECT_EQ(stats.get(Counter::kCacheLoans), 2);
    return stats.get(Counter::kResidentFileReads);
  };
  EXPECT_EQ(file_reads(), 0);
  const Mutated mutated(Mutation::kLentNotKept);
  EXPECT_GT(file_reads(), 0);
}

}  // namespace
}  // namespace strata::test
