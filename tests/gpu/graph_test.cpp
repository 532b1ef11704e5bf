// Graphs of a CUDA device: captured without running, replayed as often as one likes, failing and starting again.
#include "gpu/support.h"

namespace strata::test {
namespace {

using device::Graph;
using device::HostTask;
using device::MemoryKind;
using device::Stream;
using device::Ticket;

using GraphTest = GpuTest;
INSTANTIATE_TEST_SUITE_P(Signals, GraphTest, testing::Bool(), signals_name);

std::unique_ptr<Graph> capture(device::Device& device, const std::function<void(Stream&)>& enqueue) {
  auto graph = device.capture(enqueue);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return graph.ok() ? std::move(graph).value() : nullptr;
}

TEST_P(GraphTest, CaptureRunsNothing) {
  const Number x = number(1), y = number(2);
  int runs = 0;
  const HostTask task = task_of("count", [&]() -> Status { runs++; return {}; });
  const auto graph = capture(*device_, [&](Stream& s) {
    add(s, x, y);
    s.wait(s.host_task(task));
    EXPECT_TRUE(s.synchronize().ok());
  });
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->size(), 3u);
  EXPECT_EQ(x.get(), 1);
  EXPECT_EQ(runs, 0);
}

TEST_P(GraphTest, AnEmptyGraphReplays) {
  const auto graph = capture(*device_, [](Stream&) {});
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->size(), 0u);
  graph->replay(*stream_);
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_P(GraphTest, HostTasksRunOncePerReplayInOrder) {
  std::string order;
  const auto note = [&](char c) { return task_of("note", [&order, c]() -> Status { order += c; return {}; }); };
  const HostTask a = note('a'), b = note('b'), c = note('c');
  const auto graph = capture(*device_, [&](Stream& s) {
    const Ticket first = s.host_task(a);
    const Ticket second = s.host_task(b);
    s.wait(second);
    s.wait(first);
    s.wait(s.host_task(a));
    s.host_task(c);  // nothing waits for it
  });
  ASSERT_NE(graph, nullptr);
  for (int i = 0; i < 3; i++) graph->replay(*stream_);
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(order, "abacabacabac");
  // And on another stream.
  const auto other = device_->make_stream("other");
  graph->replay(*other);
  EXPECT_TRUE(other->synchronize().ok());
  EXPECT_EQ(order, "abacabacabacabac");
}

// Each task sees the device's number of that moment and answers with the next, over many replays back to back.
TEST_P(GraphTest, ReplaysGoRoundTripsWithoutMixingThem) {
  constexpr int kTasks = 40, kReplays = 50;
  const Number x = number(0), one = number(1);
  const auto up = device_->allocate_host(4, MemoryKind::kPinned, "up").value();
  const auto down = device_->allocate_host(4, MemoryKind::kPinned, "down").value();
  float expected = 0;
  int wrong = 0;
  const HostTask next = task_of("next", [&]() -> Status {
    expected++;
    if (down->read<float>(0, 1)[0] != expected) wrong++;
    up->write<float>(0, 1)[0] = ++expected;
    return {};
  });
  const auto graph = capture(*device_, [&](Stream& s) {
    for (int i = 0; i < kTasks; i++) {
      add(s, x, one);
      s.copy(*down, 0, x.memory(), 0, 4);
      s.wait(s.host_task(next));
      s.copy(x.memory(), 0, *up, 0, 4);
    }
  });
  ASSERT_NE(graph, nullptr);
  for (int i = 0; i < kReplays; i++) graph->replay(*stream_);
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(x.get(), 2 * kTasks * kReplays);
}

TEST_P(GraphTest, AFailingTaskFailsTheReplayAndTheNextOneRuns) {
  const Number x = number(1);
  int runs = 0, later = 0;
  const HostTask first = task_of("first", [&]() -> Status {
    if (runs++ == 0) return Error{ErrorCode::kIo, "only once"};
    return {};
  });
  const HostTask second = task_of("second", [&]() -> Status { later++; return {}; });
  const auto graph = capture(*device_, [&](Stream& s) {
    s.wait(s.host_task(first));
    s.fill_zero(x.memory(), 0, 4);
    s.wait(s.host_task(second));
  });
  ASSERT_NE(graph, nullptr);
  graph->replay(*stream_);
  const Status status = stream_->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "only once");
  EXPECT_EQ(later, 0);
  graph->replay(*stream_);
  EXPECT_FALSE(stream_->synchronize().ok()) << "a failed stream replays nothing";
  EXPECT_EQ(runs, 1);

  stream_->reset();
  graph->replay(*stream_);
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(later, 1);
  EXPECT_EQ(x.get(), 0);
}

TEST_P(GraphTest, AFailedTaskThatNothingWaitsForFailsNoReplay) {
  const HostTask failing = task_of("failing", []() -> Status { return Error{ErrorCode::kIo, "unseen"}; });
  const auto graph = capture(*device_, [&](Stream& s) { s.host_task(failing); });
  ASSERT_NE(graph, nullptr);
  for (int i = 0; i < 3; i++) graph->replay(*stream_);
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_P(GraphTest, AnAbortInTheMiddleDrainsAndTheNextReplayIsRight) {
  Number x = number(0);
  const Number one = number(1);
  int runs = 0;
  bool aborts = true;
  const HostTask task = task_of("task", [&]() -> Status {
    if (++runs == 5 && aborts) stream_->abort({ErrorCode::kCancelled, "stop"});
    return {};
  });
  const auto graph = capture(*device_, [&](Stream& s) {
    for (int i = 0; i < 20; i++) {
      add(s, x, one);
      s.wait(s.host_task(task));
    }
  });
  ASSERT_NE(graph, nullptr);
  for (int i = 0; i < 4; i++) graph->replay(*stream_);
  EXPECT_EQ(stream_->synchronize().error().message, "stop");
  EXPECT_EQ(runs, 5);

  aborts = false;
  runs = 0;
  stream_->reset();
  x.set(0);
  graph->replay(*stream_);
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(runs, 20);
  EXPECT_EQ(x.get(), 20);
}

// An event that a graph records and one that it waits for, both seen from outside.
TEST_P(GraphTest, EventsReachBeyondTheGraph) {
  const Number x = number(3), y = number(0), z = number(0);
  const auto other = device_->make_stream("other");
  const auto begin = device_->make_event(), end = device_->make_event();
  const auto graph = capture(*device_, [&](Stream& s) {
    s.wait(*begin);
    s.copy(z.memory(), 0, y.memory(), 0, 4);
    s.record(*end);
  });
  ASSERT_NE(graph, nullptr);
  for (const float value : {3.0F, 4.0F}) {
    other->copy(y.memory(), 0, x.memory(), 0, 4);
    other->record(*begin);
    graph->replay(*stream_);
    other->wait(*end);
    other->fill_zero(y.memory(), 0, 4);
    ASSERT_TRUE(other->synchronize().ok());
    ASSERT_TRUE(stream_->synchronize().ok());
    EXPECT_EQ(z.get(), value);
    EXPECT_EQ(y.get(), 0);
    Number four = number(4);
    other->copy(x.memory(), 0, four.memory(), 0, 4);
    ASSERT_TRUE(other->synchronize().ok());
  }
}

}  // namespace
}  // namespace strata::test
