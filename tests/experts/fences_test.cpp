// The table of copies out of a buffer, with copies that are run by hand. E01, E02 and their neighbours.
#include "experts/fences.h"

#include <gmock/gmock.h>

#include "device/forwarding_device.h"
#include "device/sim/support.h"

namespace strata::test {
namespace {

using experts::FenceTable;

class FencesTest : public testing::Test {
 protected:
  FencesTest() { set_bytes(*source_, 1); }
  ~FencesTest() override { EXPECT_THAT(machine_->races(), testing::IsEmpty()); }

  // Queues a copy out of the source and notes it.
  void copy(Stream& stream) {
    stream.copy(stream.device() == &device_ ? *target_ : *other_target_, 0, *source_, 0, 64);
    fences_.note(stream);
  }
  void run(const std::string& lane) {
    for (const char* job : {"copy", "record"}) {
      const Status status = machine_->run_next(lane, job);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
  }
  int waits() {
    int n = 0;
    fences_.wait([&] { n++; });
    return n;
  }

  std::unique_ptr<SimMachine> machine_ = machine_of("sim:1MiB,1MiB", {.manual = true});
  SimDevice &device_ = machine_->device(0), &other_ = machine_->device(1);
  std::unique_ptr<HostBuffer> source_ = host_buffer(device_, 64, MemoryKind::kPinned, "source");
  std::unique_ptr<Buffer> target_ = device_.allocate(64 * 8, "target").value();
  std::unique_ptr<Buffer> other_target_ = other_.allocate(64, "other target").value();
  std::unique_ptr<Stream> a_ = device_.make_stream("a"), b_ = device_.make_stream("b");
  FenceTable fences_;
};

TEST_F(FencesTest, AnEmptyTableHasNothingToWaitFor) {
  EXPECT_TRUE(fences_.idle());
  EXPECT_EQ(waits(), 0);
}

TEST_F(FencesTest, AFastStreamHidesNoSlowOne) {
  fences_.note(*a_);  // as after a copy that reads elsewhere
  ASSERT_TRUE(machine_->run_next("sim:0/a", "record").ok());
  a_->copy(*target_, 0, *source_, 0, 64);
  fences_.note(*a_);
  b_->copy(*target_, 64, *source_, 0, 64);
  fences_.note(*b_);
  run("sim:0/b");
  EXPECT_FALSE(fences_.idle());
  run("sim:0/a");
  EXPECT_TRUE(fences_.idle());
}

// The stream's later copy is the last to be done.
TEST_F(FencesTest, TheSameStreamTakesOneEntry) {
  for (int i = 0; i < 9; i++) copy(*a_);
  for (int i = 0; i < 8; i++) run("sim:0/a");
  EXPECT_FALSE(fences_.idle());
  run("sim:0/a");
  EXPECT_TRUE(fences_.idle());
  EXPECT_EQ(waits(), 0);
}

// Waiting runs by hand what it waits for, and no more.
TEST_F(FencesTest, WaitingIsForEveryStream) {
  copy(*a_);
  b_->copy(*target_, 64, *source_, 0, 64);
  fences_.note(*b_);
  EXPECT_EQ(waits(), 1);
  EXPECT_THAT(machine_->next_jobs(), testing::IsEmpty());
  EXPECT_TRUE(fences_.idle());
  set_bytes(*source_, 2);  // ordered after both copies, says the checker
}

// E02: five streams, four entries.
TEST_F(FencesTest, AFullTableWaitsForTheOldest) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 5; i++) streams.push_back(device_.make_stream("s" + std::to_string(i)));
  for (size_t i = 0; i < 5; i++) {
    streams[i]->copy(*target_, 64 * i, *source_, 0, 64);
    fences_.note(*streams[i]);
  }
  // The first stream's copy has been waited for; nobody ran the others.
  EXPECT_THAT(machine_->next_jobs(), testing::ElementsAre("sim:0/s1: copy", "sim:0/s2: copy", "sim:0/s3: copy",
                                                          "sim:0/s4: copy"));
  run("sim:0/s2");
  streams[0]->copy(*target_, 64 * 5, *source_, 0, 64);
  fences_.note(*streams[0]);  // takes the entry of the copy that is done
  EXPECT_THAT(machine_->next_jobs(), testing::ElementsAre("sim:0/s0: copy", "sim:0/s1: copy", "sim:0/s3: copy",
                                                          "sim:0/s4: copy"));
  EXPECT_EQ(waits(), 1);
  EXPECT_THAT(machine_->next_jobs(), testing::IsEmpty());
  set_bytes(*source_, 2);
}

TEST_F(FencesTest, StreamsOfSeveralDevicesShareTheTable) {
  const auto far = other_.make_stream("far");
  copy(*a_);
  copy(*far);
  run("sim:0/a");
  EXPECT_FALSE(fences_.idle());
  copy(*far);
  run("sim:1/far");
  EXPECT_FALSE(fences_.idle());
  run("sim:1/far");
  EXPECT_TRUE(fences_.idle());
  copy(*a_);  // an entry that was another device's
  EXPECT_EQ(waits(), 1);
}

// A record that fails leaves the stream failed, and what was queued before it done.
TEST_F(FencesTest, AFailedRecordStillOrdersTheCopy) {
  machine_->faults().fail_at(FaultPoint::kRecord, 1);
  copy(*a_);
  EXPECT_EQ(waits(), 1);
  EXPECT_EQ(machine_->faults().failed(), 1u);
  set_bytes(*source_, 2);
  EXPECT_FALSE(a_->synchronize().ok());
}

TEST_F(FencesTest, DroppingWaitsBeforeEventsDie) {
  copy(*a_);
  fences_.drop();
  EXPECT_THAT(machine_->next_jobs(), testing::IsEmpty());
  set_bytes(*source_, 2);
  copy(*a_);  // and begins anew
  EXPECT_FALSE(fences_.idle());
}

// A device that has no events left.
class EventlessDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Stream> make_stream(std::string name) override;
  std::unique_ptr<Event> make_event() override { return nullptr; }
};

// Its stream, as far as this test uses it.
class EventlessStream final : public Stream {
 public:
  EventlessStream(EventlessDevice& device, std::string name)
      : Stream(&device, name), inner_(device.inner().make_stream(std::move(name))) {}
  void copy(device::Memory& dst, size_t dst_offset, const device::Memory& src, size_t src_offset, size_t bytes,
            SourceSite site) override {
    inner_->copy(dst, dst_offset, src, src_offset, bytes, site);
  }
  void fill_zero(device::Memory&, size_t, size_t, SourceSite) override {}
  void record(Event&) override { ADD_FAILURE() << "there is no event"; }
  void wait(const Event&) override {}
  device::Ticket host_task(const HostTask&) override { return {}; }
  void wait(device::Ticket) override {}
  void abort(Error) override {}
  Status synchronize() override { return inner_->synchronize(); }
  void reset() override {}

 private:
  void submit(const device::Launch&) override {}
  std::unique_ptr<Stream> inner_;
};
std::unique_ptr<Stream> EventlessDevice::make_stream(std::string name) {
  return std::make_unique<EventlessStream>(*this, std::move(name));
}

TEST_F(FencesTest, WithoutAnEventTheStreamIsSynchronized) {
  EventlessDevice eventless(device_);
  const auto stream = eventless.make_stream("s");
  stream->copy(*target_, 0, *source_, 0, 64);
  fences_.note(*stream);
  EXPECT_THAT(machine_->next_jobs(), testing::IsEmpty());
  EXPECT_TRUE(fences_.idle());
  set_bytes(*source_, 2);
}

}  // namespace
}  // namespace strata::test
