// Mixed requests on a GPU that holds a quarter of the experts, beside an engine whose GPU holds all of them and that
// answers one at a time: no error, every answer as alone, no growth of the device's memory as its driver counts it.
#include <cstdlib>
#include <filesystem>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "engine/soak/rig.h"
#include "gpu/lending.h"

namespace strata::test {
namespace {

constexpr SoakShape kShape = {.longest = 6000, .n_prompts = 24, .n_chats = 8, .n_turns = 5, .answer_tokens = 24};

uint64_t used_bytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return total - free;
}

// The demo model, or by hand another one: SOAK_MODEL=big.gguf SOAK_SECONDS=480 SOAK_SEED=7.
TEST(GpuSoak, MixedRequestsAreAnsweredAsAlone) {
  GoldenModel golden = load_demo_golden();
  if (const char* path = std::getenv("SOAK_MODEL")) golden.path = path;
  const uint64_t gib = 4 + std::filesystem::file_size(golden.path) / kGiB;
  SoakOptions options = options_from_environment({.least_requests = 100});
  options.device_bytes = used_bytes;
  engine::EngineConfig config = soak_config(golden.path, kShape, 512);
  config.device = "cuda:0";
  config.threads = 4;
  expect_soak(golden.path, lone_config(config, config.device), lending_gpu(config, golden, gib), kShape, options);
}

}  // namespace
}  // namespace strata::test
