// Ends with 77, which stands for skipped, on machines without a CUDA device that the build can use.
#include <cstdio>

#include <gtest/gtest.h>

#include "device/cuda/cuda.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto gpu = strata::device::cuda::open_gpu(0, {});
  if (!gpu.ok() && gpu.error().code == strata::ErrorCode::kUnsupported) {
    std::fprintf(stderr, "skipped: %s\n", gpu.error().message.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
