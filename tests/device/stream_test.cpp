// Streams of the host device: order, bounds, host tasks, and how a stream fails, drains and starts again.
#include <thread>

#include <gtest/gtest.h>

#include "device/support.h"

namespace strata::test {
namespace {

using device::HostTask;
using device::MemoryKind;
using device::Ticket;
using device::host::HostDevice;

class StreamTest : public testing::Test {
 protected:
  HostDevice device_{host_options()};
  std::unique_ptr<device::Stream> stream_ = device_.make_stream("test");

  // x[0] += y[0], through an operation.
  void enqueue_add(const Grid<float>& x, const Grid<float>& y) {
    stream_->enqueue(device::AddGated{.y = y, .gate = {}, .live = live_, .x = x});
  }
  Grid<float> number(float value) {
    Grid<float> grid(device_, 1, 1, 0, 0);
    grid.at(0, 0) = value;
    return grid;
  }

 private:
  Grid<int32_t> live_ = [this] {
    Grid<int32_t> live(device_, 1, 1, 0, 0);
    live.at(0, 0) = 1;
    return live;
  }();
};

HostTask task_of(const char* name, std::function<Status()> run) {
  return {.name = name, .run = std::move(run), .ranges = {}};
}

HostTask failing_task(const char* message) {
  return task_of("failing", [message]() -> Status { return Error{ErrorCode::kIo, message}; });
}

TEST_F(StreamTest, RunsInOrder) {
  const Grid<float> x = number(1), y = number(10);
  enqueue_add(x, y);                                           // x = 11
  stream_->copy(*y.memory(), 0, *x.memory(), 0, 4);            // y = 11
  enqueue_add(x, y);                                           // x = 22
  stream_->fill_zero(*y.memory(), 0, 4);                       // y = 0
  float seen = -1;
  const HostTask look = task_of("look", [&]() -> Status { seen = x.at(0, 0) + y.at(0, 0); return {}; });
  stream_->wait(stream_->host_task(look));
  enqueue_add(y, x);                                           // y = 22
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(seen, 22);
  EXPECT_EQ(y.at(0, 0), 22);
}

TEST_F(StreamTest, CopyAndFillTouchTheirBytesOnly) {
  const Grid<uint8_t> from(device_, 1, 16, 0, 0), to(device_, 1, 16, 0, 0);
  for (int i = 0; i < 16; i++) from.at(0, i) = static_cast<uint8_t>(i);
  stream_->copy(*to.memory(), 3, *from.memory(), 5, 4);
  stream_->fill_zero(*to.memory(), 10, 3);
  ASSERT_TRUE(stream_->synchronize().ok());
  for (int i = 0; i < 16; i++) {
    const int expected = i >= 3 && i < 7 ? i + 2 : i >= 10 && i < 13 ? 0 : 0xff;
    EXPECT_EQ(to.at(0, i), expected) << i;
  }
  // The whole memory, and nothing at its very end, are inside.
  stream_->copy(*to.memory(), 0, *from.memory(), 0, 16);
  stream_->copy(*to.memory(), 16, *from.memory(), 16, 0);
  EXPECT_EQ(to.at(0, 15), 15);
}

using StreamDeathTest = StreamTest;
TEST_F(StreamDeathTest, CopyOrFillBeyondAMemory) {
  const Grid<uint8_t> small(device_, 1, 8, 0, 0), large(device_, 1, 16, 0, 0);
  EXPECT_DEATH(stream_->copy(*small.memory(), 1, *large.memory(), 0, 8), "dst");
  EXPECT_DEATH(stream_->copy(*large.memory(), 0, *small.memory(), 4, 5), "src");
  EXPECT_DEATH(stream_->fill_zero(*small.memory(), 9, 0), "offset");
  EXPECT_DEATH(stream_->copy(*large.memory(), SIZE_MAX - 3, *small.memory(), 0, 4), "dst");
  EXPECT_DEATH(stream_->copy(*large.memory(), 0, *small.memory(), SIZE_MAX - 3, 4), "src");
  EXPECT_DEATH(stream_->fill_zero(*small.memory(), SIZE_MAX - 3, 4), "offset");
}

TEST_F(StreamDeathTest, WaitingForATicketThatNoTaskGave) {
  EXPECT_DEATH(stream_->wait(Ticket{}), "ticket");
}

TEST_F(StreamTest, ATaskThatSucceedsLetsTheStreamGoOn) {
  int runs = 0;
  const HostTask task = task_of("count", [&]() -> Status { runs++; return {}; });
  const Ticket first = stream_->host_task(task), second = stream_->host_task(task);
  stream_->wait(first);
  stream_->wait(second);
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(runs, 2);
}

TEST_F(StreamTest, AFailedTaskFailsTheStreamAtItsWait) {
  const Grid<float> x = number(1), one = number(1);
  const HostTask failing = failing_task("the disk is gone");
  int later_runs = 0;
  const HostTask later = task_of("later", [&]() -> Status { later_runs++; return {}; });

  const Ticket ticket = stream_->host_task(failing);
  enqueue_add(x, one);  // between the task and its wait the stream goes on
  EXPECT_EQ(x.at(0, 0), 2);
  stream_->wait(ticket);
  enqueue_add(x, one);
  stream_->copy(*x.memory(), 0, *one.memory(), 0, 4);
  stream_->fill_zero(*x.memory(), 0, 4);
  stream_->wait(stream_->host_task(later));
  const Status status = stream_->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_EQ(status.error().message, "the disk is gone");
  EXPECT_EQ(x.at(0, 0), 2);
  EXPECT_EQ(later_runs, 0);
  EXPECT_FALSE(stream_->synchronize().ok()) << "it stays failed until it is reset";
}

TEST_F(StreamTest, TheFirstErrorStays) {
  const HostTask first = failing_task("first"), second = failing_task("second");
  stream_->wait(stream_->host_task(first));
  stream_->wait(stream_->host_task(second));
  stream_->abort({ErrorCode::kCancelled, "third"});
  EXPECT_EQ(stream_->synchronize().error().message, "first");
}

TEST_F(StreamTest, EachOfSeveralFailedTasksFailsItsOwnWait) {
  const HostTask first = failing_task("first"), second = failing_task("second");
  const Ticket a = stream_->host_task(first), b = stream_->host_task(second);
  stream_->wait(a);
  ASSERT_FALSE(stream_->synchronize().ok());
  EXPECT_EQ(stream_->synchronize().error().message, "first");
  stream_->wait(b);
  EXPECT_EQ(stream_->synchronize().error().message, "first");
}

TEST_F(StreamTest, AFailedTaskThatNobodyWaitsForFailsNothing) {
  const HostTask failing = failing_task("unseen");
  const HostTask fine = task_of("fine", []() -> Status { return {}; });
  stream_->host_task(failing);
  stream_->wait(stream_->host_task(fine));
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_F(StreamTest, ResetMakesItUsableAgain) {
  const Grid<float> x = number(1), one = number(1);
  const HostTask failing = failing_task("first");
  const Ticket old = stream_->host_task(failing);
  stream_->wait(old);
  ASSERT_FALSE(stream_->synchronize().ok());
  stream_->reset();
  EXPECT_TRUE(stream_->synchronize().ok());
  enqueue_add(x, one);
  stream_->wait(old);  // its failure was cleared with the rest
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(x.at(0, 0), 2);
  const HostTask again = failing_task("again");
  stream_->wait(stream_->host_task(again));
  EXPECT_EQ(stream_->synchronize().error().message, "again");
}

// The task stands still until the other thread has aborted the stream: what is queued after it must not run.
TEST_F(StreamTest, AbortFromAnotherThreadDrainsWhatHasNotRun) {
  const Grid<float> x = number(1), one = number(1);
  std::atomic<bool> working{false}, aborted{false};
  const HostTask block = task_of("block", [&]() -> Status {
    working.store(true);
    working.notify_one();
    aborted.wait(false);
    return {};
  });
  int later_runs = 0;
  const HostTask later = task_of("later", [&]() -> Status { later_runs++; return {}; });
  std::thread other([&] {
    working.wait(false);
    stream_->abort({ErrorCode::kCancelled, "the user pressed Ctrl-C"});
    aborted.store(true);
    aborted.notify_one();
  });
  stream_->wait(stream_->host_task(block));
  enqueue_add(x, one);
  stream_->wait(stream_->host_task(later));
  const Status status = stream_->synchronize();
  other.join();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(status.error().message, "the user pressed Ctrl-C");
  EXPECT_EQ(x.at(0, 0), 1);
  EXPECT_EQ(later_runs, 0);
}

TEST_F(StreamTest, ATaskThatFailsAfterAnAbortKeepsTheAbortsError) {
  const HostTask task = task_of("aborted", [&]() -> Status {
    stream_->abort({ErrorCode::kCancelled, "stop"});
    return Error{ErrorCode::kIo, "late"};
  });
  stream_->wait(stream_->host_task(task));
  EXPECT_EQ(stream_->synchronize().error().message, "stop");
  stream_->reset();
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_F(StreamTest, EventsOrderStreams) {
  const Grid<float> x = number(5), y = number(0), z = number(0);
  const auto other = device_.make_stream("other");
  const auto event = device_.make_event();
  stream_->copy(*y.memory(), 0, *x.memory(), 0, 4);
  stream_->record(*event);
  other->wait(*event);
  other->copy(*z.memory(), 0, *y.memory(), 0, 4);
  event->synchronize();
  EXPECT_TRUE(event->done());
  ASSERT_TRUE(other->synchronize().ok());
  EXPECT_EQ(z.at(0, 0), 5);
}

// A stream that has failed still passes its events on: nobody hangs, and the other stream is not failed.
TEST_F(StreamTest, EventsOfAFailedStreamAreDone) {
  const auto other = device_.make_stream("other");
  const auto event = device_.make_event();
  stream_->abort({ErrorCode::kCancelled, "stop"});
  stream_->record(*event);
  other->wait(*event);
  event->synchronize();
  EXPECT_TRUE(event->done());
  EXPECT_TRUE(other->synchronize().ok());
  EXPECT_FALSE(stream_->synchronize().ok());
}

TEST_F(StreamTest, CopiesFromHostMemoryOfBothKinds) {
  const Grid<float> x = number(0);
  for (const MemoryKind kind : {MemoryKind::kPinned, MemoryKind::kPageable}) {
    const auto host = device_.allocate_host(8, kind, "staging").value();
    host->write<float>(4, 1)[0] = 7;
    stream_->copy(*x.memory(), 0, *host, 4, 4);
    host->write<float>(4, 1)[0] = 8;
    ASSERT_TRUE(stream_->synchronize().ok());
    EXPECT_EQ(x.at(0, 0), 7);  // on this device a copy has run when the call returns
  }
}

}  // namespace
}  // namespace strata::test
