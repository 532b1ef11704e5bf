// Memory of the program that a device page-locks: copies read it when they run, so they have to be over before it is
// unlocked, and there is only so much of it.
#include <gmock/gmock.h>

#include "device/sim/support.h"

namespace strata::test {
namespace {

using device::MappedAs;
using testing::HasSubstr;

class SimPageLock : public testing::Test {
 protected:
  std::unique_ptr<const HostBuffer> lock(SimMachine& machine, size_t bytes = 64) {
    return machine.device(0).page_lock(std::span(own_).first(bytes), MappedAs::kReadOnly, "own").value();
  }
  void set_own(int value) { std::memset(own_.data(), value, own_.size()); }

  std::vector<std::byte> own_ = std::vector<std::byte>(128, std::byte{1});
};

TEST_F(SimPageLock, ItIsTheSameMemoryAndStaysTheProgramsOwn) {
  const auto machine = machine_of("sim:1MiB");
  {
    const auto locked = lock(*machine);
    EXPECT_EQ(locked->kind(), MemoryKind::kPinned);
    EXPECT_EQ(locked->address(), own_.data());
    EXPECT_EQ(locked->bytes(), 64u);
    EXPECT_EQ(machine->host_bytes(), 0u) << "nothing was handed out";
  }
  EXPECT_EQ(own_, std::vector<std::byte>(128, std::byte{1})) << "neither poisoned nor freed";
}

TEST_F(SimPageLock, ACopyReadsItWhenItRuns) {
  const auto machine = machine_of("sim:1MiB", {.manual = true});
  SimDevice& device = machine->device(0);
  const auto stream = device.make_stream("copies");
  const auto target = device.allocate(64, "target").value();
  const auto back = host_buffer(device, 64, MemoryKind::kPinned);
  const auto locked = lock(*machine);
  stream->copy(*target, 0, *locked, 0, 64);
  set_own(2);
  ASSERT_TRUE(machine->run_next("sim:0/copies", "copy").ok());
  set_own(3);
  stream->copy(*back, 0, *target, 0, 64);
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(first_byte(*back), 2);
}

TEST_F(SimPageLock, AllDevicesOfTheMachineCopyOutOfIt) {
  const auto machine = machine_of("sim:2x1MiB");
  const auto locked = lock(*machine);
  for (int d = 0; d < 2; d++) {
    SimDevice& device = machine->device(d);
    const auto stream = device.make_stream("copies");
    const auto target = device.allocate(32, "target").value();
    const auto back = host_buffer(device, 32, MemoryKind::kPinned);
    set_own(7 + d);
    stream->copy(*target, 0, *locked, 32, 32);
    stream->copy(*back, 0, *target, 0, 32);
    ASSERT_TRUE(stream->synchronize().ok());
    EXPECT_EQ(first_byte(*back), 7 + d);
  }
}

// Whether unlocking is found to race with a copy that was queued before.
bool races(SimMachine& machine, std::unique_ptr<const HostBuffer> locked, bool wait) {
  SimDevice& device = machine.device(0);
  const auto stream = device.make_stream("copies");
  const auto target = device.allocate(64, "target").value();
  stream->copy(*target, 0, *locked, 0, 64);
  if (wait) {
    EXPECT_TRUE(stream->synchronize().ok());
  }
  locked.reset();
  static_cast<void>(stream->synchronize());
  return machine.n_races() > 0;
}

TEST_F(SimPageLock, UnlockingUnderACopyIsARace) {
  for (int seed = 1; seed <= 8; seed++) {
    const std::string spec = "sim:1MiB/seed=" + std::to_string(seed);
    const auto waits = machine_of(spec);
    EXPECT_FALSE(races(*waits, lock(*waits), true));
    const auto hurries = machine_of(spec);
    EXPECT_TRUE(races(*hurries, lock(*hurries), false));
    EXPECT_THAT(hurries->races().at(0), HasSubstr("race on 'own' (pinned, 64 B)"));
  }
}

TEST_F(SimPageLock, WhatTheMachineDoesNotLockIsRefused) {
  const auto machine = machine_of("sim:2x1MiB/lock=100B");
  SimDevice& device = machine->device(0);
  auto first = lock(*machine, 64);
  const auto refused = machine->device(1).page_lock(std::span(own_).last(37), MappedAs::kWritable, "more");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(refused.error().message, "37 B cannot be page-locked: of the 100 B of lock= that sim:1 has, 36 B are left");
  EXPECT_TRUE(device.page_lock(std::span(own_).last(36), MappedAs::kWritable, "as much").ok());
  first.reset();
  EXPECT_TRUE(device.page_lock(std::span(own_).first(100), MappedAs::kWritable, "all").ok());
  EXPECT_FALSE(machine_of("sim:1MiB/lock=off")->device(0).page_lock(own_, MappedAs::kWritable, "none").ok());
}

}  // namespace
}  // namespace strata::test
