// Simulated time, against numbers worked out by hand: what operations, copies, tasks and reads take, and how time goes
// from one to the next along events, tickets, joins and locks. Rates are chosen so that a byte takes whole nanoseconds.
#include "device/sim/timing.h"

#include "base/mutex.h"
#include "base/sync.h"
#include "device/sim/support.h"

namespace strata::test {
namespace {

using device::sim::duration_ns;
using device::sim::kTimeMax;
using device::sim::Link;

TEST(SimTiming, DurationsAreRoundedUpAndDoNotOverflow) {
  EXPECT_EQ(duration_ns(0, 1), 0);
  EXPECT_EQ(duration_ns(1, 1'000'000'000), 1);
  EXPECT_EQ(duration_ns(1, 3'000'000'000), 1);
  EXPECT_EQ(duration_ns(10, 3'000'000'000), 4);
  EXPECT_EQ(duration_ns(1024 * kGiB, 1024 * kGiB), 1'000'000'000);
  EXPECT_EQ(duration_ns(UINT64_MAX, 1), kTimeMax);
  EXPECT_EQ(device::sim::later(kTimeMax, kTimeMax), kTimeMax);
}

TEST(SimTiming, ALinkServesOneAtATime) {
  Link link;
  EXPECT_EQ(link.reserve(100, 10), 100);
  EXPECT_EQ(link.reserve(105, 10), 110);
  EXPECT_EQ(link.reserve(0, 100), 0) << "what is ready earlier takes the gap before";
  EXPECT_EQ(link.reserve(0, 1), 120);
  EXPECT_EQ(link.reserve(200, 10), 200);
  EXPECT_EQ(link.reserve(0, 80), 210) << "the gap of 79 is too short";
  EXPECT_EQ(link.reserve(0, 79), 121);
  EXPECT_EQ(link.reserve(50, 0), 50) << "nothing takes no time";
}

TEST(SimTiming, ALinkKeepsServingAfterManyTransfers) {
  Link link;
  for (int i = 999; i >= 0; i--) EXPECT_EQ(link.reserve(i * 20, 10), i * 20);
  EXPECT_EQ(link.reserve(19'900, 10), 19'910) << "recent gaps are kept";
}

class SimTimingTest : public testing::TestWithParam<int> {
 protected:
  // A byte takes 1 ns over the link of device 0, 2 ns over that of device 1, 4 ns between them, 10 ns under a host task
  // and 5 ns from the drive. An operation takes 1 ns an arithmetic operation, or 1 ns for two bytes.
  std::unique_ptr<SimMachine> machine_ = machine_of(
      "sim:2x1MiB/link=1000000000Bps,500000000Bps/peer=250000000Bps/mem=2000000000Bps/compute=1GFLOPs/"
      "host=100000000Bps/drive=200000000Bps/seed=" +
      std::to_string(GetParam()));
  SimDevice& device_ = machine_->device(0);
  std::unique_ptr<Stream> a_ = device_.make_stream("a"), b_ = device_.make_stream("b");
  std::unique_ptr<Stream> there_ = machine_->device(1).make_stream("there");
  std::unique_ptr<Buffer> x_ = device_.allocate(4000, "x").value(), y_ = device_.allocate(4000, "y").value();
  std::unique_ptr<Buffer> far_ = machine_->device(1).allocate(4000, "far").value();
  std::unique_ptr<HostBuffer> host_ = host_buffer(device_, 4000, MemoryKind::kPinned);

  int64_t end_of(Stream& stream) {
    EXPECT_TRUE(stream.synchronize().ok());
    return machine_->now_ns();
  }
};

TEST_P(SimTimingTest, CopiesTakeTheirLinks) {
  EXPECT_EQ(machine_->now_ns(), 0);
  a_->copy(*x_, 0, *host_, 0, 1000);
  EXPECT_EQ(end_of(*a_), 1000);
  there_->copy(*far_, 0, *host_, 0, 1000);
  EXPECT_EQ(end_of(*there_), 1000 + 2000);
  there_->copy(*far_, 0, *x_, 0, 1000);
  EXPECT_EQ(end_of(*there_), 3000 + 4000);
  a_->copy(*y_, 0, *x_, 0, 1000);  // reads and writes 2000 bytes
  EXPECT_EQ(end_of(*a_), 7000 + 1000);
  a_->fill_zero(*x_, 0, 1000);
  EXPECT_EQ(end_of(*a_), 8000 + 500);
  const auto other = host_buffer(device_, 1000, MemoryKind::kPinned);
  a_->copy(*other, 0, *host_, 0, 100);  // within the host: 200 bytes
  EXPECT_EQ(end_of(*a_), 8500 + 2000);
}

TEST_P(SimTimingTest, StreamsShareALinkAndNotAnother) {
  a_->copy(*x_, 0, *host_, 0, 1000);
  b_->copy(*y_, 0, *host_, 0, 1000);
  there_->copy(*far_, 0, *host_, 0, 900);
  EXPECT_EQ(end_of(*there_), 1800);
  const int64_t a = end_of(*a_);
  const int64_t b = end_of(*b_);
  EXPECT_EQ(std::max(a, b), 2000) << "one after the other";
}

TEST_P(SimTimingTest, OperationsTakeTheLongerOfArithmeticAndMemory) {
  constexpr int kOut = 8, kIn = 16, kRows = 4, kLive = 3;
  const auto live = device_.allocate(4, "live").value();
  host_->write<int32_t>(0, 1)[0] = kLive;
  a_->fill_zero(*x_, 0, 4000);
  a_->fill_zero(*y_, 0, 4000);
  a_->copy(*live, 0, *host_, 0, 4);
  const int64_t start = end_of(*a_);
  device::MatMul product{};
  product.w = {x_.get(), 0, quant::Type::F32, kOut, kIn, kIn * 4};
  product.x = device::view_of<float>(*x_, kRows, kIn, 1024);
  product.live = device::view_of<int32_t>(*live, 1, 1);
  product.y = device::view_of<float>(*y_, kRows, kOut);
  const auto graph = device_.capture([&](Stream& s) { s.enqueue(product); });
  ASSERT_TRUE(graph.ok());
  a_->enqueue(product);
  EXPECT_EQ(end_of(*a_) - start, 2 * kOut * kIn * kLive) << "against half of 512 + 256 + 4 + 128 bytes";

  // Bound by memory: y, x (read and written) and the count of live rows, two bytes a nanosecond.
  a_->enqueue(device::AddGated{.y = device::view_of<float>(*y_, kRows, kIn),
                               .gate = {},
                               .live = device::view_of<int32_t>(*live, 1, 1),
                               .x = device::view_of<float>(*x_, kRows, kIn)});
  const int64_t before = start + 2 * kOut * kIn * kLive;
  EXPECT_EQ(end_of(*a_) - before, (3 * kRows * kIn * 4 + 4) / 2);
}

TEST_P(SimTimingTest, EventsCarryTime) {
  const auto event = device_.make_event();
  a_->copy(*x_, 0, *host_, 0, 1000);
  a_->record(*event);
  a_->copy(*x_, 0, *host_, 0, 1000);
  b_->wait(*event);
  b_->fill_zero(*y_, 0, 200);  // from 1000 on
  EXPECT_EQ(end_of(*b_), 1000 + 100);
  event->synchronize();
  EXPECT_EQ(machine_->now_ns(), 1100) << "the host was later than the event";
  EXPECT_EQ(end_of(*a_), 2000);
}

TEST_P(SimTimingTest, TasksRunBesideTheirStream) {
  const HostTask task = task_of("task", []() -> Status { return {}; }, {{host_.get(), 0, 100, 1, 100, false}});
  const device::Ticket ticket = a_->host_task(task);
  a_->fill_zero(*x_, 0, 800);  // 400, beside the task's 1000
  a_->wait(ticket);
  a_->fill_zero(*x_, 0, 800);
  EXPECT_EQ(end_of(*a_), 1000 + 400);
}

TEST_P(SimTimingTest, ReadsTakeTheDriveOneAfterTheOther) {
  auto first = host_->submit_read(0, 200);
  auto second = host_->submit_read(200, 100);
  EXPECT_EQ(machine_->now_ns(), 0) << "the host goes on";
  second.reap();
  EXPECT_EQ(machine_->now_ns(), 1000 + 500);
  first.reap();
  EXPECT_EQ(machine_->now_ns(), 1500);
  a_->copy(*x_, 0, *host_, 0, 300);
  EXPECT_EQ(end_of(*a_), 1500 + 300) << "queued by a host that has waited for the drive";
}

TEST_P(SimTimingTest, ThreadsAndLocksCarryTime) {
  Mutex mutex;
  int64_t seen = -1;
  {
    Thread thread([&] {
      auto read = host_->submit_read(0, 200);
      read.reap();
      const LockGuard lock(mutex);
      seen = machine_->now_ns();
    });
  }
  EXPECT_EQ(seen, 1000);
  EXPECT_EQ(machine_->now_ns(), 1000) << "joined";
  int64_t other = -1;
  std::thread unseen([&] {
    const int64_t before = machine_->now_ns();
    const LockGuard lock(mutex);
    other = machine_->now_ns() - before;
  });
  unseen.join();
  EXPECT_EQ(other, 1000) << "from 0, by the lock alone";
}

// Seeds change the timing of the threads, and no number.
INSTANTIATE_TEST_SUITE_P(Seeds, SimTimingTest, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace strata::test
