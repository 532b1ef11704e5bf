// Memory of the program that a CUDA device page-locks: copies run beside the host and read it when they run.
#include <cstring>
#include <fstream>

#include <gmock/gmock.h>

#include "base/shared_file.h"
#include "gpu/support.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using device::HostBuffer;
using device::MappedAs;
using device::MemoryKind;

constexpr size_t kBytes = 3 * kMiB + 100;

class GpuPageLock : public testing::Test {
 protected:
  // The bytes at the ends of the range, after a way to the device and back.
  std::vector<int> ends(const HostBuffer& locked) {
    stream_->copy(*target_, 0, locked, 0, locked.bytes());
    stream_->copy(*back_, 0, *target_, 0, locked.bytes());
    const Status status = stream_->synchronize();
    EXPECT_TRUE(status.ok()) << status.error().message;
    const auto bytes = back_->read<std::byte>(0, locked.bytes());
    return {static_cast<int>(bytes[0]), static_cast<int>(bytes[locked.bytes() - 1])};
  }

  std::unique_ptr<device::cuda::Gpu> device_ = open_gpu();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream("copies");
  std::unique_ptr<device::Buffer> target_ = device_->allocate(kBytes, "target").value();
  std::unique_ptr<HostBuffer> back_ = device_->allocate_host(kBytes, MemoryKind::kPinned, "back").value();
  std::vector<std::byte> own_ = std::vector<std::byte>(kBytes, std::byte{1});
};

TEST_F(GpuPageLock, ACopyReadsItWhenItRuns) {
  const uint64_t host_bytes = device_->host_bytes();
  const auto locked = device_->page_lock(own_, MappedAs::kWritable, "own").value();
  EXPECT_EQ(locked->kind(), MemoryKind::kPinned);
  EXPECT_EQ(device_->host_bytes(), host_bytes) << "nothing was handed out";
  Gate gate;
  const device::HostTask waits = task_of("gate", [&]() -> Status { gate.pass(); return {}; });
  stream_->wait(stream_->host_task(waits));
  stream_->copy(*target_, 0, *locked, 0, kBytes);
  std::memset(own_.data(), 2, kBytes);
  gate.open();
  stream_->copy(*back_, 0, *target_, 0, kBytes);
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(back_->read<std::byte>(0, kBytes)[kBytes - 1], std::byte{2});
}

TEST_F(GpuPageLock, RangesMayShareAPageAndBeLockedAnew) {
  for (int round = 0; round < 2; round++) {
    const size_t half = kBytes / 2;
    auto first = device_->page_lock(std::span(own_).first(half), MappedAs::kWritable, "first").value();
    const auto second = device_->page_lock(std::span(own_).subspan(half), MappedAs::kWritable, "second").value();
    own_[half] = std::byte{7};
    EXPECT_THAT(ends(*first), testing::ElementsAre(1, 1));
    EXPECT_THAT(ends(*second), testing::ElementsAre(7, 1));
    first.reset();
    EXPECT_THAT(ends(*second), testing::ElementsAre(7, 1)) << "the shared page is still locked";
  }
}

// As engines do that attach to a shared arena, and without a trace in the file.
TEST_F(GpuPageLock, PagesThatAreMappedReadOnly) {
  const TempDir folder("/dev/shm");
  auto file = std::move(*SharedFile::create(folder.file("shared")).value());
  ASSERT_TRUE(file.allocate(0, 2 * kSharedPage).ok());
  {
    const auto writable = file.map_writable(0, 2 * kSharedPage).value();
    std::memset(writable->writable_bytes().data(), 5, kBytes);
  }
  const auto mapping = file.map_read_only(0, 2 * kSharedPage).value();
  const SharedFile::Size before = file.size().value();
  auto locked = device_->page_lock(mapping->bytes().first(kBytes), MappedAs::kReadOnly, "shared");
  if (!locked.ok()) {
    EXPECT_EQ(locked.error().code, ErrorCode::kUnsupported) << locked.error().message;
    GTEST_SKIP() << locked.error().message;
  }
  EXPECT_THAT(ends(**locked), testing::ElementsAre(5, 5));
  EXPECT_EQ(file.size()->modified_ns, before.modified_ns);
}

TEST_F(GpuPageLock, ARefusalIsAnErrorOfTheCallAlone) {
  const std::byte* nowhere = reinterpret_cast<const std::byte*>(uintptr_t{1} << 21);
  const auto refused = device_->page_lock({nowhere, kBytes}, MappedAs::kWritable, "nowhere");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("3 MiB cannot be page-locked: cudaHostRegister for nowhere"));
  const Number x(*device_, 1), y(*device_, 2);
  Adder(*device_).enqueue(*stream_, x.view(), y.view());
  EXPECT_TRUE(stream_->synchronize().ok());
}

}  // namespace
}  // namespace strata::test
