// Experts of a device's cache and experts of host memory together give the bits of the host alone, whichever are
// cached, on a device that host code can read and on one that it cannot.
#include "base/format.h"
#include "experts/cached_dispatch.h"
#include "experts/cached_rig.h"
#include "experts/counting_source.h"
#include "experts/link_share.h"

namespace strata::test {
namespace {

using experts::Dispatch;
using experts::ExpertCache;
using experts::ExpertFormula;
using experts::SlotPlan;
using Form = ExpertSpec::Form;

constexpr ExpertFormula kClamped{ExpertFormula::Activation::kSwigluClamped, 1.702f, 7.0f};

// Pairs of a step that go to the experts of slots.
int64_t hits_of(const ExpertSpec& spec, const Routing& routing, const ExpertCache* cache) {
  int64_t hits = 0;
  for (int32_t layer = 0; cache != nullptr && layer < spec.n_layers; layer++) {
    for (const int32_t id : routing.ids) hits += cache->slot({layer, id}) >= 0;
  }
  return hits;
}

class CachedDispatch : public testing::TestWithParam<Where> {
 protected:
  // The bits of the host alone, with none, a quarter and all of the experts cached, from graphs and enqueued anew.
  void expect_bits_of_the_host(const ExpertSpec& spec, const CachedOptions& options,
                               std::initializer_list<int64_t> steps) {
    const ExpertModel model(spec, random_parts(spec, 5));
    CachedRig host(model, {.max_rows = options.max_rows, .k = options.k, .formula = options.formula});
    const int64_t n_experts = spec.n_layers * spec.n_experts;
    for (const int64_t slots : {int64_t{0}, n_experts / 4, n_experts}) {
      if (slots == 0 && GetParam() == Where::kHost) continue;  // that is the host alone
      for (const bool graphs : {true, false}) {
        CachedOptions cached = options;
        cached.where = GetParam();
        cached.slots = slots;
        cached.graphs = graphs;
        CachedRig rig(model, cached);
        uint64_t seed = 1;
        int64_t hits = 0, pairs = 0;
        for (const int64_t rows : steps) {
          const CachedInputs in(spec, rows, options.k, seed++);
          EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), host.run(in.routing, in.x, in.y)))
              << slots << " slots, " << rows << " rows" << (graphs ? ", graphs" : "");
          hits += hits_of(spec, in.routing, rig.cache.get());
          pairs += rows * options.k * spec.n_layers;
        }
        EXPECT_EQ(rig.stats.get(Counter::kCacheHits), hits);
        EXPECT_EQ(rig.stats.get(Counter::kCacheMisses), pairs - hits);
        EXPECT_EQ(rig.stats.get(Counter::kExpertRows), pairs - hits);
        EXPECT_EQ(hits > 0, slots > 0);
        EXPECT_EQ(pairs > hits, slots < n_experts);
        EXPECT_EQ(rig.stats.get(Counter::kExpertsComputed) > 0, slots < n_experts);
      }
    }
  }
};

TEST_P(CachedDispatch, PlainExperts) {
  expect_bits_of_the_host({.n_layers = 2, .dim = 36, .ffn = 70, .n_experts = 6}, {.k = 3}, {8, 1, 5, 8, 3});
}

TEST_P(CachedDispatch, BiasesAndScales) {
  expect_bits_of_the_host({.dim = 36, .ffn = 70, .n_experts = 8, .biases = true}, {}, {8, 1});
  expect_bits_of_the_host({.dim = 36, .ffn = 70, .n_experts = 8, .scales = true}, {}, {8, 1});
  expect_bits_of_the_host({.form = Form::kFused, .dim = 36, .ffn = 70, .n_experts = 8, .biases = true, .scales = true},
                          {.formula = kClamped}, {8, 1});
}

TEST_P(CachedDispatch, QuantisedFusedAndSeparateExperts) {
  using quant::Type;
  expect_bits_of_the_host({.form = Form::kFused,
                           .dim = 256,
                           .ffn = 64,
                           .n_experts = 8,
                           .gate_up_type = Type::Q4_K,
                           .down_type = Type::Q8_0},
                          {}, {5});
  expect_bits_of_the_host({.form = Form::kSeparate,
                           .dim = 64,
                           .ffn = 96,
                           .n_experts = 8,
                           .gate_up_type = Type::MXFP4,
                           .down_type = Type::F16},
                          {}, {5});
}

TEST_P(CachedDispatch, ManyRowsAndSeveralThreads) {
  expect_bits_of_the_host({.dim = 20, .ffn = 35, .n_experts = 4}, {.max_rows = 150, .k = 2, .threads = 3},
                          {150, 65, 2});
}

// A guess of what the next layer leaves to the CPU changes no bit. Here all guesses are right.
TEST(GuessedExperts, HaveTheBitsOfTheHost) {
  const ExpertSpec spec{.n_layers = 4, .dim = 36, .ffn = 70, .n_experts = 8};
  const ExpertModel model(spec, random_parts(spec, 5));
  CachedRig host(model, {.max_rows = 20, .k = 3});
  for (const double fraction : {0.0, 0.4, 1.0}) {
    for (const uint64_t sim_seed : {1, 2, 3}) {
      CachedRig rig(model, {.where = Where::kSim,
                            .max_rows = 20,
                            .k = 3,
                            .slots = 6,
                            .threads = 2,
                            .link_shares = experts::link_shares(spec.n_experts, 1, {}, fraction),
                            .guesses = true,
                            .sim_spec = format("sim:64MiB/seed={}", sim_seed)});
      uint64_t seed = 1;
      for (const int64_t rows : {1, 20, 1, 3}) {
        const CachedInputs in(spec, rows, 3, seed++);
        EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), host.run(in.routing, in.x, in.y)))
            << fraction << " linked, " << rows << " rows";
      }
      EXPECT_EQ(rig.stats.get(Counter::kGuessedExperts) > 0, fraction < 1);
      if (fraction > 0) continue;
      EXPECT_EQ(rig.stats.get(Counter::kGuessesUsed), rig.stats.get(Counter::kGuessedExperts));
    }
  }
}

// The device reads its share of the missing experts where they lie in the host's memory, and the CPU computes the rest:
// the same bits whatever the share, and together they are all that the cache lacks.
TEST(LinkedExperts, HaveTheBitsOfTheHost) {
  const ExpertSpec spec{.n_layers = 3, .dim = 36, .ffn = 70, .n_experts = 8, .biases = true};
  const ExpertModel model(spec, random_parts(spec, 5));
  CachedRig host(model, {.max_rows = 20, .k = 3});
  for (const int64_t slots : {0, 6}) {
    for (const double fraction : {0.0, 0.4, 1.0}) {
      for (const uint64_t sim_seed : {1, 2, 3}) {
        CachedRig rig(model, {.where = Where::kSim,
                              .max_rows = 20,
                              .k = 3,
                              .slots = slots,
                              .link_shares = experts::link_shares(spec.n_experts, 1, {}, fraction),
                              .sim_spec = format("sim:64MiB/seed={}", sim_seed)});
        int64_t pairs = 0, hits = 0;
        uint64_t seed = 1;
        for (const int64_t rows : {1, 20, 5, 1}) {
          const CachedInputs in(spec, rows, 3, seed++);
          EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), host.run(in.routing, in.x, in.y)))
              << slots << " slots, " << fraction << " linked, " << rows << " rows";
          pairs += rows * 3 * spec.n_layers;
          hits += hits_of(spec, in.routing, rig.cache.get());
        }
        const int64_t linked = rig.stats.get(Counter::kLinkedRows);
        EXPECT_EQ(rig.stats.get(Counter::kCacheHits), hits);
        EXPECT_EQ(linked + rig.stats.get(Counter::kExpertRows), pairs - hits);
        EXPECT_EQ(linked > 0, fraction > 0);
        EXPECT_EQ(linked < pairs - hits, fraction < 1);
        EXPECT_EQ(rig.stats.get(Counter::kLinkedBytes),
                  rig.stats.get(Counter::kLinkedExperts) * static_cast<int64_t>(model.layout.layer(0).blob_bytes()));
      }
    }
  }
}

// Where nothing is page-locked, the CPU computes what would be linked.
TEST(LinkedExperts, PageableOnesAreComputedByTheCpu) {
  const ExpertSpec spec{.n_layers = 2, .dim = 36, .ffn = 70, .n_experts = 8};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 8, 2, 9);
  CachedRig host(model, {});
  Stats stats;
  const auto source = make_mapped_source(*model.model, model.layout, stats).value();
  CachedRig rig(model,
                {.where = Where::kSim, .slots = 4, .link_shares = experts::link_shares(spec.n_experts, 1, {}, 1.0)},
                source.get());
  EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), host.run(in.routing, in.x, in.y)));
  EXPECT_EQ(rig.stats.get(Counter::kLinkedRows), 0);
  EXPECT_GT(rig.stats.get(Counter::kExpertRows), 0);
}

// A loan moves experts to the host between two steps, and back; graphs captured before stay right.
TEST_P(CachedDispatch, LoansBetweenSteps) {
  const ExpertSpec spec{.n_layers = 2, .dim = 36, .ffn = 70, .n_experts = 4};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 8, 2, 9);
  CachedRig host(model, {}), rig(model, {.where = GetParam(), .slots = 8});
  const std::vector<float> expected = host.run(in.routing, in.x, in.y);
  for (int i = 0; i < 3; i++) {
    rig.stats.reset();
    EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), expected));
    EXPECT_EQ(rig.stats.get(Counter::kCacheMisses), 0);
    const experts::Loan loan = rig.cache->lend(rig.cache->plan().lendable_bytes(i + 1)).value();
    const auto borrower = rig.device().make_stream("borrower");
    borrower->fill_zero(*loan.memory, loan.offset, loan.bytes);
    ASSERT_TRUE(borrower->synchronize().ok());
    EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), expected));
    EXPECT_GT(rig.stats.get(Counter::kCacheMisses), 0);
    EXPECT_EQ(rig.stats.get(Counter::kCacheLoans), 1);
    ASSERT_TRUE(rig.cache->restore().ok());
  }
}

TEST_P(CachedDispatch, AFailedFetchFailsTheStepAndTheNextOneWorks) {
  const ExpertSpec spec{.dim = 36, .ffn = 40};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 8, 2, 9);
  CachedRig host(model, {});
  const std::vector<float> expected = host.run(in.routing, in.x, in.y);
  TestDevice devices(Where::kHost);
  device::host::HostDevice& cpu = devices.host();
  Stats stats;
  const auto arena =
      experts::ArenaSource::create(*model.model, model.layout, cpu, cpu.compute().pool(), stats).value();
  UnreliableSource source(*arena, model.layout);
  CachedRig rig(model, {.where = GetParam(), .slots = 2}, &source);
  source.failing_fetches = 2;
  for (int i = 0; i < 2; i++) {
    expect_error(rig.try_run(in.routing, in.x, in.y), ErrorCode::kIo, {"model.gguf"});
    EXPECT_TRUE(same_bits(rig.result(8), in.y)) << "a failed step adds nothing";
  }
  EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), expected));
  source.unhealthy = true;
  expect_error(rig.try_run(in.routing, in.x, in.y), ErrorCode::kIo, {"was cut"});
  source.unhealthy = false;
  EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), expected));
  EXPECT_EQ(source.held(), 0);
}

TEST_P(CachedDispatch, TakesTheMemoryItSays) {
  const ExpertSpec spec{.dim = 36, .ffn = 40};
  const ExpertModel model(spec, random_parts(spec, 5));
  TestDevice devices(GetParam());
  Stats stats;
  const auto source = make_mapped_source(*model.model, model.layout, stats).value();
  const auto stream = devices.device().make_stream("test");
  SlotPlan plan =
      SlotPlan::make(model.layout, experts::even_ranking(model.layout), {.budget_bytes = kMiB, .max_slots = 2}).value();
  const auto cache =
      ExpertCache::create(
          {.device = devices.device(), .stream = *stream, .source = *source, .layout = model.layout, .stats = stats},
          std::move(plan))
          .value();
  const uint64_t before = devices.device().used_bytes();
  const auto blob_bytes = static_cast<int64_t>(model.layout.largest_blob_bytes());
  const experts::DispatchLimits limits{
      .max_rows = 9, .n_used = 2, .n_experts = 4, .n_layers = 1, .blob_bytes = blob_bytes, .dim = 36, .ffn = 40};
  const auto dispatch =
      Dispatch::create({devices.device(), devices.host().compute(), *source, model.layout, limits, stats, cache.get()})
          .value();
  const experts::DispatchBytes bytes = experts::cached_dispatch_bytes(limits);
  EXPECT_LE(bytes.device, Dispatch::bytes_needed(limits, false).device);
  EXPECT_LE(bytes.host, Dispatch::bytes_needed(limits, false).host);
  const bool host = GetParam() == Where::kHost;  // there both kinds count
  EXPECT_EQ(devices.device().used_bytes() - before, host ? bytes.total() : bytes.device);
}

INSTANTIATE_TEST_SUITE_P(Devices, CachedDispatch, testing::Values(Where::kHost, Where::kSim),
                         [](const auto& tested) { return where_name(tested.param); });

}  // namespace
}  // namespace strata::test
