// Direct reads that fail, come short, stall, or are asked for by many at once. M18, E01, E02 and their neighbours.
#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>
#include <vector>

#include "base/activity.h"
#include "base/asking_files.h"
#include "base/random.h"
#include "base/stepped_clock.h"
#include "experts/direct_rig.h"

namespace strata::test {
namespace {

using experts::DirectSource;
using experts::ExpertKey;
using experts::HintKind;
using experts::Lease;
using testing::HasSubstr;

constexpr int64_t kNsPerS = 1'000'000'000;

// Two keys whose parts don't touch: six reads.
const std::vector<ExpertKey> kTwo = {{0, 0}, {0, 2}};

// The rig behind files that suffer from the plan; the reads of the source are counted from 0.
class FaultyRig : public DirectRig {
 public:
  explicit FaultyRig(FaultPlan plan, int64_t n_buffers = 4, ExpertSpec spec = {.n_layers = 2})
      : DirectRig(spec), files(model.files.system(), clock, std::move(plan)) {
    experts::DirectOptions o = options(files, clock);
    o.n_buffers = n_buffers;
    source = experts::make_direct_source(o).value();
  }
  SteppedClock clock;
  FaultyFileSystem files;
  std::unique_ptr<DirectSource> source;
};

TEST(DirectFaults, AnyFailedReadIsAnErrorThatNamesFileAndOffset) {
  for (uint64_t read = 0; read < 6; read++) {
    FaultyRig rig({.at = {{read, Fault::kIoError}}});
    std::vector<Lease> leases(2);
    const Status status = rig.source->fetch(kTwo, leases);
    expect_error(status, ErrorCode::kIo, {"/models/moe.gguf", "offset "});
    for (const Lease& lease : leases) EXPECT_FALSE(lease.valid());
    // Nothing is lost: the next one reads, and there are as many buffers as before.
    std::vector<Lease> all(4);
    const std::vector<ExpertKey> keys = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
    ASSERT_TRUE(rig.source->fetch(keys, all).ok());
    for (const Lease& lease : all) EXPECT_TRUE(rig.right(lease));
    EXPECT_EQ(rig.source->n_buffers(), 4);
  }
}

TEST(DirectFaults, ShortAndInterruptedReadsGiveTheRightBytes) {
  FaultPlan plan{.seed = 3};
  plan.probability[static_cast<size_t>(Fault::kShortRead)] = 0.5;
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 0.2;
  FaultyRig rig(plan);
  for (int32_t e = 0; e < 4; e++) {
    for (int32_t l = 0; l < 2; l++) {
      const ExpertKey key{l, e};
      Lease lease;
      ASSERT_TRUE(rig.source->fetch({&key, 1}, {&lease, 1}).ok());
      EXPECT_TRUE(rig.right(lease));
    }
  }
  EXPECT_GT(rig.files.n_injected(Fault::kShortRead), 8u);
  EXPECT_GT(rig.files.n_injected(Fault::kInterrupted), 4u);
}

bool someone_is_at(std::string_view what) {
  const std::vector<ThreadActivity> all = thread_activities();
  return std::any_of(all.begin(), all.end(), [&](const ThreadActivity& seen) { return seen.what == what; });
}

// M18: a slow drive is no hang, and somebody who looks is told.
TEST(DirectFaults, AStallOfTenSecondsIsToldAndSatOut) {
  FaultyRig rig({.at = {{0, Fault::kStall}}, .stall_ns = 10 * kNsPerS});
  std::vector<Lease> leases(2);
  EXPECT_EQ(rig.source->waiting_for(), nullptr);
  Thread fetching([&] { EXPECT_TRUE(rig.source->fetch(kTwo, leases).ok()); });
  rig.clock.wait_for_sleepers(1);
  while (rig.stats.get(Counter::kStageWaits) == 0) std::this_thread::yield();
  EXPECT_EQ(rig.source->waiting_for(), nullptr);
  rig.clock.advance_s(2);
  while (rig.source->waiting_for() == nullptr) std::this_thread::yield();
  EXPECT_STREQ(rig.source->waiting_for(), "the drive");
  while (!someone_is_at("waits for an expert's read")) std::this_thread::yield();
  rig.clock.advance_s(8);
  fetching.join();
  EXPECT_EQ(rig.source->waiting_for(), nullptr);
  EXPECT_TRUE(rig.right(leases[0]));
  EXPECT_TRUE(rig.right(leases[1]));
}

// The buffer of a read that never came back is out of use until it does: another one takes its place.
TEST(DirectFaults, AReadPastTheTimeLimitFailsItsRequestOnly) {
  FaultyRig rig({.at = {{0, Fault::kStall}}, .stall_ns = 1000 * kNsPerS}, 1);
  const ExpertKey key{0, 1};
  Status status;
  Thread fetching([&] {
    Lease lease;
    status = rig.source->fetch({&key, 1}, {&lease, 1});
    EXPECT_FALSE(lease.valid());
  });
  rig.clock.wait_for_sleepers(1);
  rig.clock.advance_s(601);
  fetching.join();
  expect_error(status, ErrorCode::kIo, {"/models/moe.gguf", "no answer for 600 s", "--io-timeout-s"});
  Lease lease;
  ASSERT_TRUE(rig.source->fetch({&key, 1}, {&lease, 1}).ok());
  EXPECT_TRUE(rig.right(lease));
  EXPECT_EQ(rig.source->n_buffers(), 2);
  rig.clock.advance_s(400);  // the late bytes land where nobody looks
  rig.clock.wait_for_sleepers(0);
  EXPECT_TRUE(rig.right(lease));
  EXPECT_THAT(rig.machine->races(), testing::IsEmpty());
}

TEST(DirectFaults, AFailedHintIsNoError) {
  FaultyRig rig({.at = {{0, Fault::kIoError}}});
  const ExpertKey key{0, 1};
  rig.source->hint({&key, 1}, HintKind::kGuess);
  while (rig.stats.get(Counter::kHintsWasted) == 0) std::this_thread::yield();
  Lease lease;
  ASSERT_TRUE(rig.source->fetch({&key, 1}, {&lease, 1}).ok());
  EXPECT_TRUE(rig.right(lease));
  EXPECT_EQ(rig.stats.get(Counter::kHintsUsed), 0);
}

// Two calls want the same expert. The read of the first fails; the second looks it up anew and reads it itself.
TEST(DirectFaults, AnotherCallsFailureIsNotOnesOwn) {
  DirectRig rig({.n_layers = 1});
  SteppedClock clock;
  std::atomic<int> n_reads{0};
  AskingFiles files(rig.model.files.system(), [&](uint64_t, size_t) -> Status {
    if (n_reads++ > 0) return {};
    clock.sleep_ns(kNsPerS);
    return Error{ErrorCode::kIo, "bad block"};
  });
  const auto source = experts::make_direct_source(rig.options(files)).value();
  const ExpertKey key{0, 1};
  Status first_status, second_status;
  Lease first_lease, second_lease;
  Thread first([&] { first_status = source->fetch({&key, 1}, {&first_lease, 1}); });
  clock.wait_for_sleepers(1);
  Thread second([&] { second_status = source->fetch({&key, 1}, {&second_lease, 1}); });
  while (rig.stats.get(Counter::kStageWaits) < 2) std::this_thread::yield();
  clock.advance_s(1);
  first.join();
  second.join();
  expect_error(first_status, ErrorCode::kIo, {"bad block"});
  EXPECT_FALSE(first_lease.valid());
  ASSERT_TRUE(second_status.ok());
  EXPECT_TRUE(rig.right(second_lease));
}

// Closing with hints that have not been read: nothing hangs, and no memory is lost.
TEST(DirectFaults, ClosingGivesUpHints) {
  FaultyRig rig({.at = {{0, Fault::kStall}}, .stall_ns = kNsPerS});
  rig.source->hint(kTwo, HintKind::kGuess);
  rig.clock.wait_for_sleepers(1);
  Thread closing([&] { rig.source.reset(); });
  rig.clock.advance_s(1);
  closing.join();
  EXPECT_EQ(rig.machine->host_bytes(), 0u);
  EXPECT_THAT(rig.machine->races(), testing::IsEmpty());
}

// Eight threads, each with a stream of its own, over a drive that errs. Growth stops at what was leased at once.
TEST(DirectFaults, ManyThreadsGetTheRightBytesOrAnError) {
  constexpr int kThreads = 8, kKeys = 3;
  DirectRig rig({.n_layers = 4, .n_experts = 8});
  FaultPlan plan{.seed = 11};
  plan.probability[static_cast<size_t>(Fault::kShortRead)] = 0.1;
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 0.1;
  plan.probability[static_cast<size_t>(Fault::kIoError)] = 0.02;
  FaultyFileSystem files(rig.model.files.system(), real_clock(), plan);
  const auto source = experts::make_direct_source(rig.options(files)).value();
  const size_t bytes = rig.model.layout.layer(0).parts[0].bytes;
  std::atomic<int> n_failed{0}, n_right{0};

  const auto copied_right = [&](device::Stream& stream, device::Buffer& target, device::HostBuffer& back, Lease lease) {
    const Lease::HostPlace place = lease.host_place(0);
    stream.copy(target, 0, *place.buffer, place.offset, bytes);
    lease.note_async_read(stream);
    const auto number = std::byte{part_number(lease.key(), rig.model.layout.layer(0).parts[0].kind)};
    lease.release();
    stream.copy(back, 0, target, 0, bytes);
    return stream.synchronize().ok() && back.read<std::byte>(0, bytes)[bytes - 1] == number;
  };
  const auto work = [&](uint64_t seed) {
    Random random(seed);
    const auto stream = rig.device.make_stream("copies");
    const auto target = rig.device.allocate(bytes, "target").value();
    const auto back = rig.device.allocate_host(bytes, device::MemoryKind::kPinned, "back").value();
    for (int step = 0; step < 60; step++) {
      const auto layer = static_cast<int32_t>(step % 4);
      std::vector<ExpertKey> keys, next;
      const auto first = static_cast<int32_t>(random.below(8));
      for (int32_t k = 0; k < kKeys; k++) {
        keys.push_back({layer, (first + 3 * k) % 8});
        next.push_back({(layer + 1) % 4, static_cast<int32_t>(random.below(8))});
      }
      std::vector<Lease> leases(keys.size());
      const Status status = source->fetch(keys, leases);
      source->hint(next, HintKind::kGuess);
      if (!status.ok()) {
        n_failed++;
        for (const Lease& lease : leases) EXPECT_FALSE(lease.valid());
        continue;
      }
      for (Lease& lease : leases) {
        EXPECT_TRUE(rig.right(lease));
        EXPECT_TRUE(copied_right(*stream, *target, *back, std::move(lease)));
        n_right++;
      }
      const std::optional<Lease> present = source->try_lease(next[0]);
      EXPECT_TRUE(!present || rig.right(*present));
      static_cast<void>(source->waiting_for());
    }
  };
  std::vector<std::unique_ptr<Thread>> threads;
  for (uint64_t t = 0; t < kThreads; t++) threads.push_back(std::make_unique<Thread>([&, t] { work(t); }));
  threads.clear();
  EXPECT_GT(n_failed, 0);
  EXPECT_GT(n_right, 100);
  EXPECT_LE(source->n_buffers(), kThreads * (kKeys + 1));
  source->end_start_up();
  EXPECT_EQ(source->n_buffers(), 4);
  EXPECT_GT(rig.stats.get(Counter::kHintsUsed), 0);
  EXPECT_GT(rig.stats.get(Counter::kStageHits), 0);
  ASSERT_TRUE(rig.machine->health().ok()) << rig.machine->races()[0];
}

}  // namespace
}  // namespace strata::test
