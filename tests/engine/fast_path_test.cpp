// The fast path (activations rounded to 8 bits, KV cache in float16) against the exact runs of tests/golden/models: no
// further from them than one and a half times what an established engine's own fast path is; and its bits depend on
// nothing beside a row.
#include <cstring>

#include <gtest/gtest.h>

#include "engine/fast_path_check.h"

namespace strata::test {
namespace {

using engine::EngineConfig;

const char* const kIsas[] = {"scalar", "avx2", "avx512", "avx512vnni", "amx"};

EngineConfig fast_config(const char* isa) {
  EngineConfig config = test_config();
  config.isa = isa;
  config.kv_type = kernels::KvType::kF16;
  config.round_activations = true;
  return config;
}

class FastPath : public testing::TestWithParam<const char*> {};

TEST_P(FastPath, StaysAsCloseAsThePeer) {
  for (const char* isa : kIsas) {
    if (kernels::select_kernels(isa).ok()) expect_as_close_as_the_peer(GetParam(), fast_config(isa), isa);
  }
}

// It is a path of its own: rounding shows.
TEST_P(FastPath, DiffersFromTheFloatPath) {
  const GoldenModel golden = load_model_golden(GetParam());
  EXPECT_GT(worst_difference(golden, fast_config("auto"), Cut::kWhole), golden.limit);
}

// Tiles of many rows, a few rows, one row; whatever the threads and the source.
TEST_P(FastPath, BitsDependOnNothingBesideARow) {
  const GoldenModel golden = load_model_golden(GetParam());
  for (const char* isa : {"avx2", "auto"}) {
    if (!kernels::select_kernels(isa).ok()) continue;
    std::vector<float> whole;
    ASSERT_GE(worst_difference(golden, fast_config(isa), Cut::kWhole, &whole), 0);
    for (const Cut cut : {Cut::kChunksOf1, Cut::kChunksOf7, Cut::kChunksOf64}) {
      EngineConfig config = fast_config(isa);
      config.threads = cut == Cut::kChunksOf7 ? 3 : 1;
      config.experts = cut == Cut::kChunksOf64 ? engine::ExpertPlace::kMapped : engine::ExpertPlace::kArena;
      std::vector<float> bits;
      ASSERT_GE(worst_difference(golden, config, cut, &bits), 0);
      ASSERT_EQ(bits.size(), whole.size());
      EXPECT_EQ(std::memcmp(bits.data(), whole.data(), whole.size() * sizeof(float)), 0) << isa << " " << cut_name(cut);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FastPath, testing::Values("Q8_0", "Q4_K_M", "IQ4_XS", "IQ3_S"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace strata::test
