// The resident copy: right bytes for every form of file, what the fallback is asked for, loans, and what fails.
#include <algorithm>

#include "base/clock.h"
#include "experts/cache.h"
#include "experts/counting_source.h"
#include "experts/lend_region.h"
#include "experts/sources/resident.h"
#include "experts/support.h"
#include "experts/test_devices.h"

namespace strata::test {
namespace {

using experts::blobs_of;
using experts::CachedKeys;
using experts::ExpertCache;
using experts::ExpertKey;
using experts::ExpertSource;
using experts::HintKind;
using experts::Lease;
using experts::PartKind;
using experts::ResidentPlan;
using experts::ResidentSource;
using experts::SlotPlan;
using Form = ExpertSpec::Form;

constexpr uint64_t kPlenty = 64 * kMiB;

// Every part of the lease is full of its own number.
void expect_numbered(const Lease& lease, const ExpertModel& m) {
  ASSERT_TRUE(lease.valid());
  const auto& parts = m.layout.layer(lease.key().layer).parts;
  for (size_t p = 0; p < parts.size(); p++) {
    const std::byte* at = lease.part(static_cast<int>(p));
    const bool fused = parts[p].kind == PartKind::kGateUp;
    const auto n = static_cast<std::ptrdiff_t>(fused ? parts[p].bytes / 2 : parts[p].bytes);
    const auto number = std::byte{part_number(lease.key(), fused ? PartKind::kGate : parts[p].kind)};
    EXPECT_EQ(std::count(at, at + n, number), n);
    if (!fused) continue;
    EXPECT_EQ(std::count(at + n, at + 2 * n, std::byte{part_number(lease.key(), PartKind::kUp)}), n);
  }
}

std::vector<ExpertKey> all_keys(const ExpertModel& m) {
  std::vector<ExpertKey> keys;
  for (int32_t l = 0; l < m.spec.n_layers; l++) {
    for (int32_t e = 0; e < m.spec.n_experts; e++) keys.push_back({l, e});
  }
  return keys;
}

// A source over mapped files that counts, fails when told to, and remembers hints.
class Fallback final : public ExpertSource {
 public:
  Fallback(const ExpertModel& m, Stats& stats)
      : mapped_(make_mapped_source(*m.model, m.layout, stats).value()) {}
  const char* name() const override { return "fallback"; }
  std::optional<Lease> try_lease(ExpertKey key) override {
    if (!in_memory) return std::nullopt;
    return mapped_->try_lease(key);
  }
  Status fetch(std::span<const ExpertKey> keys, std::span<Lease> leases) override {
    calls.emplace_back(keys.begin(), keys.end());
    if (failing_calls > 0 && --failing_calls == 0) return Error{ErrorCode::kIo, "cannot read moe.gguf"};
    return mapped_->fetch(keys, leases);
  }
  size_t hint(std::span<const ExpertKey> keys, HintKind) override {
    hints.insert(hints.end(), keys.begin(), keys.end());
    return keys.size();
  }
  int64_t lease_limit() const override { return 7; }
  Status health() const override { return healthy ? Status() : Error{ErrorCode::kIo, "moe.gguf was cut"}; }

  bool in_memory = true;
  bool healthy = true;
  int failing_calls = 0;  // the n-th one from here fails; 0: none
  std::vector<std::vector<ExpertKey>> calls;
  std::vector<ExpertKey> hints;

 protected:
  void release(uint32_t) override {}
  void note_async_read(uint32_t, device::Stream&) override {}

 private:
  std::unique_ptr<ExpertSource> mapped_;
};

// A copy of a plan in the host memory of a device.
struct Copy {
  Copy(const ExpertModel& m, device::Device& device, device::host::HostDevice& host, const ResidentPlan& plan,
       uint64_t pin_bytes_max = 0, uint64_t step_bytes = kGiB) {
    auto below = std::make_unique<Fallback>(m, stats);
    fallback = below.get();
    source = ResidentSource::create({.model = *m.model, .layout = m.layout, .device = device,
                                     .threads = host.compute().pool(), .stats = stats,
                                     .pin_bytes_max = pin_bytes_max, .step_bytes = step_bytes},
                                    plan, std::move(below))
                 .value();
  }
  Stats stats;
  Fallback* fallback;
  std::unique_ptr<ResidentSource> source;
};

ResidentPlan complement(const ExpertModel& m, const std::vector<CachedKeys>& caches, uint64_t budget = kPlenty) {
  return ResidentPlan::complement(blobs_of(m.layout), caches, budget).value();
}

TEST(Resident, HoldsTheExpertsOfThePlanWhateverTheFilesLookLike) {
  TestDevice devices(Where::kHost, 3);
  for (const ExpertSpec& spec : {ExpertSpec{.n_layers = 2},
                                 ExpertSpec{.form = Form::kFused, .n_layers = 2, .biases = true},
                                 ExpertSpec{.form = Form::kSeparate, .n_layers = 2},
                                 ExpertSpec{.n_layers = 1, .dim = 64, .n_experts = 9,
                                            .gate_up_type = quant::Type::Q8_0, .down_type = quant::Type::MXFP4,
                                            .biases = true, .scales = true}}) {
    for (const int n_files : {1, 3}) {
      const ExpertModel m(spec, numbered_parts(), n_files);
      const ResidentPlan plan = complement(m, {{{0, 1}, {0, 2}}});
      Copy copy(m, devices.device(), devices.host(), plan);
      EXPECT_EQ(copy.source->bytes(), plan.bytes());
      EXPECT_EQ(devices.host().used_bytes(), plan.bytes());
      const std::vector<ExpertKey> keys = all_keys(m);
      std::vector<Lease> leases(keys.size());
      ASSERT_TRUE(copy.source->fetch(keys, leases).ok());
      for (size_t i = 0; i < keys.size(); i++) {
        EXPECT_EQ(leases[i].key(), keys[i]);
        expect_numbered(leases[i], m);
        EXPECT_EQ(copy.source->holds(keys[i]), plan.has(keys[i]));
        EXPECT_EQ(leases[i].host_place(0).buffer != nullptr, plan.has(keys[i]));
      }
      EXPECT_EQ(copy.source->file_reads(), 2);
      EXPECT_EQ(copy.stats.get(Counter::kResidentLeases), static_cast<int64_t>(keys.size()) - 2);
    }
  }
  EXPECT_EQ(devices.host().used_bytes(), 0u);
}

TEST(Resident, AsksTheFallbackOnceForAllThatItLacks) {
  TestDevice devices(Where::kHost);
  const ExpertModel m({.n_layers = 2}, numbered_parts());
  Copy copy(m, devices.device(), devices.host(), complement(m, {{{0, 1}, {0, 3}, {1, 0}}}));
  const std::vector<ExpertKey> keys = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  std::vector<Lease> leases(keys.size());
  ASSERT_TRUE(copy.source->fetch(keys, leases).ok());
  EXPECT_EQ(copy.fallback->calls, (std::vector<std::vector<ExpertKey>>{{{0, 1}, {0, 3}}}));
  ASSERT_TRUE(copy.source->fetch(std::span(keys).first(1), std::span(leases).first(1)).ok());
  EXPECT_EQ(copy.fallback->calls.size(), 1u);  // nothing was missing
  EXPECT_EQ(copy.source->lease_limit(), 7);

  copy.source->hint(keys, HintKind::kGuess);
  EXPECT_EQ(copy.fallback->hints, (std::vector<ExpertKey>{{0, 1}, {0, 3}}));
  copy.source->hint(std::span(keys).first(1), HintKind::kGuess);
  EXPECT_EQ(copy.fallback->hints.size(), 2u);
}

TEST(Resident, ExpertsTakeThePlacesOfOthers) {
  TestDevice devices(Where::kHost);
  const ExpertModel m({.n_layers = 2}, numbered_parts());
  Copy copy(m, devices.device(), devices.host(), complement(m, {{{0, 1}, {0, 3}, {1, 0}}}));
  const uint64_t used = devices.host().used_bytes();
  const std::vector<experts::Move> moves = {{{0, 1}, {0, 2}}, {{1, 0}, {1, 3}}};
  ASSERT_TRUE(copy.source->replace(moves).ok());
  EXPECT_EQ(copy.fallback->calls.size(), 1u);  // read together
  const auto expect_moved = [&] {
    for (const experts::Move& move : moves) {
      EXPECT_TRUE(copy.source->holds(move.in));
      EXPECT_FALSE(copy.source->holds(move.out));
    }
    const int64_t reads = copy.source->file_reads();
    for (const ExpertKey key : all_keys(m)) expect_numbered(*copy.source->try_lease(key), m);
    EXPECT_EQ(copy.source->file_reads(), reads + 3);
  };
  expect_moved();
  EXPECT_EQ(devices.host().used_bytes(), used);

  copy.fallback->failing_calls = 1;  // leaves everything as it was
  EXPECT_FALSE(copy.source->replace(std::vector<experts::Move>{{{0, 2}, {0, 1}}}).ok());
  expect_moved();
  copy.fallback->healthy = false;  // bytes that can't be trusted stay outside
  EXPECT_FALSE(copy.source->replace(std::vector<experts::Move>{{{0, 2}, {0, 0}}}).ok());
  EXPECT_FALSE(copy.source->holds({0, 2}));
  copy.fallback->healthy = true;
  for (const ExpertKey key : all_keys(m)) expect_numbered(*copy.source->try_lease(key), m);
  EXPECT_EQ(copy.stats.get(Counter::kResidentReplaced), 2);
}

TEST(Resident, WhatTheFallbackHasInMemoryCanBeTried) {
  TestDevice devices(Where::kHost);
  const ExpertModel m({.n_layers = 1}, numbered_parts());
  Copy copy(m, devices.device(), devices.host(), complement(m, {{{0, 2}}}));
  expect_numbered(*copy.source->try_lease({0, 0}), m);
  expect_numbered(*copy.source->try_lease({0, 2}), m);
  EXPECT_EQ(copy.source->file_reads(), 1);
  copy.fallback->in_memory = false;
  EXPECT_FALSE(copy.source->try_lease({0, 2}).has_value());
  EXPECT_EQ(copy.source->file_reads(), 1);
  EXPECT_TRUE(copy.source->try_lease({0, 1}).has_value());
  EXPECT_STREQ(copy.source->name(), "resident");
}

TEST(Resident, ServesMoreExpertsAtOnceThanItAsksFor) {
  TestDevice devices(Where::kHost);
  const ExpertModel m({.dim = 2, .ffn = 2, .n_experts = 700}, numbered_parts());
  CachedKeys cached;
  for (int32_t e = 0; e < 700; e++) {
    if (e % 7 != 3) cached.push_back({0, e});
  }
  Copy copy(m, devices.device(), devices.host(), complement(m, {cached}));
  std::vector<ExpertKey> keys = all_keys(m);
  std::reverse(keys.begin(), keys.end());
  std::vector<Lease> leases(keys.size());
  ASSERT_TRUE(copy.source->fetch(keys, leases).ok());
  for (size_t i = 0; i < keys.size(); i++) {
    ASSERT_EQ(leases[i].key(), keys[i]);
    expect_numbered(leases[i], m);
  }
  EXPECT_EQ(copy.source->file_reads(), 600);
  copy.source->hint(keys, HintKind::kGuess);
  EXPECT_EQ(copy.fallback->hints.size(), 600u);
}

TEST(Resident, AFetchThatFailsHoldsNoLease) {
  TestDevice devices(Where::kHost);
  const ExpertModel m({.dim = 2, .ffn = 2, .n_experts = 700}, numbered_parts());
  for (const int failing : {1, 2, 3}) {
    Copy copy(m, devices.device(), devices.host(), complement(m, {{{0, 1}, {0, 300}, {0, 699}}}));
    const std::vector<ExpertKey> keys = all_keys(m);
    std::vector<Lease> leases(keys.size());
    copy.fallback->failing_calls = failing;
    expect_error(copy.source->fetch(keys, leases), ErrorCode::kIo, {"moe.gguf"});
    for (const Lease& lease : leases) EXPECT_FALSE(lease.valid());
    ASSERT_TRUE(copy.source->fetch(keys, leases).ok());
  }
}

TEST(Resident, ItsHealthIsTheFallbacks) {
  TestDevice devices(Where::kHost);
  const ExpertModel m({.n_layers = 1}, numbered_parts());
  Copy copy(m, devices.device(), devices.host(), complement(m, {}));
  EXPECT_TRUE(copy.source->health().ok());
  copy.fallback->healthy = false;
  expect_error(copy.source->health(), ErrorCode::kIo, {"was cut"});
}

// A model of two layers, each a part of its own on a device with a cache that holds all of the layer's experts.
struct TwoParts {
  explicit TwoParts(int64_t lent_slots) {
    for (int32_t part = 0; part < 2; part++) {
      std::vector<ExpertKey> ranking;
      for (int32_t e = 0; e < m.spec.n_experts; e++) ranking.push_back({part, e});
      plans.push_back(SlotPlan::make(m.layout, ranking, {.budget_bytes = kPlenty, .max_slots = 100}).value());
      loan_bytes = static_cast<uint64_t>(lent_slots) * plans.back().slots()[0].bytes;
      regions.push_back(lend_region(plans.back(), loan_bytes, rule));
      caches.push_back(ranking);
    }
  }
  // A copy of what the budget has room for.
  ResidentPlan plan(uint64_t budget) const {
    ResidentPlan plan = complement(m, caches, budget);
    for (const auto& region : regions) plan.keep_lent(region).value();
    return plan;
  }

  ExpertModel m{{.n_layers = 2, .n_experts = 10}, numbered_parts()};
  experts::LoanRule rule{.min_slots = 1, .n_experts = 20};
  std::vector<SlotPlan> plans;
  std::vector<std::vector<ExpertKey>> regions;
  std::vector<CachedKeys> caches;
  uint64_t loan_bytes = 0;
};

// Two devices whose caches are filled and then lend; the experts that no cache holds meanwhile.
class LendingParts {
 public:
  LendingParts(const TwoParts& parts, ExpertSource& source, Stats& stats) {
    for (const SlotPlan& plan : parts.plans) {
      device::Device& device = machine_->device(static_cast<int>(caches_.size()));
      streams_.push_back(device.make_stream("test"));
      caches_.push_back(ExpertCache::create(
                            {.device = device, .stream = *streams_.back(), .source = source, .layout = parts.m.layout,
                             .stats = stats, .min_slots = slots_kept(plan.n_slots(), parts.rule)},
                            plan)
                            .value());
      EXPECT_TRUE(caches_.back()->fill().ok());
    }
  }
  ~LendingParts() { EXPECT_EQ(machine_->races(), std::vector<std::string>()); }

  std::vector<ExpertKey> lend(const TwoParts& parts) {
    std::vector<ExpertKey> lent;
    for (const auto& cache : caches_) {
      EXPECT_TRUE(cache->lend(parts.loan_bytes).ok());
    }
    for (const ExpertKey key : all_keys(parts.m)) {
      if (caches_[static_cast<size_t>(key.layer)]->slot(key) < 0) lent.push_back(key);
    }
    return lent;
  }
  void restore() {
    for (const auto& cache : caches_) EXPECT_TRUE(cache->restore().ok());
  }

 private:
  std::unique_ptr<device::sim::SimMachine> machine_ = device::sim::make_sim("sim:2x64MiB/seed=3").value();
  std::vector<std::unique_ptr<device::Stream>> streams_;
  std::vector<std::unique_ptr<ExpertCache>> caches_;
};

TEST(ResidentRegions, LentExpertsAreServedFromTheCopy) {
  TestDevice devices(Where::kHost);
  const TwoParts parts(3);
  const ResidentPlan plan = parts.plan(kPlenty);
  ASSERT_EQ(plan.blobs().size(), 6u);  // the two regions and nothing else
  Copy copy(parts.m, devices.device(), devices.host(), plan);
  LendingParts lending(parts, *copy.source, copy.stats);
  const int64_t before = copy.source->file_reads();  // the caches' other experts
  EXPECT_EQ(before, 14);

  const std::vector<ExpertKey> lent = lending.lend(parts);
  ASSERT_EQ(lent.size(), 6u);
  std::vector<Lease> leases(lent.size());
  ASSERT_TRUE(copy.source->fetch(lent, leases).ok());
  for (const Lease& lease : leases) expect_numbered(lease, parts.m);
  lending.restore();  // puts the same experts back
  EXPECT_EQ(copy.source->file_reads() - before, 0);
}

TEST(ResidentRegions, ABudgetThatCutsTheSecondLeavesThePairPastItToTheFile) {
  TestDevice devices(Where::kHost);
  const TwoParts parts(3);
  const uint64_t blob = parts.m.layout.layer(0).blob_bytes();
  const ResidentPlan plan = parts.plan(6 * blob - 1);
  ASSERT_EQ(plan.blobs().size(), 5u);
  Copy copy(parts.m, devices.device(), devices.host(), plan);
  LendingParts lending(parts, *copy.source, copy.stats);
  const std::vector<ExpertKey> lent = lending.lend(parts);
  ASSERT_EQ(lent.size(), 6u);
  const int64_t before = copy.source->file_reads();
  std::vector<Lease> leases(lent.size());
  copy.fallback->calls.clear();
  ASSERT_TRUE(copy.source->fetch(lent, leases).ok());
  EXPECT_EQ(copy.source->file_reads() - before, 1);
  // The lowest lent slot of the second part: the walk comes to it last.
  EXPECT_EQ(copy.fallback->calls, (std::vector<std::vector<ExpertKey>>{{{1, 7}}}));
}

TEST(ResidentRegions, WithoutRegionsNothingIsKept) {
  TwoParts parts(0);
  EXPECT_TRUE(parts.plan(kPlenty).blobs().empty());
  EXPECT_EQ(parts.plan(kPlenty).bytes(), 0u);
}

// Layers of ten blobs on a simulated device, in steps of three blobs.
class Pinning : public testing::Test {
 protected:
  uint64_t blob() const { return m.layout.layer(0).blob_bytes(); }
  std::unique_ptr<Copy> copy(uint64_t pin_bytes_max) {
    return std::make_unique<Copy>(m, machine->device(0), host, complement(m, {}), pin_bytes_max, 3 * blob() + 1);
  }
  // Of the experts of the layer, how many from the first one on are pinned; none behind may be.
  int64_t pinned(const ResidentSource& source) {
    int64_t n = 0;
    while (n < 10 && source.pinned({0, static_cast<int32_t>(n)})) n++;
    for (auto e = static_cast<int32_t>(n); e < 10; e++) EXPECT_FALSE(source.pinned({0, e}));
    EXPECT_EQ(source.n_pinned(), n);
    EXPECT_EQ(source.pinned_bytes(), static_cast<uint64_t>(n) * blob());
    for (int32_t e = 0; e < 10; e++) {
      const auto* buffer = const_cast<ResidentSource&>(source).try_lease({0, e})->host_place(0).buffer;
      EXPECT_EQ(buffer->kind() == device::MemoryKind::kPinned, e < n);
    }
    return n;
  }

  device::host::HostDevice host{host_options(2)};
  std::unique_ptr<device::sim::SimMachine> machine = device::sim::make_sim("sim:64MiB").value();
  ExpertModel m{{.n_experts = 10}, numbered_parts()};
};

TEST_F(Pinning, GoesInStepsThatEndWithAnExpertAsFarAsThereIsRoom) {
  EXPECT_EQ(pinned(*copy(kPlenty)->source), 10);
  EXPECT_EQ(pinned(*copy(10 * blob())->source), 10);
  EXPECT_EQ(pinned(*copy(10 * blob() - 1)->source), 9);
  EXPECT_EQ(pinned(*copy(9 * blob() - 1)->source), 6);
  EXPECT_EQ(pinned(*copy(3 * blob())->source), 3);
  EXPECT_EQ(pinned(*copy(3 * blob() - 1)->source), 0);
  EXPECT_EQ(pinned(*copy(0)->source), 0);
  EXPECT_EQ(machine->host_bytes(), 0u);
  EXPECT_EQ(machine->races(), std::vector<std::string>());
}

TEST_F(Pinning, ThatIsRefusedLeavesTheRestPageable) {
  machine->faults().fail_at(device::sim::FaultPoint::kAllocation, 2);
  const auto partly = copy(kPlenty);
  EXPECT_EQ(pinned(*partly->source), 3);
  for (const ExpertKey key : all_keys(m)) expect_numbered(*partly->source->try_lease(key), m);
  EXPECT_EQ(partly->source->file_reads(), 0);
}

TEST_F(Pinning, WhereNotEvenPageableMemoryIsThereIsAnError) {
  machine->faults().fail_at(device::sim::FaultPoint::kAllocation, 4);
  Stats stats;
  const auto made = ResidentSource::create(
      {.model = *m.model, .layout = m.layout, .device = machine->device(0), .threads = host.compute().pool(),
       .stats = stats, .step_bytes = 3 * blob()},
      complement(m, {}), std::make_unique<Fallback>(m, stats));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(machine->host_bytes(), 0u);
}

TEST_F(Pinning, ACopyOutOfThePinnedPartReadsItWhenItRuns) {
  const auto resident = copy(kPlenty);
  device::Device& device = machine->device(0);
  const auto stream = device.make_stream("test");
  const auto target = make_buffer(device, blob());
  Lease lease = *resident->source->try_lease({0, 4});
  const Lease::HostPlace place = lease.host_place(0);
  const size_t bytes = m.layout.layer(0).parts[0].bytes;
  stream->copy(*target, 0, *place.buffer, place.offset, bytes);
  lease.note_async_read(*stream);
  lease.release();
  ASSERT_TRUE(stream->synchronize().ok());
  const auto got = download<uint8_t>(*stream, *target, 0, bytes);
  EXPECT_EQ(got, std::vector<uint8_t>(bytes, part_number({0, 4}, PartKind::kGate)));
  EXPECT_EQ(machine->races(), std::vector<std::string>());
}

// The reads of a load, and which of them fail.
class Loading : public testing::Test {
 protected:
  Result<std::unique_ptr<ResidentSource>> load(const ExpertModel& m, FaultPlan plan, uint64_t step_bytes = kGiB) {
    files = std::make_unique<FaultyFileSystem>(const_cast<ExpertFiles&>(m.files).system(), clock, std::move(plan));
    auto opened = gguf::Model::open(m.files.path(), *files);
    if (!opened.ok()) return opened.error();
    model = std::move(opened).value();
    reads_of_opening = files->n_reads();
    return ResidentSource::create({.model = *model, .layout = m.layout, .device = host,
                                   .threads = host.compute().pool(), .stats = stats, .step_bytes = step_bytes},
                                  complement(m, {}), std::make_unique<Fallback>(m, stats));
  }

  ManualClock clock;
  device::host::HostDevice host{host_options(3)};
  Stats stats;
  std::unique_ptr<FaultyFileSystem> files;
  std::unique_ptr<gguf::Model> model;
  uint64_t reads_of_opening = 0;
};

TEST_F(Loading, WhatLiesTogetherIsOneRead) {
  // 96 KiB of one tensor behind the other.
  ASSERT_TRUE(load(ExpertModel({.n_layers = 1}, numbered_parts()), {}).ok());
  EXPECT_EQ(stats.get(Counter::kFileReads), 1);
  EXPECT_EQ(stats.get(Counter::kFileReadBytes), 96 * 1024);
  stats.reset();
  // In three files, with the tensors dealt out in turn.
  ASSERT_TRUE(load(ExpertModel({.n_layers = 2}, numbered_parts(), 3), {}).ok());
  EXPECT_EQ(stats.get(Counter::kFileReads), 3);
  stats.reset();
  // Reads end after 1 MiB: 5 MiB that start aligned, of parts of 8 KiB each.
  ASSERT_TRUE(load(ExpertModel({.n_layers = 10, .n_experts = 20}, numbered_parts()), {}).ok());
  EXPECT_GE(stats.get(Counter::kFileReads), 5);
  EXPECT_LE(stats.get(Counter::kFileReads), 6);
  EXPECT_EQ(stats.get(Counter::kFileReadBytes), 10 * 20 * 3 * 8192);
  stats.reset();
  // A part that is larger than a read's buffer is a read of its own.
  ASSERT_TRUE(load(ExpertModel({.dim = 512, .ffn = 600, .n_experts = 2}, numbered_parts()), {}).ok());
  EXPECT_EQ(stats.get(Counter::kFileReads), 6);
}

TEST_F(Loading, AnyReadThatFailsEndsIt) {
  const ExpertModel m({.n_layers = 4, .n_experts = 16}, numbered_parts(), 3);
  const uint64_t step = 16 * m.layout.layer(0).blob_bytes();
  ASSERT_TRUE(load(m, {}, step).ok());
  const uint64_t reads = files->n_reads() - reads_of_opening;
  ASSERT_EQ(reads, 12u);  // of three files in each of four steps
  for (uint64_t i = 0; i < reads; i++) {
    const auto source = load(m, {.at = {{reads_of_opening + i, Fault::kIoError}}}, step);
    ASSERT_FALSE(source.ok()) << "read " << i;
    EXPECT_EQ(source.error().code, ErrorCode::kIo);
    EXPECT_THAT(source.error().message, testing::HasSubstr("/models/moe-0000"));
    EXPECT_THAT(source.error().message, testing::HasSubstr("offset"));
    EXPECT_EQ(host.used_bytes(), 0u);
  }
}

TEST_F(Loading, ShortAndInterruptedReadsGiveTheRightBytes) {
  const ExpertModel m({.n_layers = 4, .n_experts = 16}, numbered_parts(), 3);
  FaultPlan plan{.seed = 3};
  plan.probability[static_cast<size_t>(Fault::kShortRead)] = 0.5;
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 0.2;
  const auto source = load(m, plan, 8 * m.layout.layer(0).blob_bytes());
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_GT(files->n_injected(Fault::kShortRead), 10u);
  for (const ExpertKey key : all_keys(m)) expect_numbered(*(*source)->try_lease(key), m);
}

TEST_F(Loading, StaysWithinTheBudgetOfTheDevice) {
  const ExpertModel m({.n_layers = 2}, numbered_parts());
  device::host::HostDevice small(host_options(1, m.layout.total_bytes() - 1));
  expect_error(ResidentSource::create({.model = *m.model, .layout = m.layout, .device = small,
                                       .threads = small.compute().pool(), .stats = stats},
                                      complement(m, {}), std::make_unique<Fallback>(m, stats)),
               ErrorCode::kNoMemory, {"resident copy", "192 KiB"});
  EXPECT_EQ(stats.get(Counter::kFileReads), 0);
}

}  // namespace
}  // namespace strata::test
