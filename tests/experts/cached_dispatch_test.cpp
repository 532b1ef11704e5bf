// Experts of a device's cache and experts of host memory together give the bits of the host alone, whichever are
// cached, on a device that host code can read and on one that it cannot.
#include <cstring>

#include "experts/cache.h"
#include "experts/counting_source.h"
#include "experts/dispatch_rig.h"
#include "experts/test_devices.h"

namespace strata::test {
namespace {

using device::In;
using device::View;
using experts::Dispatch;
using experts::ExpertCache;
using experts::ExpertFormula;
using experts::SlotPlan;
using Form = ExpertSpec::Form;

constexpr ExpertFormula kClamped{ExpertFormula::Activation::kSwigluClamped, 1.702f, 7.0f};

struct CachedOptions {
  Where where = Where::kHost;
  int64_t max_rows = 8;
  int64_t k = 2;
  int64_t slots = 0;  // 0: no cache
  bool graphs = true;
  int threads = 1;
  ExpertFormula formula = {};
};

// A step goes through all layers of the model, each with the same inputs, into one y.
class CachedRig {
 public:
  CachedRig(const ExpertModel& model, const CachedOptions& options, experts::ExpertSource* source = nullptr)
      : model_(model),
        options_(options),
        devices_(options.where, options.threads),
        source_(source),
        stream_(devices_.device().make_stream("compute")) {
    if (source_ == nullptr) {
      arena_ = make_arena_source(*model.model, model.layout, devices_.host(), devices_.host().compute().pool(), stats)
                   .value();
      source_ = arena_.get();
    }
    device::Device& device = devices_.device();
    if (options.slots > 0) {
      SlotPlan plan = SlotPlan::make(model.layout, experts::even_ranking(model.layout),
                                     {.budget_bytes = 16 * kMiB, .max_slots = options.slots})
                          .value();
      cache = ExpertCache::create({.device = device,
                                   .stream = *stream_,
                                   .source = *source_,
                                   .layout = model.layout,
                                   .stats = stats,
                                   .min_slots = 1},
                                  std::move(plan))
                  .value();
      const Status filled = cache->fill();
      EXPECT_TRUE(filled.ok());
    }
    dispatch_ =
        Dispatch::create({device, devices_.host().compute(), *source_, model.layout, limits(), stats, cache.get()})
            .value();
    ids_ = buffer(options.max_rows * options.k);
    weights_ = buffer(options.max_rows * options.k);
    x_ = buffer(options.max_rows * model.spec.dim);
    y_ = buffer(options.max_rows * model.spec.dim);
    live_ = buffer(1);
    for (int64_t rows = 1; rows < options.max_rows; rows *= 4) add_bucket(rows);
    add_bucket(options.max_rows);
    stats.reset();
  }
  ~CachedRig() { EXPECT_EQ(devices_.races(), std::vector<std::string>()); }

  experts::DispatchLimits limits() const {
    return {.max_rows = options_.max_rows,
            .n_used = options_.k,
            .n_experts = model_.spec.n_experts,
            .dim = model_.spec.dim,
            .ffn = model_.spec.ffn};
  }

  Status try_run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
    upload<int32_t>(*stream_, *live_, {static_cast<int32_t>(routing.rows)});
    upload(*stream_, *ids_, routing.ids);
    upload(*stream_, *weights_, routing.weights);
    upload(*stream_, *x_, x);
    upload(*stream_, *y_, y);
    size_t b = 0;
    while (buckets_[b].rows < routing.rows) b++;
    if (options_.graphs) {
      buckets_[b].graph->replay(*stream_);
    } else {
      enqueue(*stream_, buckets_[b].rows);
    }
    const Status status = stream_->synchronize();
    stream_->reset();
    return status;
  }
  std::vector<float> run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y) {
    const Status status = try_run(routing, x, y);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return result(routing.rows);
  }
  std::vector<float> result(int64_t rows) {
    return download<float>(*stream_, *y_, 0, static_cast<size_t>(rows * model_.spec.dim));
  }

  device::Device& device() { return devices_.device(); }

 private:
  struct Bucket {
    int64_t rows;
    std::unique_ptr<device::Graph> graph;
  };

  std::unique_ptr<device::Buffer> buffer(int64_t n) {
    return devices_.device().allocate(static_cast<size_t>(n) * 4, "test").value();
  }
  void enqueue(device::Stream& stream, int64_t rows) {
    const int64_t dim = model_.spec.dim;
    for (int32_t layer = 0; layer < model_.spec.n_layers; layer++) {
      dispatch_->run(stream, layer, device::view_of<int32_t>(*ids_, rows, options_.k),
                     device::view_of<float>(*weights_, rows, options_.k), device::view_of<float>(*x_, rows, dim),
                     device::view_of<float>(*y_, rows, dim), device::view_of<int32_t>(*live_, 1, 1), options_.formula);
    }
  }
  void add_bucket(int64_t rows) {
    buckets_.push_back({rows, devices_.device().capture([&](device::Stream& s) { enqueue(s, rows); }).value()});
  }

  const ExpertModel& model_;
  CachedOptions options_;
  TestDevice devices_;

 public:
  Stats stats;

 private:
  std::unique_ptr<experts::ExpertSource> arena_;
  experts::ExpertSource* source_;
  std::unique_ptr<device::Stream> stream_;

 public:
  std::unique_ptr<ExpertCache> cache;

 private:
  std::unique_ptr<Dispatch> dispatch_;
  std::unique_ptr<device::Buffer> ids_, weights_, x_, y_, live_;
  std::vector<Bucket> buckets_;
};

struct Inputs {
  Inputs(const ExpertSpec& spec, int64_t rows, int64_t k, uint64_t seed) {
    Random random(seed);
    routing = random_routing(rows, k, spec.n_experts, random);
    x = normals(random, rows * spec.dim);
    y = normals(random, rows * spec.dim);
  }
  Routing routing;
  std::vector<float> x, y;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

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
          const Inputs in(spec, rows, options.k, seed++);
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

// A loan moves experts to the host between two steps, and back; graphs captured before stay right.
TEST_P(CachedDispatch, LoansBetweenSteps) {
  const ExpertSpec spec{.n_layers = 2, .dim = 36, .ffn = 70, .n_experts = 4};
  const ExpertModel model(spec, random_parts(spec, 5));
  const Inputs in(spec, 8, 2, 9);
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
  const Inputs in(spec, 8, 2, 9);
  CachedRig host(model, {});
  const std::vector<float> expected = host.run(in.routing, in.x, in.y);
  TestDevice devices(Where::kHost);
  Stats stats;
  const auto arena =
      make_arena_source(*model.model, model.layout, devices.host(), devices.host().compute().pool(), stats).value();
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
  const experts::DispatchLimits limits{.max_rows = 9, .n_used = 2, .n_experts = 4, .dim = 36, .ffn = 40};
  const auto dispatch =
      Dispatch::create({devices.device(), devices.host().compute(), *source, model.layout, limits, stats, cache.get()})
          .value();
  const experts::DispatchBytes bytes = Dispatch::bytes_needed(limits, false);
  const bool host = GetParam() == Where::kHost;  // there both kinds count
  EXPECT_EQ(devices.device().used_bytes() - before, host ? bytes.total() : bytes.device);
}

INSTANTIATE_TEST_SUITE_P(Devices, CachedDispatch, testing::Values(Where::kHost, Where::kSim),
                         [](const auto& tested) { return where_name(tested.param); });

}  // namespace
}  // namespace strata::test
