// The float path against independent references, however a sequence is cut, batched, replayed and placed.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "engine/golden_check.h"

namespace strata::test {
namespace {

using engine::EngineConfig;

constexpr Cut kCuts[] = {Cut::kWhole,      Cut::kChunksOf1,    Cut::kChunksOf7,
                         Cut::kChunksOf64, Cut::kBatchOfThree, Cut::kCheckpoint};
const char* const kArchs[] = {"qwen3moe", "gpt-oss", "qwen3next"};
const char* const kIsas[] = {"scalar", "avx2", "avx512"};

std::string safe(std::string name) {
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

class ArchGolden : public testing::TestWithParam<std::tuple<const char*, Cut>> {};

TEST_P(ArchGolden, FloatPathAgreesOnEveryIsaWithAndWithoutGraphs) {
  const GoldenModel golden = load_arch_golden(std::get<0>(GetParam()));
  for (const char* isa : kIsas) {
    if (!kernels::select_kernels(isa).ok()) continue;
    for (const bool graphs : {true, false}) {
      EngineConfig config = test_config();
      config.isa = isa;
      config.use_graphs = graphs;
      const double worst = worst_difference(golden, config, std::get<1>(GetParam()));
      EXPECT_GE(worst, 0);
      EXPECT_LE(worst, golden.limit) << isa << (graphs ? ", graphs" : ", no graphs");
      RecordProperty(std::string(isa) + (graphs ? "_graphs" : ""), std::to_string(worst));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ArchGolden, testing::Combine(testing::ValuesIn(kArchs), testing::ValuesIn(kCuts)),
                         [](const auto& row) {
                           return safe(std::get<0>(row.param)) + cut_name(std::get<1>(row.param));
                         });

class QuantGolden : public testing::TestWithParam<const char*> {};

TEST_P(QuantGolden, FloatPathAgreesWithTheExactRun) {
  const GoldenModel golden = load_model_golden(GetParam());
  for (const char* isa : kIsas) {
    if (!kernels::select_kernels(isa).ok()) continue;
    EngineConfig config = test_config();
    config.isa = isa;
    for (const Cut cut : {Cut::kWhole, Cut::kChunksOf64}) {
      const double worst = worst_difference(golden, config, cut);
      EXPECT_GE(worst, 0);
      EXPECT_LE(worst, golden.limit) << isa << " " << cut_name(cut);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantGolden, testing::Values("Q8_0", "Q4_K_M", "IQ4_XS", "IQ3_S"),
                         [](const auto& row) { return std::string(row.param); });

TEST(DemoGolden, FloatPathAgrees) {
  const GoldenModel golden = load_demo_golden();
  for (const Cut cut : {Cut::kWhole, Cut::kChunksOf7}) {
    const double worst = worst_difference(golden, test_config(), cut);
    EXPECT_GE(worst, 0);
    EXPECT_LE(worst, golden.limit) << cut_name(cut);
  }
}

// A 16-bit KV cache moves log-probabilities, but not far: mean KL under 1e-5 in the reference's own words.
TEST(KvType, SixteenBitsStayCloseToFloat) {
  for (const char* arch : kArchs) {
    const GoldenModel golden = load_arch_golden(arch);
    EngineConfig config = test_config();
    config.kv_type = kernels::KvType::kF16;
    std::vector<float> found;
    ASSERT_GE(worst_difference(golden, config, Cut::kChunksOf7, &found), 0);
    double kl = 0;
    int64_t rows = 0;
    size_t at = 0;
    for (const GoldenSequence& s : golden.sequences) {
      for (size_t r = 0; r < s.ids.size(); r++) {
        if (!s.counts[r]) continue;
        rows++;
        for (int64_t i = 0; i < golden.n_vocab; i++, at++) {
          const double p = s.logprobs[r * static_cast<size_t>(golden.n_vocab) + static_cast<size_t>(i)];
          kl += std::exp(p) * (p - found[at]);
        }
      }
    }
    EXPECT_LE(kl / static_cast<double>(rows), 1e-5) << arch;
    EXPECT_GT(kl, 0) << arch;  // it really was another cache type
  }
}

// One set of bits, whatever the threads, the expert source, graphs or the cut; with the delta net this takes the
// deterministic mode, since its chunk form rounds differently.
TEST(Determinism, BitsDoNotDependOnThreadsSourceGraphsOrCut) {
  for (const char* arch : kArchs) {
    const GoldenModel golden = load_arch_golden(arch);
    EngineConfig config = test_config();
    config.deterministic = true;
    config.threads = 1;
    std::vector<float> expected;
    ASSERT_GE(worst_difference(golden, config, Cut::kWhole, &expected), 0);
    const auto same = [&](const EngineConfig& other, Cut cut, const char* what) {
      std::vector<float> found;
      ASSERT_GE(worst_difference(golden, other, cut, &found), 0);
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << arch << ": " << what;
    };
    for (const Cut cut : {Cut::kChunksOf1, Cut::kChunksOf7, Cut::kChunksOf64, Cut::kCheckpoint})
      same(config, cut, cut_name(cut));
    for (const int threads : {2, 3, 5}) {
      EngineConfig other = config;
      other.threads = threads;
      same(other, Cut::kWhole, "threads");
    }
    for (const engine::ExpertPlace place : {engine::ExpertPlace::kArena, engine::ExpertPlace::kMapped}) {
      EngineConfig other = config;
      other.experts = place;
      same(other, Cut::kChunksOf7, "source");
    }
    EngineConfig no_graphs = config;
    no_graphs.use_graphs = false;
    same(no_graphs, Cut::kChunksOf7, "no graphs");
  }
}

}  // namespace
}  // namespace strata::test
