// Memory of a CUDA device: its budget, and what is said when it does not suffice.
#include <gmock/gmock.h>

#include "gpu/support.h"

namespace strata::test {
namespace {

using device::MemoryKind;
using testing::HasSubstr;

TEST(GpuMemory, UsedBytesFollowTheBuffers) {
  const auto device = open_gpu();
  EXPECT_EQ(device->name(), "cuda:0");
  EXPECT_FALSE(device->host_accessible());
  EXPECT_GT(device->budget_bytes(), 0u);
  {
    const auto a = device->allocate(1000, "a").value();
    const auto b = device->allocate_host(24, MemoryKind::kPinned, "b").value();
    const auto c = device->allocate_host(100, MemoryKind::kPageable, "c").value();
    EXPECT_EQ(device->used_bytes(), 1000u);
    EXPECT_EQ(device->host_bytes(), 124u);
    EXPECT_EQ(a->owner(), device.get());
    EXPECT_EQ(a->kind(), MemoryKind::kDevice);
    EXPECT_EQ(b->kind(), MemoryKind::kPinned);
    b->write<int32_t>(0, 6)[5] = 7;
    c->write<int32_t>(0, 25)[24] = 8;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(c->address()) % 4096, 0u) << "direct reads land there";
  }
  EXPECT_EQ(device->used_bytes(), 0u);
  EXPECT_EQ(device->host_bytes(), 0u);
}

TEST(GpuMemory, TheBudgetIsNeverExceeded) {
  const uint64_t all = open_gpu({.reserve_bytes = 0})->budget_bytes();
  const auto device = open_gpu({.reserve_bytes = all - 64 * kMiB});
  EXPECT_LE(device->budget_bytes(), 64 * kMiB);
  const size_t most = device->budget_bytes();
  const auto refused = device->allocate(most + 1, "the expert cache");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("the expert cache"));
  EXPECT_EQ(device->used_bytes(), 0u);
  const auto half = device->allocate(most / 2, "half").value();
  EXPECT_FALSE(device->allocate(most - most / 2 + 1, "more").ok());
  EXPECT_TRUE(device->allocate(most - most / 2, "the rest").ok());
}

TEST(GpuMemory, ALimitCountsWhatTheContextTakes) {
  const auto device = open_gpu({.limit_bytes = 2 * kGiB, .reserve_bytes = 100 * kMiB});
  EXPECT_LT(device->budget_bytes(), 2 * kGiB - 100 * kMiB);
  EXPECT_GT(device->budget_bytes(), kGiB / 2);
}

TEST(GpuMemory, WhatIsNotThereIsSaidWithTheFlags) {
  const auto refused = device::cuda::open_gpu(0, {.limit_bytes = 64 * kMiB});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("--vram-budget-gib"));
  EXPECT_THAT(refused.error().message, HasSubstr("--vram-reserve-mib"));
  const auto nowhere = device::cuda::open_gpu(63, {});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(nowhere.error().message, HasSubstr("cuda:63"));
}

TEST(GpuMemory, WhatTheSystemDoesNotHaveIsAnError) {
  const auto device = open_gpu();
  for (const MemoryKind kind : {MemoryKind::kPinned, MemoryKind::kPageable}) {
    for (const size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
      const auto refused = device->allocate_host(bytes, kind, "too much");
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
      EXPECT_THAT(refused.error().message, HasSubstr("too much"));
    }
  }
  EXPECT_EQ(device->host_bytes(), 0u);
  // The refusal is not taken for a failure of the next operation.
  const auto stream = device->make_stream("test");
  const Number x(*device, 1), y(*device, 2);
  Adder(*device).enqueue(*stream, x.view(), y.view());
  EXPECT_TRUE(stream->synchronize().ok());
}

}  // namespace
}  // namespace strata::test
