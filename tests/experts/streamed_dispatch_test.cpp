// Steps that stream the experts that a cache lacks give the bits of the host alone, whatever the ring, and whatever
// comes before, between and after them; they say what came, and a step that fails leaves nothing behind.
#include "experts/streamed_dispatch.h"

#include "experts/cached_rig.h"
#include "experts/counting_source.h"
#include "text/counting_new.h"

namespace strata::test {
namespace {

using experts::ExpertFormula;
using experts::ExpertKey;
using experts::Lease;
using Form = ExpertSpec::Form;

constexpr ExpertFormula kClamped{ExpertFormula::Activation::kSwigluClamped, 1.702f, 7.0f};

// An arena beside a rig, for sources that stand between the two.
struct Arena {
  explicit Arena(const ExpertModel& model)
      : source(experts::ArenaSource::create(*model.model, model.layout, host, host.compute().pool(), stats).value()) {}
  TestDevice devices{Where::kHost};
  device::host::HostDevice& host = devices.host();
  Stats stats;
  std::unique_ptr<experts::ArenaSource> source;
};

class StreamedDispatch : public testing::TestWithParam<Where> {
 protected:
  // With none, a quarter and nearly all of the experts cached, rings of several sizes, owned and borrowed; every other
  // step is an ordinary one.
  void expect_bits_of_the_host(const ExpertSpec& spec, const CachedOptions& options,
                               std::initializer_list<int64_t> steps) {
    const ExpertModel model(spec, random_parts(spec, 5));
    CachedRig host(model, {.max_rows = options.max_rows, .k = options.k, .formula = options.formula});
    const int64_t n_experts = spec.n_layers * spec.n_experts;
    for (const int64_t slots : {int64_t{0}, n_experts / 4, n_experts - 1}) {
      if (slots == 0 && GetParam() == Where::kHost) continue;  // that is the host alone
      for (const int64_t places : {2, 3, 8}) {
        CachedOptions streamed = options;
        streamed.where = GetParam();
        streamed.slots = slots;
        streamed.ring_places = places;
        streamed.borrows = slots > places;
        CachedRig rig(model, streamed);
        expect_steps(rig, host, spec, options.k, steps);
      }
    }
  }

  void expect_steps(CachedRig& rig, CachedRig& host, const ExpertSpec& spec, int64_t k,
                    std::initializer_list<int64_t> steps) {
    uint64_t seed = 1;
    for (const int64_t rows : steps) {
      const CachedInputs in(spec, rows, k, seed++);
      const std::vector<float> expected = host.run(in.routing, in.x, in.y);
      EXPECT_TRUE(same_bits(rig.stream(in.routing, in.x, in.y), expected)) << rows << " rows";
      EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), expected)) << rows << " rows, not streamed";
    }
    EXPECT_GT(rig.stats.get(Counter::kStreamedRows), 0);
  }
};

TEST_P(StreamedDispatch, PlainExperts) {
  expect_bits_of_the_host({.n_layers = 3, .dim = 36, .ffn = 70, .n_experts = 6}, {.k = 3}, {8, 1, 5});
}

TEST_P(StreamedDispatch, BiasesScalesAndForms) {
  expect_bits_of_the_host(
      {.form = Form::kFused, .n_layers = 2, .dim = 36, .ffn = 70, .n_experts = 8, .biases = true, .scales = true},
      {.formula = kClamped}, {8, 1});
  expect_bits_of_the_host({.form = Form::kSeparate,
                           .n_layers = 2,
                           .dim = 64,
                           .ffn = 96,
                           .n_experts = 8,
                           .gate_up_type = quant::Type::MXFP4,
                           .down_type = quant::Type::F16},
                          {}, {5});
}

TEST_P(StreamedDispatch, ManyRowsAndSeveralThreads) {
  expect_bits_of_the_host({.n_layers = 2, .dim = 64, .ffn = 256, .n_experts = 4},
                          {.max_rows = 150, .k = 2, .threads = 3}, {150, 65});
}

TEST_P(StreamedDispatch, CountersSayWhatCame) {
  const ExpertSpec spec{.n_layers = 3, .dim = 36, .ffn = 40, .n_experts = 8};
  const ExpertModel model(spec, random_parts(spec, 5));
  CachedRig rig(model, {.where = GetParam(), .slots = 9, .ring_places = 4});
  const CachedInputs in(spec, 8, 2, 9);
  int64_t hits = 0;
  for (int32_t layer = 0; layer < 3; layer++) {
    for (const int32_t id : in.routing.ids) hits += rig.cache->slot({layer, id}) >= 0;
  }
  rig.stream(in.routing, in.x, in.y);
  const int64_t pairs = 3 * 8 * 2;
  EXPECT_EQ(rig.stats.get(Counter::kCacheHits), hits);
  EXPECT_EQ(rig.stats.get(Counter::kCacheMisses), pairs - hits);
  EXPECT_EQ(rig.stats.get(Counter::kStreamedRows), pairs - hits);
  EXPECT_EQ(rig.stats.get(Counter::kStreamedExperts), 3 * 8 - 9) << "whether or not a row wants them";
  EXPECT_EQ(rig.stats.get(Counter::kStreamedBytes),
            static_cast<int64_t>((3 * 8 - 9) * model.layout.layer(0).blob_bytes()));
  EXPECT_EQ(rig.stats.get(Counter::kExpertRows), 0) << "the CPU computes none";
}

TEST_P(StreamedDispatch, AFailedFetchFailsTheStepAndTheNextOneWorks) {
  const ExpertSpec spec{.n_layers = 2, .dim = 36, .ffn = 40, .n_experts = 6};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 8, 2, 9);
  CachedRig host(model, {});
  const std::vector<float> expected = host.run(in.routing, in.x, in.y);
  Arena arena(model);
  UnreliableSource source(*arena.source, model.layout);
  CachedRig rig(model, {.where = GetParam(), .slots = 4, .ring_places = 3, .borrows = true}, &source);
  source.failing_fetches = 1;
  expect_error(rig.try_stream(in.routing, in.x, in.y), ErrorCode::kIo, {"model.gguf"});
  EXPECT_TRUE(same_bits(rig.result(8), in.y)) << "a failed layer adds nothing";
  EXPECT_EQ(source.held(), 0);
  EXPECT_TRUE(same_bits(rig.stream(in.routing, in.x, in.y), expected));
  EXPECT_TRUE(same_bits(rig.run(in.routing, in.x, in.y), expected));
  EXPECT_EQ(source.held(), 0);
}

// Every blob in one page-locked buffer, whose bytes may only change when the copies that were noted are done.
class PinnedSource final : public experts::ExpertSource {
 public:
  PinnedSource(device::Device& device, const experts::ExpertLayout& layout, experts::ExpertSource& inner)
      : layout_(layout),
        bytes_(device.allocate_host(layout.total_bytes(), device::MemoryKind::kPinned, "pinned").value()) {
    const auto guard = bytes_->write<std::byte>(0, bytes_->bytes());
    for (int32_t l = 0; l < static_cast<int32_t>(layout.layers().size()); l++) {
      const experts::LayerLayout& layer = layout.layer(l);
      for (int32_t e = 0; e < layer.n_experts; e++) {
        const Lease lease = *inner.try_lease({l, e});
        for (int i = 0; i < static_cast<int>(layer.parts.size()); i++) {
          std::memcpy(guard.span().data() + offset({l, e}) + layer.part_offset(i), lease.part(i),
                      layer.parts[static_cast<size_t>(i)].bytes);
        }
      }
    }
  }
  const char* name() const override { return "pinned"; }
  std::optional<Lease> try_lease(ExpertKey key) override {
    const std::byte* parts[experts::kMaxParts];
    const experts::LayerLayout& layer = layout_.layer(key.layer);
    for (size_t i = 0; i < layer.parts.size(); i++) {
      parts[i] = bytes_->address() + offset(key) + layer.part_offset(static_cast<int>(i));
    }
    return make_lease(key, 0, {parts, layer.parts.size()}, bytes_.get());
  }
  Status fetch(std::span<const ExpertKey> keys, std::span<Lease> leases) override {
    for (size_t i = 0; i < keys.size(); i++) leases[i] = *try_lease(keys[i]);
    return {};
  }
  int64_t notes = 0;

 protected:
  void release(uint32_t) override {}
  void note_async_read(uint32_t, device::Stream&) override { notes++; }

 private:
  size_t offset(ExpertKey key) const {
    const experts::LayerLayout& layer = layout_.layer(key.layer);
    return static_cast<size_t>(key.layer * layer.n_experts + key.expert) * layer.blob_bytes();
  }
  const experts::ExpertLayout& layout_;
  std::unique_ptr<device::HostBuffer> bytes_;
};

TEST_P(StreamedDispatch, PinnedBytesAreCopiedWhereTheyLie) {
  const ExpertSpec spec{.n_layers = 2, .dim = 36, .ffn = 40, .n_experts = 6, .biases = true};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 8, 2, 9);
  CachedRig host(model, {});
  TestDevice devices(GetParam());
  Arena arena(model);
  PinnedSource source(devices.device(), model.layout, *arena.source);
  CachedRig rig(model, {.where = GetParam(), .slots = 4, .ring_places = 3}, &source);
  EXPECT_TRUE(same_bits(rig.stream(in.routing, in.x, in.y), host.run(in.routing, in.x, in.y)));
  EXPECT_EQ(source.notes, 12 - 4) << "one fence for each expert that came";
}

TEST_P(StreamedDispatch, FetchesNoMoreThanTheSourceHasRoomForAndSaysWhatIsNext) {
  const ExpertSpec spec{.n_layers = 2, .dim = 36, .ffn = 40, .n_experts = 12};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 8, 2, 9);
  CachedRig host(model, {});
  const std::vector<float> expected = host.run(in.routing, in.x, in.y);
  Arena arena(model);
  for (const int64_t limit : {1, 2, 5}) {
    LimitedSource source(*arena.source, model.layout, limit, 4);
    CachedRig rig(model, {.where = GetParam(), .slots = 2, .ring_places = 12}, &source);
    source.fetched = source.hinted = 0;
    EXPECT_TRUE(same_bits(rig.stream(in.routing, in.x, in.y), expected)) << limit;
    EXPECT_EQ(source.fetched, 24 - 2);
    EXPECT_EQ(source.hinted, 24 - 2 - std::max<int64_t>(limit / 2, 1)) << "each but those that are fetched first";
    EXPECT_EQ(source.held, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StreamedDispatch, testing::Values(Where::kHost, Where::kSim),
                         [](const auto& tested) { return where_name(tested.param); });

// Streams of the host allocate nothing themselves, so what is counted is ours.
TEST(StreamedDispatchOnTheHost, AStepAllocatesNothing) {
  const ExpertSpec spec{.n_layers = 2, .dim = 36, .ffn = 40, .n_experts = 8};
  const ExpertModel model(spec, random_parts(spec, 5));
  CachedRig rig(model, {.slots = 4, .ring_places = 4});
  const CachedInputs in(spec, 8, 2, 9);
  rig.stream(in.routing, in.x, in.y);
  const int64_t before = text::test::n_allocations();
  ASSERT_GT(before, 0) << "they are counted";
  rig.queue_streamed(8);
  const Status status = rig.finish();
  EXPECT_EQ(text::test::n_allocations(), before);
  EXPECT_TRUE(status.ok());
}

TEST(StreamedDispatchOnSim, TakesTheMemoryItSays) {
  const ExpertSpec spec{.n_layers = 2, .dim = 36, .ffn = 40, .n_experts = 8};
  const ExpertModel model(spec, random_parts(spec, 5));
  CachedRig plain(model, {.where = Where::kSim});
  CachedRig rig(model, {.where = Where::kSim, .ring_places = 8});
  const experts::DispatchBytes bytes = experts::StreamedDispatch::bytes_needed(rig.limits(), rig.ring());
  EXPECT_EQ(rig.device().used_bytes() - plain.device().used_bytes(), bytes.device + rig.ring().bytes());
  EXPECT_EQ(rig.machine().host_bytes() - plain.machine().host_bytes(), bytes.host);
}

// Whatever of a step fails on the device, the step says so, and the next one is right.
TEST(StreamedDispatchOnSim, EveryPointOfAStepMayFail) {
  const ExpertSpec spec{.n_layers = 2, .dim = 20, .ffn = 24, .n_experts = 6};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 8, 2, 9), other(spec, 8, 2, 10);
  CachedRig host(model, {});
  const std::vector<float> expected = host.run(in.routing, in.x, in.y);
  CachedRig rig(model, {.where = Where::kSim, .slots = 3, .ring_places = 3});
  rig.stream(other.routing, other.x, other.y);
  int n = 1;
  for (;; n++) {
    SCOPED_TRACE(n);
    ASSERT_LT(n, 1000);
    rig.set_inputs(in.routing, in.x, in.y);
    rig.machine().faults().fail_at(static_cast<uint64_t>(n));
    const uint64_t failed = rig.machine().faults().failed();
    rig.queue_streamed(8);
    const Status status = rig.finish();
    rig.machine().faults().clear();
    const bool reached = rig.machine().faults().failed() > failed;
    EXPECT_EQ(status.ok(), !reached);
    ASSERT_TRUE(same_bits(rig.stream(in.routing, in.x, in.y), expected));
    if (!reached) break;
  }
  EXPECT_GT(n, 50);
}

// In simulated time, a step that keeps the link busy as long as the device takes little more than either alone: what a
// bank computes and the way of the next ones, those of the next layer among them, go on at once.
TEST(StreamedDispatchOnSim, TheLinkAndTheDeviceWorkAtOnce) {
  const ExpertSpec spec{.n_layers = 4, .dim = 64, .ffn = 64, .n_experts = 16};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 32, 4, 3);
  const auto duration = [&](const std::string& rates) {
    CachedRig rig(model, {.where = Where::kSim,
                          .max_rows = 32,
                          .k = 4,
                          .ring_places = 16,
                          .sim_spec = "sim:64MiB/seed=5/mem=1024GiBps/host=1024GiBps" + rates});
    rig.set_inputs(in.routing, in.x, in.y);
    const int64_t start = rig.machine().now_ns();
    rig.queue_streamed(32);
    EXPECT_TRUE(rig.finish().ok());
    return static_cast<double>(rig.machine().now_ns() - start);
  };
  // 64 experts of 48 KiB at 1 GiB/s: 2.9 ms; 512 pairs of 6 * 64 * 64 operations at 4.3 GFLOP/s: 2.9 ms.
  const double link = duration("/link=1GiBps/compute=1000TFLOPs");
  const double compute = duration("/link=1024GiBps/compute=4300MFLOPs");
  const double both = duration("/link=1GiBps/compute=4300MFLOPs");
  EXPECT_NEAR(link, 2.93e6, 0.3e6);
  EXPECT_NEAR(compute, 2.93e6, 0.3e6);
  EXPECT_LT(both, 0.75 * (link + compute));
}

}  // namespace
}  // namespace strata::test
