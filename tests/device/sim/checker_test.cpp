// What orders two accesses for the checker and what does not, edge by edge; and what its reports say.
#include "base/mutex.h"
#include "base/sync.h"
#include "base/thread_pool.h"
#include "device/sim/support.h"

namespace strata::test {
namespace {

constexpr size_t kBytes = 64;

class CheckerTest : public testing::Test {
 protected:
  std::unique_ptr<SimMachine> machine_ = machine_of("sim:2x1MiB/seed=5");
  SimDevice& device_ = machine_->device(0);
  std::unique_ptr<Stream> a_ = device_.make_stream("a"), b_ = device_.make_stream("b");
  std::unique_ptr<Event> event_ = device_.make_event();
  std::unique_ptr<Buffer> x_ = device_.allocate(kBytes, "x").value(), y_ = device_.allocate(kBytes, "y").value();
  std::unique_ptr<HostBuffer> host_ = host_buffer(device_, kBytes, MemoryKind::kPinned, "host");

  void TearDown() override {
    for (Stream* stream : {a_.get(), b_.get()}) {
      static_cast<void>(stream->synchronize());
      stream->reset();
    }
  }
  // Everything queued has run or drained; how many races were reported.
  size_t n_races() {
    static_cast<void>(a_->synchronize());
    static_cast<void>(b_->synchronize());
    return machine_->races().size();
  }
  void write_x(Stream& stream) { stream.fill_zero(*x_, 0, kBytes); }
  void read_x(Stream& stream, Buffer& to) { stream.copy(to, 0, *x_, 0, kBytes); }
};

TEST_F(CheckerTest, TwoStreamsThatNothingOrders) {
  write_x(*a_);
  write_x(*b_);
  EXPECT_EQ(n_races(), 1u);
}

TEST_F(CheckerTest, ReadsDoNotRace) {
  const auto z = device_.allocate(kBytes, "z").value();
  read_x(*a_, *y_);
  read_x(*b_, *z);
  EXPECT_EQ(n_races(), 0u);
}

TEST_F(CheckerTest, OtherBytesDoNotRace) {
  a_->fill_zero(*x_, 0, kBytes / 2);
  b_->fill_zero(*x_, kBytes / 2, kBytes / 2);
  EXPECT_EQ(n_races(), 0u);
  b_->fill_zero(*x_, kBytes / 2 - 1, 1);
  a_->fill_zero(*x_, kBytes / 2 - 1, 1);
  EXPECT_EQ(n_races(), 1u);
}

TEST_F(CheckerTest, AnEventOrdersWhatIsBeforeItsRecord) {
  write_x(*a_);
  a_->record(*event_);
  b_->wait(*event_);
  read_x(*b_, *y_);
  EXPECT_EQ(n_races(), 0u);
  a_->record(*event_);
  write_x(*a_);  // after the record
  b_->wait(*event_);
  write_x(*b_);
  EXPECT_EQ(n_races(), 1u);
}

TEST_F(CheckerTest, OrderPassesThroughAThirdStream) {
  const auto c = device_.make_stream("c");
  const auto second = device_.make_event();
  write_x(*a_);
  a_->record(*event_);
  c->wait(*event_);
  c->record(*second);
  b_->wait(*second);
  write_x(*b_);
  EXPECT_EQ(n_races(), 0u);
}

TEST_F(CheckerTest, SynchronizingOrdersWhatIsQueuedAfterIt) {
  write_x(*a_);
  ASSERT_TRUE(a_->synchronize().ok());
  write_x(*b_);
  b_->record(*event_);
  event_->synchronize();
  write_x(*a_);
  EXPECT_EQ(n_races(), 0u);
}

TEST_F(CheckerTest, AnEventThatIsSeenDoneOrders) {
  write_x(*a_);
  a_->record(*event_);
  while (!event_->done()) std::this_thread::yield();
  write_x(*b_);
  EXPECT_EQ(n_races(), 0u);
}

TEST_F(CheckerTest, HostWritesBeforeTheQueueingButNotAfterIt) {
  set_bytes(*host_, 1);
  a_->copy(*x_, 0, *host_, 0, kBytes);
  EXPECT_EQ(n_races(), 0u);
  a_->copy(*x_, 0, *host_, 0, kBytes);
  set_bytes(*host_, 2);
  EXPECT_EQ(n_races(), 1u);
}

TEST_F(CheckerTest, AGuardThatIsOpenWhenACopyIsQueued) {
  {
    const auto guard = host_->write<std::byte>(0, kBytes);
    a_->copy(*x_, 0, *host_, 0, kBytes);
    static_cast<void>(a_->synchronize());
  }
  ASSERT_EQ(n_races(), 1u);
  EXPECT_NE(machine_->races()[0].find("write by host: host access at checker_test.cpp:"), std::string::npos);
  EXPECT_NE(machine_->races()[0].find("under way"), std::string::npos) << machine_->races()[0];
  EXPECT_FALSE(a_->synchronize().ok()) << "what races does not run";
}

TEST_F(CheckerTest, AReadGuardAllowsReadsAndNoWrites) {
  {
    const auto guard = host_->read<std::byte>(0, kBytes);
    a_->copy(*x_, 0, *host_, 0, kBytes);
    ASSERT_TRUE(a_->synchronize().ok());
    const auto again = host_->read<std::byte>(0, kBytes);
  }
  EXPECT_EQ(n_races(), 0u);
  const auto guard = host_->read<std::byte>(kBytes - 1, 1);
  a_->copy(*host_, 0, *x_, 0, kBytes);
  EXPECT_EQ(n_races(), 1u);
}

TEST_F(CheckerTest, TasksAreOrderedByTheirTickets) {
  const HostTask writes = task_of("writes", []() -> Status { return {}; }, {range_of(*host_, true)});
  const device::Ticket first = a_->host_task(writes);
  a_->wait(first);
  a_->copy(*x_, 0, *host_, 0, kBytes);
  const device::Ticket second = a_->host_task(writes);  // after the copy
  EXPECT_EQ(n_races(), 0u);
  a_->copy(*x_, 0, *host_, 0, kBytes);  // synchronized above
  EXPECT_EQ(n_races(), 0u);
  const device::Ticket third = a_->host_task(writes);
  a_->copy(*x_, 0, *host_, 0, kBytes);
  a_->wait(second);
  a_->wait(third);
  EXPECT_GE(n_races(), 1u);
}

TEST_F(CheckerTest, GuardsInsideATaskCountForTheTask) {
  const HostTask writes = task_of("writes", [&]() -> Status {
    set_bytes(*host_, 3);
    return {};
  });
  a_->wait(a_->host_task(writes));
  a_->copy(*x_, 0, *host_, 0, kBytes);
  EXPECT_EQ(n_races(), 0u);
  a_->host_task(writes);
  a_->copy(*x_, 0, *host_, 0, kBytes);
  EXPECT_GE(n_races(), 1u);
}

TEST_F(CheckerTest, ThreadsAreOrderedByStartAndJoin) {
  set_bytes(*host_, 1);
  {
    Thread thread([&] { set_bytes(*host_, 2); });
    thread.join();
  }
  EXPECT_EQ(first_byte(*host_), 2);
  EXPECT_EQ(n_races(), 0u);
  std::thread unseen([&] { set_bytes(*host_, 3); });
  unseen.join();
  EXPECT_EQ(n_races(), 1u) << "a thread that nobody has told of is ordered after nothing";
}

TEST_F(CheckerTest, LocksOrder) {
  Mutex mutex;
  const auto write = [&] {
    const LockGuard lock(mutex);
    set_bytes(*host_, 1);
  };
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < 3; i++) threads.push_back(std::make_unique<Thread>(write));
  threads.clear();
  EXPECT_EQ(n_races(), 0u);
}

TEST_F(CheckerTest, OtherLocksDoNotOrder) {
  Mutex first, second;
  Thread a([&] {
    const LockGuard lock(first);
    set_bytes(*host_, 1);
  });
  Thread b([&] {
    const LockGuard lock(second);
    set_bytes(*host_, 1);
  });
  a.join();
  b.join();
  EXPECT_EQ(n_races(), 1u);
}

TEST_F(CheckerTest, WorkersOfAPoolInheritAndJoin) {
  ThreadPool pool({.n_threads = 3, .spin_us = 0});
  const auto big = host_buffer(device_, 4096, MemoryKind::kPinned, "big");
  const auto wide = device_.allocate(4096, "wide").value();
  for (int round = 0; round < 20; round++) {
    set_bytes(*big, 0);
    pool.for_each(64, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++) big->write<std::byte>(static_cast<size_t>(i) * 64, 64)[0] = std::byte{1};
    });
    a_->copy(*wide, 0, *big, 0, 4096);
    ASSERT_TRUE(a_->synchronize().ok());
  }
  EXPECT_EQ(n_races(), 0u);
}

TEST_F(CheckerTest, AReadBelongsToNobodyUntilItIsReaped) {
  auto read = host_->submit_read(0, kBytes);
  read.reap();
  a_->copy(*x_, 0, *host_, 0, kBytes);
  ASSERT_TRUE(a_->synchronize().ok());
  read = host_->submit_read(0, kBytes);
  EXPECT_EQ(n_races(), 0u);
  first_byte(*host_);
  EXPECT_EQ(n_races(), 1u);
  read.reap();
  a_->copy(*x_, 0, *host_, 0, kBytes);
  EXPECT_EQ(machine_->races().size(), 1u);
  read = host_->submit_read(0, kBytes);
  EXPECT_EQ(n_races(), 2u) << "submitted while a copy reads";
}

TEST_F(CheckerTest, ManyReadsUseFewSlots) {
  for (int i = 0; i < 1000; i++) {
    auto first = host_->submit_read(0, 32);
    auto second = host_->submit_read(32, 32);
  }
  EXPECT_EQ(n_races(), 0u);
}

TEST_F(CheckerTest, PageableSourcesAreReadByTheCaller) {
  const auto pageable = host_buffer(device_, kBytes, MemoryKind::kPageable, "pageable");
  a_->copy(*x_, 0, *pageable, 0, kBytes);
  set_bytes(*pageable, 1);
  EXPECT_EQ(n_races(), 0u);
}

TEST_F(CheckerTest, FreeingIsAWrite) {
  auto z = device_.allocate(kBytes, "z").value();
  a_->fill_zero(*z, 0, kBytes);
  ASSERT_TRUE(a_->synchronize().ok());
  z.reset();
  EXPECT_EQ(n_races(), 0u);
  z = device_.allocate(kBytes, "z").value();
  a_->fill_zero(*z, 0, kBytes);
  z.reset();
  ASSERT_EQ(machine_->races().size(), 1u);
  EXPECT_NE(machine_->races()[0].find("write by host: freeing"), std::string::npos);
  EXPECT_FALSE(machine_->health().ok());
}

TEST_F(CheckerTest, ARaceFailsItsStreamAndIsReportedOnce) {
  for (int i = 0; i < 5; i++) {
    write_x(*a_);
    write_x(*b_);
    const Status a = a_->synchronize(), b = b_->synchronize();
    ASSERT_NE(a.ok(), b.ok()) << "the one that comes second fails";
    EXPECT_EQ((a.ok() ? b : a).error().code, ErrorCode::kInternal);
    a_->reset();
    b_->reset();
  }
  EXPECT_LE(machine_->races().size(), 2u) << "once for each order";
  EXPECT_EQ(machine_->n_races(), 5u);
}

TEST_F(CheckerTest, GraphsRaceLikeWhatTheyRecord) {
  const auto graph = device_.capture([&](Stream& s) { write_x(s); }).value();
  graph->replay(*a_);
  graph->replay(*b_);
  EXPECT_EQ(n_races(), 1u);
}

// Rows of one buffer, with a gap between them that another stream may use.
TEST_F(CheckerTest, StridedViewsTouchTheirRowsOnly) {
  const auto live = device_.allocate(sizeof(int32_t), "live").value();
  a_->fill_zero(*live, 0, sizeof(int32_t));
  a_->fill_zero(*y_, 0, kBytes);
  ASSERT_TRUE(a_->synchronize().ok());
  const auto add = [&](Stream& s, int64_t column) {
    const auto whole = device::view_of<float>(*x_, 4, 4);
    s.enqueue(device::AddGated{.y = device::view_of<float>(*y_, 4, 4).columns(0, 1),
                               .gate = {},
                               .live = device::view_of<int32_t>(*live, 1, 1),
                               .x = whole.columns(column, 1)});
  };
  add(*a_, 0);
  add(*b_, 1);
  EXPECT_EQ(n_races(), 0u);
  add(*a_, 2);
  add(*b_, 2);
  EXPECT_EQ(n_races(), 1u);
}

TEST(CheckerOff, NothingIsNoted) {
  const auto machine = machine_of("sim:1MiB/check=off");
  const auto a = machine->device(0).make_stream("a"), b = machine->device(0).make_stream("b");
  const auto x = machine->device(0).allocate(4, "x").value();
  // In order, but by a thread that the checker knows nothing of: it would take them for a race.
  std::thread unseen([&] {
    a->fill_zero(*x, 0, 4);
    EXPECT_TRUE(a->synchronize().ok());
  });
  unseen.join();
  b->fill_zero(*x, 0, 4);
  EXPECT_TRUE(b->synchronize().ok());
  EXPECT_TRUE(machine->races().empty());
}

}  // namespace
}  // namespace strata::test
