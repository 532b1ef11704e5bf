// Queued work that is run by hand: stories told step by step.
#include "device/sim/support.h"

namespace strata::test {
namespace {

class ManualTest : public testing::Test {
 protected:
  std::unique_ptr<SimMachine> machine_ = machine_of("sim:1MiB", {.manual = true});
  SimDevice& device_ = machine_->device(0);
  std::unique_ptr<Stream> copies_ = device_.make_stream("copies"), compute_ = device_.make_stream("compute");
  std::unique_ptr<Buffer> x_ = device_.allocate(64, "x").value();
  std::unique_ptr<HostBuffer> source_ = host_buffer(device_, 64, MemoryKind::kPinned, "source");
  std::unique_ptr<HostBuffer> back_ = host_buffer(device_, 64, MemoryKind::kPinned, "back");

  void run(const char* lane, const char* job) {
    const Status status = machine_->run_next(lane, job);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  std::string refused(const char* lane, const char* job) {
    const Status status = machine_->run_next(lane, job);
    return status.ok() ? "" : status.error().message;
  }
};

TEST_F(ManualTest, APinnedSourceIsReadWhenTheCopyRuns) {
  set_bytes(*source_, 1);
  copies_->copy(*x_, 0, *source_, 0, 64);
  store_le<uint8_t>(source_->address(), 2);  // behind the checker's back
  run("sim:0/copies", "copy");
  EXPECT_EQ(static_cast<int>(*x_->address()), 2);
}

TEST_F(ManualTest, APageableSourceWasTakenBefore) {
  const auto pageable = host_buffer(device_, 64, MemoryKind::kPageable);
  set_bytes(*pageable, 1);
  copies_->copy(*x_, 0, *pageable, 0, 64);
  set_bytes(*pageable, 2);
  run("sim:0/copies", "copy");
  EXPECT_EQ(static_cast<int>(*x_->address()), 1);
  EXPECT_TRUE(machine_->races().empty());
}

TEST_F(ManualTest, APinnedTargetIsWrittenWhenTheCopyRuns) {
  set_bytes(*back_, 7);
  copies_->fill_zero(*x_, 0, 64);
  copies_->copy(*back_, 0, *x_, 0, 64);
  run("sim:0/copies", "fill_zero");
  EXPECT_EQ(static_cast<int>(*back_->address()), 7);
  run("sim:0/copies", "copy");
  EXPECT_EQ(static_cast<int>(*back_->address()), 0);
}

// A stream waits for a copy that is late; the copy comes; the stream goes on.
TEST_F(ManualTest, AWaitHoldsItsStreamBack) {
  const auto event = device_.make_event();
  copies_->copy(*x_, 0, *source_, 0, 64);
  copies_->record(*event);
  compute_->wait(*event);
  compute_->copy(*back_, 0, *x_, 0, 64);
  EXPECT_EQ(machine_->next_jobs(), (std::vector<std::string>{"sim:0/copies: copy", "sim:0/compute: wait event"}));
  EXPECT_EQ(refused("sim:0/compute", "wait event"),
            "'wait event' of 'sim:0/compute' waits for what 'sim:0/copies' has not reached");
  EXPECT_EQ(refused("sim:0/compute", "copy"), "the next job of 'sim:0/compute' is 'wait event', not 'copy'");
  EXPECT_EQ(refused("sim:0/other", "copy"), "there is no lane 'sim:0/other'");
  EXPECT_EQ(refused("sim:0/compute tasks", "x"), "nothing is queued on 'sim:0/compute tasks', so not 'x' either");
  run("sim:0/copies", "copy");
  EXPECT_FALSE(event->done());
  run("sim:0/copies", "record");
  EXPECT_TRUE(event->done());
  run("sim:0/compute", "wait event");
  run("sim:0/compute", "copy");
  EXPECT_TRUE(machine_->next_jobs().empty());
}

TEST_F(ManualTest, ATaskHasALaneOfItsOwn) {
  int runs = 0;
  const HostTask task = task_of("experts", [&]() -> Status {
    runs++;
    return {};
  });
  const device::Ticket ticket = compute_->host_task(task);
  compute_->fill_zero(*x_, 0, 64);
  compute_->wait(ticket);
  run("sim:0/compute", "start task");
  run("sim:0/compute", "fill_zero");
  EXPECT_NE(refused("sim:0/compute", "wait task"), "");
  EXPECT_EQ(runs, 0);
  run("sim:0/compute tasks", "experts");
  EXPECT_EQ(runs, 1);
  run("sim:0/compute", "wait task");
}

// Whoever waits runs what it takes, and no more.
TEST_F(ManualTest, SynchronizingRunsWhatItWaitsFor) {
  const auto event = device_.make_event();
  set_bytes(*source_, 9);
  copies_->copy(*x_, 0, *source_, 0, 64);
  copies_->record(*event);
  copies_->fill_zero(*x_, 0, 64);
  compute_->wait(*event);
  compute_->copy(*back_, 0, *x_, 0, 64);
  ASSERT_TRUE(compute_->synchronize().ok());
  EXPECT_EQ(first_byte(*back_), 9);
  EXPECT_EQ(machine_->next_jobs(), std::vector<std::string>{"sim:0/copies: fill_zero"});
}

// The race is told although by hand everything ran one after the other.
TEST_F(ManualTest, ALuckyOrderHidesNoRace) {
  set_bytes(*source_, 1);
  copies_->copy(*x_, 0, *source_, 0, 64);
  compute_->copy(*back_, 0, *x_, 0, 64);
  run("sim:0/copies", "copy");
  run("sim:0/compute", "copy");
  ASSERT_EQ(machine_->races().size(), 1u);
  const std::string report = machine_->races()[0];
  EXPECT_TRUE(report.starts_with("race on 'x' (device memory, 64 B), bytes [0, 64)\n")) << report;
  EXPECT_NE(report.find("  write by sim:0/copies: copy at manual_test.cpp:"), std::string::npos) << report;
  EXPECT_NE(report.find("  read  by sim:0/compute: copy at manual_test.cpp:"), std::string::npos) << report;
  EXPECT_NE(report.find("  clocks:  sim:0/compute has seen sim:0/copies up to step 0\n"), std::string::npos) << report;
  EXPECT_NE(report.find("in this order, record an event on sim:0/copies after the copy, and "
                        "let sim:0/compute wait for it before the copy is queued;"),
            std::string::npos)
      << report;
  const std::string line = compute_->synchronize().error().message;
  EXPECT_TRUE(line.starts_with("race on 'x', bytes [0, 64): nothing orders the write by sim:0/copies: copy at "))
      << line;
  compute_->reset();
}

TEST_F(ManualTest, AbortLetsAStreamDrain) {
  const auto event = device_.make_event();
  copies_->copy(*x_, 0, *source_, 0, 64);
  copies_->record(*event);
  compute_->wait(*event);
  compute_->fill_zero(*x_, 0, 64);
  compute_->abort({ErrorCode::kCancelled, "stop"});
  run("sim:0/compute", "wait event");
  run("sim:0/compute", "fill_zero");
  EXPECT_EQ(compute_->synchronize().error().message, "stop");
  EXPECT_EQ(static_cast<int>(*x_->address()), 0xff);
  EXPECT_TRUE(copies_->synchronize().ok());
}

}  // namespace
}  // namespace strata::test
