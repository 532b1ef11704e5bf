// Memory of the host device: budgets, lifetimes, guards of host buffers, and views.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/support.h"

namespace strata::test {
namespace {

using device::MemoryKind;
using device::View;
using device::host::HostDevice;
using testing::HasSubstr;

TEST(Memory, UsedBytesFollowTheBuffers) {
  HostDevice device(host_options(1, kMiB));
  EXPECT_EQ(device.budget_bytes(), kMiB);
  EXPECT_EQ(device.used_bytes(), 0u);
  {
    const auto a = device.allocate(1000, "a").value();
    const auto b = device.allocate_host(24, MemoryKind::kPinned, "b").value();
    EXPECT_EQ(device.used_bytes(), 1024u);
    EXPECT_EQ(a->bytes(), 1000u);
    EXPECT_EQ(a->name(), "a");
    EXPECT_EQ(a->kind(), MemoryKind::kDevice);
    EXPECT_EQ(a->owner(), &device);
    EXPECT_EQ(b->kind(), MemoryKind::kPinned);
    std::memset(a->address(), 1, a->bytes());
    std::memset(b->address(), 1, b->bytes());
  }
  EXPECT_EQ(device.used_bytes(), 0u);
}

TEST(Memory, TheBudgetIsNeverExceeded) {
  HostDevice device(host_options(1, 64 * kKiB));
  const auto half = device.allocate(48 * kKiB, "half").value();
  const auto refused = device.allocate(17 * kKiB, "the expert arena");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("the expert arena"));
  EXPECT_THAT(refused.error().message, HasSubstr("17 KiB"));
  EXPECT_THAT(refused.error().message, HasSubstr("16 KiB"));
  EXPECT_EQ(device.used_bytes(), 48 * kKiB);
  EXPECT_FALSE(device.allocate_host(17 * kKiB, MemoryKind::kPageable, "staging").ok());
  EXPECT_TRUE(device.allocate(16 * kKiB, "what is left").ok());
}

TEST(Memory, WhatTheSystemDoesNotHaveIsAnError) {
  HostDevice device(host_options(1, UINT64_MAX));
  for (const size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
    const auto refused = device.allocate(bytes, "too much");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
    EXPECT_THAT(refused.error().message, HasSubstr("too much"));
  }
  EXPECT_EQ(device.used_bytes(), 0u);
}

TEST(MemoryDeathTest, BuffersMustDieBeforeTheirDevice) {
  EXPECT_DEATH(
      {
        auto device = std::make_unique<HostDevice>(host_options());
        const auto buffer = make_buffer(*device, 16);
        device.reset();
      },
      "used_bytes_");
}

TEST(Memory, GuardsReachTheWholeHostBuffer) {
  HostDevice device(host_options());
  const auto host = device.allocate_host(16, MemoryKind::kPinned, "staging").value();
  {
    const auto guard = host->write<int32_t>(0, 4);
    for (int i = 0; i < 4; i++) guard[static_cast<size_t>(i)] = 10 + i;
  }
  EXPECT_EQ(host->read<int32_t>(4, 3)[2], 13);
  EXPECT_EQ(host->read<int32_t>(12, 1).span().size(), 1u);
  EXPECT_TRUE(host->read<int32_t>(16, 0).span().empty());
}

TEST(MemoryDeathTest, GuardsBeyondAHostBuffer) {
  HostDevice device(host_options());
  const auto host = device.allocate_host(16, MemoryKind::kPinned, "staging").value();
  EXPECT_DEATH(host->read<int32_t>(0, 5), "offset");
  EXPECT_DEATH(host->write<int32_t>(13, 1), "offset");
  EXPECT_DEATH(host->write<int32_t>(17, 0), "offset");
  // Sizes whose sum does not fit 64 bits.
  EXPECT_DEATH(host->read<int32_t>(SIZE_MAX - 3, 1), "offset");
  EXPECT_DEATH(host->write<int32_t>(0, SIZE_MAX / 4 + 1), "count");
}

class ViewTest : public testing::Test {
 protected:
  HostDevice device_{host_options()};
  std::unique_ptr<device::Buffer> buffer_ = make_buffer(device_, 4 * 60);
  View<float> whole_ = device::view_of<float>(*buffer_, 6, 10);
};

TEST_F(ViewTest, RowsColumnsAndSlices) {
  auto* floats = reinterpret_cast<float*>(buffer_->address());
  EXPECT_EQ(whole_.row(2), floats + 20);
  const View<float> columns = whole_.columns(3, 4);
  EXPECT_EQ(columns.rows, 6);
  EXPECT_EQ(columns.cols, 4);
  EXPECT_EQ(columns.row(2), floats + 23);
  const View<float> inner = columns.slice(1, 3).columns(1, 2);
  EXPECT_EQ(inner.rows, 3);
  EXPECT_EQ(inner.row(0), floats + 14);
  EXPECT_EQ(inner.row(2), floats + 34);
  EXPECT_EQ(whole_.first_rows(0).rows, 0);
  EXPECT_EQ(device::view_of<float>(*buffer_, 1, 2, 8).data(), floats + 2);

  const device::Range range = inner.range(true);
  EXPECT_EQ(range.memory, buffer_.get());
  EXPECT_EQ(range.offset, 14 * sizeof(float));
  EXPECT_EQ(range.row_bytes, 2 * sizeof(float));
  EXPECT_EQ(range.rows, 3);
  EXPECT_EQ(range.stride_bytes, 10 * sizeof(float));
  EXPECT_TRUE(range.write);
  EXPECT_FALSE(inner.range(false).write);
}

using ViewDeathTest = ViewTest;
TEST_F(ViewDeathTest, PartsBeyondAView) {
  EXPECT_DEATH(whole_.columns(-1, 2), "begin");
  EXPECT_DEATH(whole_.columns(7, 4), "cols");
  EXPECT_DEATH(whole_.slice(-1, 2), "begin");
  EXPECT_DEATH(whole_.slice(5, 2), "rows");
  EXPECT_DEATH(device::view_of<float>(*buffer_, 6, 11), "bytes");
  EXPECT_DEATH(device::view_of<float>(*buffer_, 1, 60, 4), "bytes");
}

TEST_F(ViewTest, OverlapIsThatOfIntervals) {
  const auto other = make_buffer(device_, 4 * 60);
  const View<float> elsewhere = device::view_of<float>(*other, 6, 10);
  EXPECT_TRUE(overlap(whole_, whole_));
  EXPECT_FALSE(overlap(whole_, elsewhere));
  EXPECT_FALSE(overlap(whole_, View<float>{}));
  EXPECT_FALSE(overlap(whole_.slice(0, 3), whole_.slice(3, 3)));
  EXPECT_TRUE(overlap(whole_.slice(0, 4), whole_.slice(3, 3)));
  // Columns of one buffer lie between each other: taken as shared.
  EXPECT_TRUE(overlap(whole_.columns(0, 5), whole_.columns(5, 5)));
  // Of a single row they don't.
  EXPECT_FALSE(overlap(whole_.slice(0, 1).columns(0, 5), whole_.slice(0, 1).columns(5, 5)));
  // The last row of a strided view ends with its last column.
  EXPECT_FALSE(overlap(whole_.slice(0, 2).columns(0, 5), whole_.slice(1, 1).columns(5, 5)));
  // Elements of other sizes.
  const View<uint8_t> bytes = device::view_of<uint8_t>(*buffer_, 1, 8);
  EXPECT_TRUE(overlap(bytes, whole_.slice(0, 1).columns(1, 1)));
  EXPECT_FALSE(overlap(bytes, whole_.slice(0, 1).columns(2, 1)));
}

TEST_F(ViewTest, NoRowsOverlapNothing) {
  EXPECT_FALSE(overlap(whole_.columns(0, 5).first_rows(0), whole_));
  EXPECT_FALSE(overlap(whole_, whole_.columns(0, 5).first_rows(0)));
}

}  // namespace
}  // namespace strata::test
