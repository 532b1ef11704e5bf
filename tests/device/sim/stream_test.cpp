// Streams of simulated devices: order, what copies read and when, host tasks, and how a stream fails and drains.
#include <thread>

#include "base/sync.h"
#include "device/sim/support.h"

namespace strata::test {
namespace {

class SimStreamTest : public testing::Test {
 protected:
  std::unique_ptr<SimMachine> machine_ = machine_of("sim:2x1MiB/seed=3");
  SimDevice& device_ = machine_->device(0);
  std::unique_ptr<Stream> stream_ = device_.make_stream("compute");
  std::unique_ptr<Buffer> buffer_ = device_.allocate(64, "buffer").value();
  std::unique_ptr<HostBuffer> back_ = host_buffer(device_, 64, MemoryKind::kPinned, "back");

  // The first byte of the device's buffer, after all that is queued.
  int device_byte() {
    stream_->copy(*back_, 0, *buffer_, 0, 64);
    const Status status = stream_->synchronize();
    EXPECT_TRUE(status.ok()) << status.error().message;
    return first_byte(*back_);
  }
};

TEST_F(SimStreamTest, BytesGoToADeviceAndBack) {
  const auto source = host_buffer(device_, 64, MemoryKind::kPinned);
  set_bytes(*source, 42);
  stream_->copy(*buffer_, 0, *source, 0, 64);
  EXPECT_EQ(device_byte(), 42);
  stream_->fill_zero(*buffer_, 0, 64);
  EXPECT_EQ(device_byte(), 0);
}

TEST_F(SimStreamTest, HostCodeMayNotReachDeviceMemory) {
  EXPECT_FALSE(device_.host_accessible());
  const HostTask reaches = task_of("reaches", []() -> Status { return {}; }, {range_of(*buffer_, false)});
  EXPECT_DEATH(stream_->host_task(reaches), "kDevice");
}

TEST_F(SimStreamTest, PageableBytesAreTakenBeforeTheCallReturns) {
  const auto source = host_buffer(device_, 64, MemoryKind::kPageable);
  for (int i = 1; i < 50; i++) {
    set_bytes(*source, i);
    stream_->copy(*buffer_, 0, *source, 0, 64);
    set_bytes(*source, 99);
    EXPECT_EQ(device_byte(), i);
  }
}

TEST_F(SimStreamTest, ACopyToPageableMemorySynchronises) {
  const auto source = host_buffer(device_, 64, MemoryKind::kPinned);
  const auto target = host_buffer(device_, 64, MemoryKind::kPageable);
  for (int i = 1; i < 50; i++) {
    set_bytes(*source, i);
    stream_->copy(*buffer_, 0, *source, 0, 64);
    stream_->copy(*target, 0, *buffer_, 0, 64);
    EXPECT_EQ(first_byte(*target), i);
  }
}

TEST_F(SimStreamTest, PeerCopiesAndEventsOrderStreamsOfTwoDevices) {
  const auto there = machine_->device(1).allocate(64, "there").value();
  const auto other = machine_->device(1).make_stream("compute");
  const auto event = device_.make_event();
  const auto source = host_buffer(device_, 64, MemoryKind::kPinned);
  for (int i = 1; i < 50; i++) {
    set_bytes(*source, i);
    stream_->copy(*buffer_, 0, *source, 0, 64);
    stream_->record(*event);
    other->wait(*event);
    other->copy(*there, 0, *buffer_, 0, 64);
    other->copy(*back_, 0, *there, 0, 64);
    ASSERT_TRUE(other->synchronize().ok());
    EXPECT_TRUE(event->done());
    EXPECT_EQ(first_byte(*back_), i);
  }
}

TEST_F(SimStreamTest, WithoutALinkDevicesReachTheirOwnMemoryOnly) {
  SimDevice& second = machine_->device(1);
  EXPECT_TRUE(device_.reaches(second));
  EXPECT_FALSE(device_.reaches(machine_of("sim:1MiB")->device(0))) << "of another machine";
  const auto apart = machine_of("sim:2x1MiB/peer=off");
  EXPECT_TRUE(apart->device(0).reaches(apart->device(0)));
  EXPECT_FALSE(apart->device(0).reaches(apart->device(1)));
  const auto stream = apart->device(0).make_stream("compute");
  const auto here = apart->device(0).allocate(64, "here").value();
  const auto there = apart->device(1).allocate(64, "there").value();
  EXPECT_DEATH(stream->copy(*there, 0, *here, 0, 64), "in_reach");
  EXPECT_DEATH(stream->copy(*here, 0, *there, 0, 64), "in_reach");
}

TEST_F(SimStreamTest, AWaitMeansTheLatestRecordBeforeIt) {
  const auto event = device_.make_event();
  EXPECT_TRUE(event->done()) << "never recorded";
  event->synchronize();
  stream_->wait(*event);  // for nothing
  stream_->record(*event);
  event->synchronize();
  EXPECT_TRUE(event->done());
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_F(SimStreamTest, FreshMemoryIsPoisonedAndFreedMemoryToo) {
  EXPECT_EQ(device_byte(), 0xff);
  auto host = host_buffer(device_, 64, MemoryKind::kPageable);
  EXPECT_EQ(first_byte(*host), 0xff);
  set_bytes(*host, 1);
  const std::byte* stale = host->address();
  host.reset();
  EXPECT_EQ(static_cast<int>(*stale), 0xff);
  stream_->fill_zero(*buffer_, 0, 64);
  stale = buffer_->address();
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(static_cast<int>(*stale), 0);
  buffer_.reset();
  EXPECT_EQ(static_cast<int>(*stale), 0xff);
}

TEST_F(SimStreamTest, ABudgetIsNeverExceeded) {
  EXPECT_EQ(device_.budget_bytes(), kMiB);
  EXPECT_EQ(device_.used_bytes(), 64u);
  auto rest = device_.allocate(kMiB - 64, "rest");
  ASSERT_TRUE(rest.ok());
  const auto more = device_.allocate(1, "one more");
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(more.error().message, "1 B for one more does not fit on sim:0: 0 B of 1 MiB are left");
  EXPECT_TRUE(device_.allocate_host(4 * kMiB, MemoryKind::kPinned, "host memory is no device's").ok());
  rest.value().reset();
  EXPECT_EQ(device_.used_bytes(), 64u);
  EXPECT_TRUE(device_.allocate(kMiB - 64, "again").ok());
}

TEST_F(SimStreamTest, FreeingWaitsForTheWorkThatUsesTheMemory) {
  std::atomic<bool> go{false};
  const HostTask gate = task_of("gate", [&]() -> Status {
    go.wait(false);
    return {};
  });
  auto source = host_buffer(device_, 64, MemoryKind::kPinned);
  set_bytes(*source, 5);
  stream_->wait(stream_->host_task(gate));
  stream_->copy(*buffer_, 0, *source, 0, 64);
  Thread opener([&] {
    go.store(true);
    go.notify_all();
  });
  source.reset();
  EXPECT_EQ(device_byte(), 5);
}

// What an operation reaches through a block table is known only when it runs.
TEST_F(SimStreamTest, FreeingWaitsForOperationsThatReachMemoryThroughTables) {
  std::atomic<bool> go{false};
  const HostTask gate = task_of("gate", [&]() -> Status {
    go.wait(false);
    return {};
  });
  const auto ints = device_.allocate(64, "ints").value(), rows = device_.allocate(64, "rows").value();
  auto keys = device_.allocate(64, "keys").value(), values = device_.allocate(64, "values").value();
  stream_->fill_zero(*ints, 0, 64);
  stream_->fill_zero(*rows, 0, 64);
  stream_->wait(stream_->host_task(gate));
  const auto numbers = [&](size_t i, int64_t n) { return device::view_of<int32_t>(*ints, 1, n, i * sizeof(int32_t)); };
  device::RopeAppend append{};
  append.q = device::view_of<float>(*rows, 1, 2);
  append.k = device::view_of<float>(*rows, 1, 2, 8);
  append.v = device::view_of<float>(*rows, 1, 2, 16);
  append.cos_sin = device::view_of<float>(*rows, 1, 2, 24);
  append.rows = {numbers(0, 1), numbers(1, 1), numbers(2, 1), numbers(3, 1)};
  append.kv = {.k = keys.get(),
               .v = values.get(),
               .block_tokens = 1,
               .n_blocks = 1,
               .n_kv_heads = 1,
               .key_dim = 2,
               .value_dim = 2};
  append.n_heads = 1;
  append.q_head_stride = 2;
  stream_->enqueue(append);
  Thread opener([&] {
    go.store(true);
    go.notify_all();
  });
  keys.reset();
  EXPECT_EQ(machine_->next_jobs(), std::vector<std::string>{}) << "it has run";
  values.reset();
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_F(SimStreamTest, ATaskRunsBesideItsStreamUntilTheWait) {
  std::atomic<bool> go{false};
  const HostTask gate = task_of("gate", [&]() -> Status {
    go.wait(false);
    return {};
  });
  const device::Ticket ticket = stream_->host_task(gate);
  stream_->fill_zero(*buffer_, 0, 64);
  const auto event = device_.make_event();
  stream_->record(*event);
  event->synchronize();  // the task has not ended
  go.store(true);
  go.notify_all();
  stream_->wait(ticket);
  EXPECT_TRUE(stream_->synchronize().ok());
}

HostTask failing_task(const char* message) {
  return task_of("failing", [message]() -> Status { return Error{ErrorCode::kIo, message}; });
}

TEST_F(SimStreamTest, AFailedTaskFailsTheStreamAtItsWait) {
  const HostTask failing = failing_task("the disk is gone");
  stream_->fill_zero(*buffer_, 0, 64);
  const device::Ticket ticket = stream_->host_task(failing);
  stream_->copy(*back_, 0, *buffer_, 0, 64);
  stream_->wait(ticket);
  const auto source = host_buffer(device_, 64, MemoryKind::kPageable);
  stream_->copy(*buffer_, 0, *source, 0, 64);
  int later = 0;
  const HostTask counts = task_of("counts", [&]() -> Status {
    later++;
    return {};
  });
  stream_->wait(stream_->host_task(counts));
  const Status status = stream_->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "the disk is gone");
  EXPECT_EQ(later, 0);
  EXPECT_EQ(first_byte(*back_), 0);
  EXPECT_FALSE(stream_->synchronize().ok()) << "it stays failed until it is reset";
  stream_->reset();
  stream_->wait(ticket);  // its failure was cleared with the rest
  EXPECT_EQ(device_byte(), 0);
}

TEST_F(SimStreamTest, AFailedTaskThatNobodyWaitsForFailsNothing) {
  const HostTask failing = failing_task("unseen"), other = failing_task("seen");
  const device::Ticket first = stream_->host_task(failing);
  EXPECT_TRUE(stream_->synchronize().ok());
  const device::Ticket second = stream_->host_task(other);
  stream_->wait(second);
  EXPECT_EQ(stream_->synchronize().error().message, "seen");
  stream_->wait(first);
  EXPECT_EQ(stream_->synchronize().error().message, "seen") << "the first error stays";
}

// A stream that waits for what only comes once the other thread has aborted it.
TEST_F(SimStreamTest, AbortDrainsAStreamThatWaits) {
  std::atomic<bool> go{false};
  const HostTask gate = task_of("gate", [&]() -> Status {
    go.wait(false);
    return {};
  });
  const auto other = device_.make_stream("other");
  const auto event = device_.make_event(), mine = device_.make_event();
  other->wait(other->host_task(gate));
  other->record(*event);
  stream_->wait(*event);
  stream_->fill_zero(*buffer_, 0, 64);
  stream_->record(*mine);
  stream_->abort({ErrorCode::kCancelled, "stop"});
  mine->synchronize();  // a failed stream passes its events on
  const Status status = stream_->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  go.store(true);
  go.notify_all();
  EXPECT_TRUE(other->synchronize().ok()) << "only the one stream failed";
  stream_->reset();
  EXPECT_EQ(device_byte(), 0xff) << "what was queued after the wait did not run";
}

TEST_F(SimStreamTest, AGraphReplaysItsList) {
  const auto source = host_buffer(device_, 64, MemoryKind::kPinned);
  int runs = 0;
  const HostTask counts = task_of("counts", [&]() -> Status {
    runs++;
    return {};
  });
  const auto graph = device_.capture([&](Stream& s) {
    s.copy(*buffer_, 0, *source, 0, 64);
    s.wait(s.host_task(counts));
  });
  ASSERT_TRUE(graph.ok());
  for (int i = 1; i <= 3; i++) {
    set_bytes(*source, i);
    (*graph)->replay(*stream_);
    EXPECT_EQ(device_byte(), i);
    EXPECT_EQ(runs, i);
  }
}

}  // namespace
}  // namespace strata::test
