// What Dispatch computes: against doubles, for every form of experts and any routing, with bits that depend on nothing
// but the row; and what becomes of a step whose experts can't be read.
#include <cstring>
#include <set>

#include "experts/counting_source.h"
#include "experts/dispatch_rig.h"

namespace strata::test {
namespace {

using experts::ExpertFormula;
using Form = ExpertSpec::Form;

constexpr ExpertFormula kClamped{ExpertFormula::Activation::kSwigluClamped, 1.702f, 7.0f};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// An error of one rounding for each term of the sums, of the size of all terms.
void expect_close(const std::vector<float>& got, const Reference& want, const ExpertSpec& spec) {
  ASSERT_EQ(got.size(), want.values.size());
  const double roundings = 16 + static_cast<double>(spec.dim + spec.ffn) / 4;
  for (size_t i = 0; i < got.size(); i++) {
    const double allowed = roundings * 0x1p-24 * want.sizes[i];
    ASSERT_LE(std::abs(got[i] - want.values[i]), allowed)
        << "value " << i << ": " << got[i] << " for " << want.values[i];
  }
}

struct Inputs {
  Inputs(const ExpertSpec& spec, int64_t rows, int64_t k, uint64_t seed) {
    Random random(seed);
    routing = random_routing(rows, k, spec.n_experts, random);
    x = normals(random, rows * spec.dim);
    y = normals(random, rows * spec.dim);
  }
  // The one row r.
  Inputs row(int64_t r, int64_t dim) const {
    Inputs one = *this;
    const auto cut = [r](const auto& all, int64_t n) {
      return std::decay_t<decltype(all)>(all.begin() + r * n, all.begin() + (r + 1) * n);
    };
    one.routing = {1, routing.k, cut(routing.ids, routing.k), cut(routing.weights, routing.k)};
    one.x = cut(x, dim);
    one.y = cut(y, dim);
    return one;
  }

  Routing routing;
  std::vector<float> x, y;
};

// Runs steps of these numbers of rows, one after another through one dispatch.
void expect_steps(const ExpertSpec& spec, const RigOptions& options, std::initializer_list<int64_t> rows) {
  const FillPart fill = random_parts(spec, 5);
  const ExpertModel model(spec, fill);
  DispatchRig rig(model, options);
  uint64_t seed = 1;
  for (const int64_t n : rows) {
    const Inputs in(spec, n, options.k, seed++);
    expect_close(rig.run(in.routing, in.x, in.y), reference_step(spec, fill, options.formula, in.routing, in.x, in.y),
                 spec);
  }
}

TEST(Dispatch, ComputesTheFormulaForAnyRouting) {
  const ExpertSpec spec{.dim = 36, .ffn = 70, .n_experts = 7};
  expect_steps(spec, {.max_rows = 8, .k = 3}, {8, 1, 5, 8, 0, 3});
  expect_steps(spec, {.max_rows = 4, .k = 7, .threads = 2}, {4, 2});
  expect_steps({.form = Form::kSeparate, .dim = 36, .ffn = 70}, {}, {6});
}

// A source with room for few leases is asked in rounds, what is there first, and the bits stay the same.
TEST(Dispatch, RoundsGiveTheSameBits) {
  const ExpertSpec spec{.dim = 36, .ffn = 70, .n_experts = 9};
  const ExpertModel model(spec, random_parts(spec, 5));
  const RigOptions options{.max_rows = 8, .k = 4, .threads = 2};
  DispatchRig arena(model, options);
  for (const int64_t limit : {1, 2, 5, 64}) {
    LimitedSource source(arena.source(), model.layout, limit, 3);
    DispatchRig rig(model, options, &source);
    for (const int64_t rows : {1, 8, 3}) {
      const Inputs in(spec, rows, options.k, static_cast<uint64_t>(rows));
      const std::vector<float> want = arena.run(in.routing, in.x, in.y);
      EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), want)) << rows << " rows, limit " << limit;
    }
    EXPECT_EQ(source.held, 0);
    EXPECT_GT(source.ready, 0);
    EXPECT_GT(source.fetched, 0);
    EXPECT_GE(source.hinted, source.fetched);
    EXPECT_EQ(rig.stats.get(Counter::kExpertRows), (1 + 8 + 3) * options.k);
  }
}

// Notes the experts of hints, and reads those that it lacks.
class HintedSource final : public CountingSource {
 public:
  explicit HintedSource(std::set<int32_t> lacks) : lacks_(std::move(lacks)) {}
  size_t hint(std::span<const experts::ExpertKey> keys, experts::HintKind kind) override {
    size_t n = 0;
    for (const experts::ExpertKey key : keys) {
      hinted.push_back(key.expert);
      n += lacks_.contains(key.expert) ? 1 : 0;
    }
    kinds.insert(kind);
    return n;
  }
  std::vector<int32_t> hinted;
  std::set<experts::HintKind> kinds;

 private:
  std::set<int32_t> lacks_;
};

// A guess is believed down to the middle of each row's ranking, and below it until there is one expert to read.
TEST(Dispatch, GuessesGoOnUntilThereIsSomethingToRead) {
  const ExpertModel model({.dim = 36, .ffn = 70, .n_experts = 12}, random_parts({.dim = 36, .ffn = 70}, 5));
  const Routing routing{2, 5, {0, 1, 2, 3, 4, 6, 7, 8, 9, 10}, std::vector<float>(10, 1.0f)};
  const auto hinted = [&](const std::set<int32_t>& lacks, experts::HintKind kind) {
    HintedSource source(lacks);
    DispatchRig rig(model, {.max_rows = 4, .k = 5}, &source);
    rig.hint(kind, routing);
    EXPECT_EQ(source.kinds, std::set{kind});
    return source.hinted;
  };
  using experts::HintKind;
  EXPECT_EQ(hinted({8}, HintKind::kGuess), (std::vector<int32_t>{0, 1, 2, 6, 7, 8}));
  EXPECT_EQ(hinted({9, 10}, HintKind::kGuess), (std::vector<int32_t>{0, 1, 2, 6, 7, 8, 3, 9}));
  EXPECT_EQ(hinted({}, HintKind::kGuess), (std::vector<int32_t>{0, 1, 2, 6, 7, 8, 3, 9, 4, 10}));
  EXPECT_EQ(hinted({0}, HintKind::kCertain), routing.ids);
}

TEST(Dispatch, ManyRowsGoThroughSeveralTokenTiles) {
  const ExpertSpec spec{.dim = 20, .ffn = 35, .n_experts = 3};
  expect_steps(spec, {.max_rows = 150, .k = 2, .threads = 2}, {150, 100, 65});
}

TEST(Dispatch, TheClampedFormula) {
  expect_steps({.dim = 36, .ffn = 40}, {.formula = kClamped}, {8, 1});
  expect_steps({.form = Form::kFused, .dim = 36, .ffn = 40, .biases = true}, {.formula = kClamped}, {8, 1});
}

TEST(Dispatch, BiasesAndScales) {
  expect_steps({.dim = 36, .ffn = 70, .biases = true}, {.threads = 2}, {8});
  expect_steps({.dim = 36, .ffn = 70, .scales = true}, {.threads = 2}, {8});
  expect_steps({.form = Form::kFused, .dim = 36, .ffn = 70, .biases = true, .scales = true}, {}, {8});
  expect_steps({.dim = 36, .ffn = 70, .biases = true, .scales = true}, {.formula = kClamped}, {8});
}

TEST(Dispatch, QuantisedTypes) {
  using quant::Type;
  expect_steps({.dim = 64, .ffn = 96, .gate_up_type = Type::Q8_0, .down_type = Type::Q8_0}, {}, {8});
  expect_steps({.dim = 64, .ffn = 96, .gate_up_type = Type::MXFP4, .down_type = Type::MXFP4, .biases = true},
               {.formula = kClamped}, {8});
  expect_steps({.dim = 256, .ffn = 256, .gate_up_type = Type::Q4_K, .down_type = Type::F16}, {}, {5});
  expect_steps({.form = Form::kFused, .dim = 256, .ffn = 64, .gate_up_type = Type::Q4_K, .down_type = Type::Q8_0}, {},
               {5});
}

TEST(Dispatch, AllRowsToOneExpert) {
  const ExpertSpec spec{.dim = 36, .ffn = 70};
  const FillPart fill = random_parts(spec, 5);
  const ExpertModel model(spec, fill);
  DispatchRig rig(model, {.max_rows = 70, .k = 1, .threads = 2});
  Inputs in(spec, 70, 1, 3);
  std::fill(in.routing.ids.begin(), in.routing.ids.end(), 2);
  expect_close(rig.run(in.routing, in.x, in.y), reference_step(spec, fill, {}, in.routing, in.x, in.y), spec);
  EXPECT_EQ(rig.stats.get(Counter::kExpertsComputed), 1);
  EXPECT_EQ(rig.stats.get(Counter::kExpertRows), 70);
}

TEST(Dispatch, FusedAndSplitExpertsGiveTheSameBits) {
  for (const bool extras : {false, true}) {
    const ExpertSpec split{.dim = 64, .ffn = 96, .gate_up_type = quant::Type::Q8_0, .biases = extras, .scales = extras};
    ExpertSpec fused = split;
    fused.form = Form::kFused;
    const FillPart fill = random_parts(split, 5);
    const ExpertModel a(split, fill), b(fused, fill);
    DispatchRig rig_a(a, {}), rig_b(b, {});
    const Inputs in(split, 8, 2, 9);
    EXPECT_TRUE(same_bits(rig_a.run(in.routing, in.x, in.y), rig_b.run(in.routing, in.x, in.y)));
  }
}

TEST(Dispatch, BitsDoNotDependOnThreads) {
  const ExpertSpec spec{.dim = 64, .ffn = 96, .n_experts = 6, .gate_up_type = quant::Type::Q8_0, .biases = true};
  const ExpertModel model(spec, random_parts(spec, 5));
  DispatchRig one(model, {.max_rows = 80, .k = 3});
  const Inputs in(spec, 80, 3, 9);
  const std::vector<float> expected = one.run(in.routing, in.x, in.y);
  for (const int threads : {2, 3}) {
    DispatchRig several(model, {.max_rows = 80, .k = 3, .threads = threads});
    for (int i = 0; i < 3; i++) EXPECT_TRUE(same_bits(several.run(in.routing, in.x, in.y), expected)) << threads;
  }
}

TEST(Dispatch, ARowAloneHasTheBitsItHasInABatch) {
  const ExpertSpec spec{.dim = 64, .ffn = 96, .gate_up_type = quant::Type::Q8_0, .scales = true};
  const ExpertModel model(spec, random_parts(spec, 5));
  DispatchRig rig(model, {.max_rows = 70});
  const Inputs in(spec, 70, 2, 9);
  const std::vector<float> batch = rig.run(in.routing, in.x, in.y);
  for (const int64_t r : {0, 1, 40, 69}) {
    const Inputs one = in.row(r, spec.dim);
    const std::vector<float> expected(batch.begin() + r * spec.dim, batch.begin() + (r + 1) * spec.dim);
    EXPECT_TRUE(same_bits(rig.run(one.routing, one.x, one.y), expected)) << "row " << r;
  }
}

TEST(Dispatch, BitsDoNotDependOnTheSource) {
  const ExpertSpec spec{.dim = 36, .ffn = 70, .biases = true};
  const ExpertModel model(spec, random_parts(spec, 5), 3);
  Stats stats;
  const auto mapped = make_mapped_source(*model.model, model.layout, stats).value();
  DispatchRig arena(model, {}), files(model, {}, mapped.get());
  const Inputs in(spec, 8, 2, 9);
  EXPECT_TRUE(same_bits(arena.run(in.routing, in.x, in.y), files.run(in.routing, in.x, in.y)));
}

// Each expert of a step is leased once, whatever the rows, and given back.
TEST(Dispatch, CountersAndLeases) {
  const ExpertSpec spec{.dim = 36, .ffn = 40, .n_experts = 6};
  const ExpertModel model(spec, random_parts(spec, 5));
  device::host::HostDevice device(host_options());
  Stats stats;
  const auto arena =
      experts::ArenaSource::create(*model.model, model.layout, device, device.compute().pool(), stats).value();
  UnreliableSource source(*arena, model.layout);
  DispatchRig rig(model, {}, &source);
  Inputs in(spec, 4, 2, 9);
  in.routing.ids = {5, 0, 0, 3, 5, 3, 0, 5};
  rig.run(in.routing, in.x, in.y);
  EXPECT_EQ(source.given(), 3);
  EXPECT_EQ(source.held(), 0);
  EXPECT_EQ(rig.stats.get(Counter::kExpertsComputed), 3);
  EXPECT_EQ(rig.stats.get(Counter::kExpertRows), 8);
  rig.run({0, 2, {}, {}}, {}, {});
  EXPECT_EQ(source.given(), 3);
  EXPECT_EQ(rig.stats.get(Counter::kExpertsComputed), 3);
}

class DispatchFailure : public testing::Test {
 protected:
  ExpertSpec spec_{.dim = 36, .ffn = 40};
  FillPart fill_ = random_parts(spec_, 5);
  ExpertModel model_{spec_, fill_};
  device::host::HostDevice device_{host_options()};
  Stats stats_;
  std::unique_ptr<experts::ExpertSource> arena_ =
      experts::ArenaSource::create(*model_.model, model_.layout, device_, device_.compute().pool(), stats_).value();
  UnreliableSource source_{*arena_, model_.layout};
  DispatchRig rig_{model_, {}, &source_};
  Inputs in_{spec_, 8, 2, 9};

  void expect_next_run_works() {
    expect_close(rig_.run(in_.routing, in_.x, in_.y), reference_step(spec_, fill_, {}, in_.routing, in_.x, in_.y),
                 spec_);
    EXPECT_EQ(source_.held(), 0);
  }
};

TEST_F(DispatchFailure, AFailedFetchFailsTheStreamAndTheNextRunWorks) {
  source_.failing_fetches = 2;
  for (int i = 0; i < 2; i++) {
    expect_error(rig_.try_run(in_.routing, in_.x, in_.y), ErrorCode::kIo, {"model.gguf"});
    EXPECT_TRUE(same_bits(rig_.result(8), in_.y)) << "a failed step adds nothing";
    EXPECT_EQ(source_.held(), 0);
    EXPECT_EQ(rig_.stats.get(Counter::kExpertsComputed), 0);
  }
  expect_next_run_works();
}

TEST_F(DispatchFailure, BytesThatCannotBeTrustedFailTheStream) {
  source_.unhealthy = true;
  expect_error(rig_.try_run(in_.routing, in_.x, in_.y), ErrorCode::kIo, {"model.gguf was cut"});
  EXPECT_TRUE(same_bits(rig_.result(8), in_.y));
  EXPECT_EQ(source_.held(), 0);
  source_.unhealthy = false;
  expect_next_run_works();
}

TEST(Dispatch, RowBuffersThatDoNotFitAreAnError) {
  const ExpertSpec spec{.dim = 36, .ffn = 40};
  const ExpertModel model(spec, random_parts(spec, 5));
  Stats stats;
  const auto mapped = make_mapped_source(*model.model, model.layout, stats).value();
  device::host::HostDevice device(host_options(1, 16 * kKiB));
  expect_error(experts::Dispatch::create({device, device.compute(), *mapped, model.layout,
                                          {.max_rows = 100, .n_used = 2, .n_experts = 4, .dim = 36, .ffn = 40}, stats}),
               ErrorCode::kNoMemory, {"expert", "31.2 KiB"});
  EXPECT_EQ(device.used_bytes(), 0u);
}

}  // namespace
}  // namespace strata::test
