// What --device says of CUDA devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cuda/cuda.h"

namespace strata::device::cuda {
namespace {

using testing::HasSubstr;

TEST(CudaSpec, NamesDevices) {
  EXPECT_EQ(parse_cuda_spec("cuda").value(), std::vector<int>{0});
  EXPECT_EQ(parse_cuda_spec("cuda:0").value(), std::vector<int>{0});
  EXPECT_EQ(parse_cuda_spec("cuda:3").value(), std::vector<int>{3});
  EXPECT_EQ(parse_cuda_spec("cuda:1,0,12").value(), (std::vector<int>{1, 0, 12}));
  EXPECT_EQ(parse_cuda_spec("cuda:0,0").value(), (std::vector<int>{0, 0}));
}

TEST(CudaSpec, IsRecognisedByItsBeginning) {
  for (const char* text : {"cuda", "cuda:", "cuda:0", "cuda:x"}) EXPECT_TRUE(is_cuda_spec(text)) << text;
  for (const char* text : {"", "cpu", "cud", "cuda0", "sim:64MiB", "CUDA"}) EXPECT_FALSE(is_cuda_spec(text)) << text;
}

TEST(CudaSpec, WhatIsNoNumberIsRefusedByName) {
  for (const char* text : {"cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda:0,", "cuda:,0", "cuda:0,,1", "cuda: 0",
                           "cuda:64", "cuda:99999999999999999999", "cuda:0x1", "cuda:0;1"}) {
    const auto refused = parse_cuda_spec(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kBadInput) << text;
    EXPECT_THAT(refused.error().message, HasSubstr("--device cuda")) << text;
  }
}

// Whatever the build and the machine: without a device there is a reason in one line, and no crash.
TEST(CudaDevice, WhereThereIsNoneItIsSaid) {
  const auto gpu = open_gpu(63, {});
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(gpu.error().message, HasSubstr("--device cuda:63: "));
}

}  // namespace
}  // namespace strata::device::cuda
