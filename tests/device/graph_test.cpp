// Graphs: captured without running, replayed with the bits of direct enqueueing, without an allocation.
#include <gtest/gtest.h>

#include "device/op_case.h"
#include "text/counting_new.h"

namespace strata::test {
namespace {

using device::Graph;
using device::HostTask;
using device::Stream;
using device::host::HostDevice;
using text::test::n_allocations;

void run(HostDevice& device, const std::function<void(Stream&)>& enqueue) {
  const auto stream = device.make_stream("test");
  enqueue(*stream);
  ASSERT_TRUE(stream->synchronize().ok());
}

TEST(Graph, CaptureRunsNothing) {
  HostDevice device(host_options());
  int runs = 0;
  const HostTask task{.name = "count", .run = [&]() -> Status { runs++; return {}; }, .ranges = {}};
  for (const auto& c : all_op_cases(device)) {
    Random random(1);
    c->fill(random);
    const auto before = c->snapshot();
    const auto graph = device.capture([&](Stream& s) {
      c->enqueue(s);
      s.wait(s.host_task(task));
      EXPECT_TRUE(s.synchronize().ok());
    });
    ASSERT_TRUE(graph.ok());
    EXPECT_EQ((*graph)->size(), 3u);
    EXPECT_EQ(c->snapshot(), before) << c->name();
  }
  EXPECT_EQ(runs, 0);
}

TEST(Graph, ReplayEqualsEnqueueing) {
  HostDevice device(host_options(3));
  const OpCases direct = all_op_cases(device), replayed = all_op_cases(device);
  for (size_t i = 0; i < direct.size(); i++) {
    const auto graph = device.capture(replayed[i]->enqueue);
    ASSERT_TRUE(graph.ok());
    for (const uint64_t seed : {11, 12}) {
      Random a(seed), b(seed);
      direct[i]->fill(a);
      replayed[i]->fill(b);
      run(device, direct[i]->enqueue);
      run(device, [&](Stream& s) { (*graph)->replay(s); });
      EXPECT_EQ(direct[i]->snapshot(), replayed[i]->snapshot()) << direct[i]->name() << ", seed " << seed;
    }
  }
}

// All operations, tasks, copies and fills in one graph.
TEST(Graph, NothingIsAllocatedOnReplayOrEnqueue) {
  HostDevice device(host_options(2));
  const OpCases cases = all_op_cases(device);
  Random random(5);
  for (const auto& c : cases) c->fill(random);
  const auto scratch = make_buffer(device, 64);
  const auto event = device.make_event();
  const HostTask task{.name = "task", .run = []() -> Status { return {}; }, .ranges = {}};
  const auto enqueue = [&](Stream& s) {
    for (const auto& c : cases) c->enqueue(s);
    s.wait(s.host_task(task));
    s.fill_zero(*scratch, 0, 32);
    s.copy(*scratch, 32, *scratch, 0, 32);
    s.record(*event);
    s.wait(*event);
  };
  const auto graph = device.capture(enqueue);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ((*graph)->size(), cases.size() + 6);
  const auto stream = device.make_stream("test");

  const int64_t before_replay = n_allocations();
  (*graph)->replay(*stream);
  const int64_t after_replay = n_allocations();
  enqueue(*stream);
  const int64_t after_enqueue = n_allocations();
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(n_allocations(), after_enqueue);
  EXPECT_EQ(after_replay, before_replay);
  EXPECT_EQ(after_enqueue, after_replay);
  ::operator delete(::operator new(1));  // a call that no compiler leaves out
  EXPECT_GT(n_allocations(), after_enqueue) << "nothing counts the allocations";
}

TEST(Graph, HostTasksRunOncePerReplayInOrder) {
  HostDevice device(host_options());
  std::string order;
  const auto note = [&](char c) {
    return HostTask{.name = "note", .run = [&order, c]() -> Status { order += c; return {}; }, .ranges = {}};
  };
  const HostTask a = note('a'), b = note('b');
  const auto graph = device.capture([&](Stream& s) {
    const device::Ticket first = s.host_task(a);
    const device::Ticket second = s.host_task(b);
    s.wait(second);
    s.wait(first);
    s.wait(s.host_task(a));
  });
  ASSERT_TRUE(graph.ok());
  for (int i = 0; i < 3; i++) run(device, [&](Stream& s) { (*graph)->replay(s); });
  EXPECT_EQ(order, "abaabaaba");
}

TEST(Graph, AFailingTaskFailsTheReplayAndTheNextOneRuns) {
  HostDevice device(host_options());
  const auto buffer = make_buffer(device, 4);
  store_le<float>(buffer->address(), 1);
  int runs = 0;
  const HostTask first{.name = "first", .run = [&]() -> Status {
    if (runs++ == 0) return Error{ErrorCode::kIo, "only once"};
    return {};
  }, .ranges = {}};
  int later = 0;
  const HostTask second{.name = "second", .run = [&]() -> Status { later++; return {}; }, .ranges = {}};
  const auto graph = device.capture([&](Stream& s) {
    s.wait(s.host_task(first));
    s.fill_zero(*buffer, 0, 4);
    s.wait(s.host_task(second));
  });
  ASSERT_TRUE(graph.ok());
  const auto stream = device.make_stream("test");
  (*graph)->replay(*stream);
  const Status status = stream->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "only once");
  EXPECT_EQ(later, 0);
  EXPECT_EQ(load_le<float>(buffer->address()), 1);

  stream->reset();
  (*graph)->replay(*stream);
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(later, 1);
  EXPECT_EQ(load_le<float>(buffer->address()), 0);
}

TEST(Graph, AnEmptyGraphReplays) {
  HostDevice device(host_options());
  const auto graph = device.capture([](Stream&) {});
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ((*graph)->size(), 0u);
  run(device, [&](Stream& s) { (*graph)->replay(s); });
}

}  // namespace
}  // namespace strata::test
