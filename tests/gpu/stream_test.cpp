// Streams of a CUDA device: order, copies, host tasks beside the device, and how a stream fails, drains and starts
// again.
#include <thread>

#include "gpu/support.h"

namespace strata::test {
namespace {

using device::HostTask;
using device::MemoryKind;
using device::Ticket;

using StreamTest = GpuTest;
INSTANTIATE_TEST_SUITE_P(Signals, StreamTest, testing::Bool(), signals_name);

HostTask failing_task(const char* message) {
  return task_of("failing", [message]() -> Status { return Error{ErrorCode::kIo, message}; });
}
HostTask counting_task(int& runs) {
  return task_of("count", [&runs]() -> Status { runs++; return {}; });
}

TEST_P(StreamTest, RunsInOrder) {
  const Number x = number(1), y = number(10);
  const auto seen = device_->allocate_host(8, MemoryKind::kPinned, "seen").value();
  add(*stream_, x, y);                              // x = 11
  stream_->copy(y.memory(), 0, x.memory(), 0, 4);   // y = 11
  add(*stream_, x, y);                              // x = 22
  stream_->fill_zero(y.memory(), 0, 4);             // y = 0
  stream_->copy(*seen, 0, x.memory(), 0, 4);
  stream_->copy(*seen, 4, y.memory(), 0, 4);
  float sum = -1;
  const HostTask look = task_of("look", [&]() -> Status {
    const auto values = seen->read<float>(0, 2);
    sum = values[0] + values[1];
    return {};
  });
  stream_->wait(stream_->host_task(look));
  add(*stream_, y, x);                              // y = 22
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(sum, 22);
  EXPECT_EQ(y.get(), 22);
}

TEST_P(StreamTest, CopyAndFillTouchTheirBytesOnly) {
  const auto host = device_->allocate_host(64, MemoryKind::kPinned, "bytes").value();
  const auto from = device_->allocate(16, "from").value(), to = device_->allocate(16, "to").value();
  {
    const auto bytes = host->write<uint8_t>(0, 32);
    for (size_t i = 0; i < 32; i++) bytes[i] = static_cast<uint8_t>(i < 16 ? i : 0xff);
  }
  stream_->copy(*from, 0, *host, 0, 16);
  stream_->copy(*to, 0, *host, 16, 16);
  stream_->copy(*to, 3, *from, 5, 4);
  stream_->fill_zero(*to, 10, 3);
  stream_->copy(*to, 16, *from, 16, 0);
  stream_->copy(*host, 32, *to, 0, 16);
  ASSERT_TRUE(stream_->synchronize().ok());
  const auto found = host->read<uint8_t>(32, 16);
  for (size_t i = 0; i < 16; i++) {
    EXPECT_EQ(found[i], i >= 3 && i < 7 ? i + 2 : i >= 10 && i < 13 ? 0 : 0xff) << i;
  }
}

// The stream stands still while the source changes: what is pinned is read afterwards.
TEST_P(StreamTest, APinnedSourceIsReadWhenTheCopyRuns) {
  const Number x = number(0);
  const auto host = device_->allocate_host(4, MemoryKind::kPinned, "source").value();
  host->write<float>(0, 1)[0] = 7;
  Gate gate;
  const HostTask block = task_of("block", [&]() -> Status { gate.pass(); return {}; });
  stream_->wait(stream_->host_task(block));
  stream_->copy(x.memory(), 0, *host, 0, 4);
  host->write<float>(0, 1)[0] = 8;
  gate.open();
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(x.get(), 8);
}

TEST_P(StreamTest, OfAPageableSourceTheBytesAreTakenBeforeTheCallReturns) {
  for (const size_t bytes : {size_t{4}, size_t{1} << 12, size_t{1} << 20, size_t{48} << 20}) {
    const auto host = device_->allocate_host(bytes, MemoryKind::kPageable, "source").value();
    const auto back = device_->allocate_host(bytes, MemoryKind::kPageable, "back").value();
    const auto on_device = device_->allocate(bytes, "copy").value();
    const size_t n = bytes / sizeof(uint32_t);
    const auto fill = [&](uint32_t first) {
      const auto words = host->write<uint32_t>(0, n);
      for (size_t i = 0; i < n; i++) words[i] = first + static_cast<uint32_t>(i);
    };
    fill(5);
    const auto before = device_->make_event();
    stream_->copy(*on_device, 0, *host, 0, bytes);
    fill(77);
    stream_->copy(*back, 0, *on_device, 0, bytes);
    const auto found = back->read<uint32_t>(0, n);  // a copy to pageable memory has come when the call returns
    EXPECT_EQ(found[0], 5u) << bytes;
    EXPECT_EQ(found[n - 1], 5u + n - 1) << bytes;
    ASSERT_TRUE(stream_->synchronize().ok());
  }
}

TEST_P(StreamTest, ATaskHoldsUpTheStreamOnlyAtItsWait) {
  const Number x = number(1), y = number(2);
  Gate gate;
  const HostTask block = task_of("block", [&]() -> Status { gate.pass(); return {}; });
  const auto before_wait = device_->make_event(), after_wait = device_->make_event();
  const Ticket ticket = stream_->host_task(block);
  add(*stream_, x, y);
  stream_->record(*before_wait);
  stream_->wait(ticket);
  add(*stream_, x, y);
  stream_->record(*after_wait);
  before_wait->synchronize();
  EXPECT_TRUE(before_wait->done());
  EXPECT_FALSE(after_wait->done());
  gate.open();
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_TRUE(after_wait->done());
  EXPECT_EQ(x.get(), 5);
}

// What a task leaves in pinned memory is there for the copy after its wait, again and again.
TEST_P(StreamTest, TasksAndDeviceSeeEachOthersBytes) {
  constexpr int kRounds = 300;
  const Number x = number(0);
  const auto up = device_->allocate_host(4, MemoryKind::kPinned, "up").value();
  const auto down = device_->allocate_host(4, MemoryKind::kPinned, "down").value();
  int wrong = 0;
  float expected = 0;
  const HostTask next = task_of("next", [&]() -> Status {
    if (down->read<float>(0, 1)[0] != expected) wrong++;
    up->write<float>(0, 1)[0] = ++expected;
    return {};
  });
  for (int i = 0; i < kRounds; i++) {
    stream_->copy(*down, 0, x.memory(), 0, 4);
    stream_->wait(stream_->host_task(next));
    stream_->copy(x.memory(), 0, *up, 0, 4);
  }
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(x.get(), kRounds);
}

TEST_P(StreamTest, MoreTasksThanTheQueueHoldsRunInOrder) {
  constexpr int kTasks = 3000;
  int runs = 0, wrong = 0, expected = 0;
  const HostTask even = task_of("even", [&]() -> Status { wrong += expected++ % 2 != 0; runs++; return {}; });
  const HostTask odd = task_of("odd", [&]() -> Status { wrong += expected++ % 2 != 1; runs++; return {}; });
  for (int i = 0; i < kTasks; i++) {
    const Ticket ticket = stream_->host_task(i % 2 == 0 ? even : odd);
    if (i % 5 == 0) stream_->wait(ticket);
  }
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(runs, kTasks);
  EXPECT_EQ(wrong, 0);
}

TEST_P(StreamTest, TasksOfTwoStreamsRunBesideEachOther) {
  const auto other = device_->make_stream("other");
  Gate gate;
  const HostTask block = task_of("block", [&]() -> Status { gate.pass(); return {}; });
  const HostTask open = task_of("open", [&]() -> Status { gate.open(); return {}; });
  stream_->host_task(block);
  other->host_task(open);
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_TRUE(other->synchronize().ok());
}

TEST_P(StreamTest, AFailedTaskFailsTheStreamAtItsWait) {
  const Number x = number(1), one = number(1);
  const HostTask failing = failing_task("the disk is gone");
  int later_runs = 0;
  const HostTask later = counting_task(later_runs);
  stream_->wait(stream_->host_task(failing));
  stream_->wait(stream_->host_task(later));
  Status status = stream_->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_EQ(status.error().message, "the disk is gone");
  add(*stream_, x, one);
  stream_->copy(x.memory(), 0, one.memory(), 0, 4);
  stream_->fill_zero(x.memory(), 0, 4);
  stream_->wait(stream_->host_task(later));
  EXPECT_FALSE(stream_->synchronize().ok()) << "it stays failed until it is reset";
  EXPECT_EQ(x.get(), 1);
  EXPECT_EQ(later_runs, 0);
}

TEST_P(StreamTest, TheFirstErrorStays) {
  const HostTask first = failing_task("first"), second = failing_task("second");
  stream_->wait(stream_->host_task(first));
  stream_->wait(stream_->host_task(second));
  EXPECT_EQ(stream_->synchronize().error().message, "first");
  stream_->abort({ErrorCode::kCancelled, "third"});
  EXPECT_EQ(stream_->synchronize().error().message, "first");
}

TEST_P(StreamTest, AFailedTaskThatNobodyWaitsForFailsNothing) {
  int runs = 0;
  const HostTask failing = failing_task("unseen"), fine = counting_task(runs);
  stream_->host_task(failing);
  stream_->wait(stream_->host_task(fine));
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(runs, 1);
}

TEST_P(StreamTest, AWaitThatComesAfterTheFailureFailsTheStream) {
  const HostTask failing = failing_task("late");
  const Ticket ticket = stream_->host_task(failing);
  ASSERT_TRUE(stream_->synchronize().ok());
  stream_->wait(ticket);
  const Status status = stream_->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "late");
}

TEST_P(StreamTest, ResetMakesItUsableAgain) {
  const Number x = number(1), one = number(1);
  int runs = 0;
  const HostTask failing = failing_task("first"), fine = counting_task(runs);
  const Ticket old = stream_->host_task(failing);
  stream_->wait(old);
  ASSERT_FALSE(stream_->synchronize().ok());
  const Ticket of_failed = stream_->host_task(fine);
  stream_->reset();
  EXPECT_TRUE(stream_->synchronize().ok());
  add(*stream_, x, one);
  stream_->wait(old);        // its failure was cleared with the rest
  stream_->wait(of_failed);  // it was never queued
  stream_->wait(stream_->host_task(fine));
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(x.get(), 2);
  EXPECT_EQ(runs, 1);
  const HostTask again = failing_task("again");
  stream_->wait(stream_->host_task(again));
  EXPECT_EQ(stream_->synchronize().error().message, "again");
}

// The task stands still until the other thread has aborted the stream: the tasks after it don't run, and no wait stays.
TEST_P(StreamTest, AbortFromAnotherThreadDrainsWhatHasNotRun) {
  Gate working, aborted;
  const HostTask block = task_of("block", [&]() -> Status {
    working.open();
    aborted.pass();
    return {};
  });
  int later_runs = 0;
  const HostTask later = counting_task(later_runs);
  std::thread other([&] {
    working.pass();
    stream_->abort({ErrorCode::kCancelled, "the user pressed Ctrl-C"});
    aborted.open();
  });
  const Ticket blocked = stream_->host_task(block);
  stream_->wait(blocked);
  for (int i = 0; i < 100; i++) stream_->wait(stream_->host_task(later));
  const Status status = stream_->synchronize();
  other.join();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(status.error().message, "the user pressed Ctrl-C");
  EXPECT_EQ(later_runs, 0);
}

TEST_P(StreamTest, EventsOrderStreams) {
  const Number x = number(5), y = number(0), z = number(0);
  const auto other = device_->make_stream("other");
  const auto event = device_->make_event();
  EXPECT_TRUE(event->done()) << "nothing was recorded";
  Gate gate;
  const HostTask block = task_of("block", [&]() -> Status { gate.pass(); return {}; });
  stream_->wait(stream_->host_task(block));
  stream_->copy(y.memory(), 0, x.memory(), 0, 4);
  stream_->record(*event);
  other->wait(*event);
  other->copy(z.memory(), 0, y.memory(), 0, 4);
  EXPECT_FALSE(event->done());
  gate.open();
  ASSERT_TRUE(other->synchronize().ok());
  EXPECT_TRUE(event->done());
  EXPECT_EQ(z.get(), 5);
  ASSERT_TRUE(stream_->synchronize().ok());
}

// A stream that has failed still passes its events on: nobody hangs, and the other stream is not failed.
TEST_P(StreamTest, EventsOfAFailedStreamAreDone) {
  const auto other = device_->make_stream("other");
  const auto event = device_->make_event();
  stream_->abort({ErrorCode::kCancelled, "stop"});
  stream_->record(*event);
  other->wait(*event);
  event->synchronize();
  EXPECT_TRUE(event->done());
  EXPECT_TRUE(other->synchronize().ok());
  EXPECT_FALSE(stream_->synchronize().ok());
}

TEST_P(StreamTest, ItsEndWaitsForWhatIsQueued) {
  const Number x = number(1), one = number(1);
  int runs = 0;
  const HostTask count = counting_task(runs);
  for (int i = 0; i < 50; i++) {
    add(*stream_, x, one);
    stream_->wait(stream_->host_task(count));
  }
  stream_.reset();
  EXPECT_EQ(runs, 50);
  EXPECT_EQ(x.get(), 51);
}

}  // namespace
}  // namespace strata::test
