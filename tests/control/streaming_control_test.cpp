// Controls of streamed prompts: whatever the seed makes of the timing, the checker of simulated devices finds a bank
// that is refilled or computed from too early and a loan that does not wait, names their memory, and is silent without.
#include <set>

#include "base/mutation.h"
#include "experts/cached_rig.h"

namespace strata::test {
namespace {

// STRATA_SIM_SEEDS: how many; the slow form of this test has more.
constexpr int kSeeds = STRATA_SIM_SEEDS;

constexpr const char* kCache = "race on 'the expert cache";
constexpr const char* kRing = "race on 'ring";
constexpr const char* kTables = "race on 'tables of streamed experts";
constexpr const char* kPlaces = "race on 'places of streamed experts";

class MutationScope {
 public:
  explicit MutationScope(Mutation mutation) { g_mutation = mutation; }
  ~MutationScope() { g_mutation = Mutation::kNone; }
};

// Of 24 experts in three layers.
struct Shape {
  int64_t slots = 8;
  bool borrows = false;
};

class StreamingControl : public testing::Test {
 protected:
  // Runs `program` with the fault; the first race that was found, "" for none.
  template <class Program>
  std::string race_of(Mutation mutation, const Shape& shape, int seed, const Program& program) {
    CachedRig rig(model_, {.where = Where::kSim,
                           .slots = shape.slots,
                           .ring_places = 3,
                           .borrows = shape.borrows,
                           .sim_spec = "sim:64MiB/seed=" + std::to_string(seed)});
    rig.expect_races();
    rig.set_inputs(in_.routing, in_.x, in_.y);
    {
      const MutationScope scope(mutation);
      program(rig);
    }
    const std::vector<std::string> races = rig.races();
    return races.empty() ? "" : races[0];
  }
  // The race is about one of these memories: which of several accesses comes to the checker first is a matter of
  // timing.
  template <class Program>
  void expect_found(Mutation mutation, const Shape& shape, const std::set<std::string>& memories,
                    const Program& program) {
    for (int seed = 0; seed < kSeeds; seed++) {
      EXPECT_EQ(race_of(Mutation::kNone, shape, seed, program), "") << "seed " << seed;
      const std::string race = race_of(mutation, shape, seed, program);
      const std::string memory = race.substr(0, race.find("' ("));
      EXPECT_EQ(memories.count(memory), 1u) << "seed " << seed << ": " << race;
    }
  }

  // Goes through each bank several times.
  static void stream(CachedRig& rig) {
    rig.queue_streamed(8);
    const Status status = rig.finish();
    EXPECT_EQ(status.ok(), rig.races().empty()) << "a step that races fails";
  }
  // Lends slots that a step reads which nobody has waited for.
  static void lend_behind_a_step(CachedRig& rig) {
    rig.queue_streamed(8);
    const auto borrower = rig.device().make_stream("borrower");
    const experts::Loan loan = rig.cache->lend(rig.cache->plan().lendable_bytes(1)).value();
    borrower->fill_zero(*loan.memory, loan.offset, loan.bytes);
    static_cast<void>(borrower->synchronize());
    static_cast<void>(rig.finish());
  }

  const ExpertSpec spec_{.n_layers = 3, .dim = 20, .ffn = 24, .n_experts = 8};
  const ExpertModel model_{spec_, random_parts(spec_, 5)};
  const CachedInputs in_{spec_, 8, 2, 9};
};

TEST_F(StreamingControl, ABankThatIsFilledTooEarlyIsFound) {
  expect_found(Mutation::kBankFreeNotAwaited, {.borrows = false}, {kRing, kTables}, stream);
  expect_found(Mutation::kBankFreeNotAwaited, {.borrows = true}, {kCache, kTables}, stream);
}

TEST_F(StreamingControl, ABankThatIsUsedTooEarlyIsFound) {
  expect_found(Mutation::kBankFullNotAwaited, {.borrows = false}, {kRing, kTables, kPlaces}, stream);
  expect_found(Mutation::kBankFullNotAwaited, {.borrows = true}, {kCache, kTables, kPlaces}, stream);
}

TEST_F(StreamingControl, ALoanThatDoesNotWaitIsFound) {
  // Nearly all are cached: no copy of the last layer waits for a bank, and so for the device.
  expect_found(Mutation::kLoanNotAwaited, {.slots = 23}, {kCache}, lend_behind_a_step);
}

}  // namespace
}  // namespace strata::test
