// The float path against independent references, however a sequence is cut, batched, replayed and placed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/sim_support.h"

namespace strata::test {
namespace {

using engine::EngineConfig;

constexpr Cut kCuts[] = {Cut::kWhole,      Cut::kChunksOf1,    Cut::kChunksOf7,
                         Cut::kChunksOf64, Cut::kBatchOfThree, Cut::kCheckpoint};
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

INSTANTIATE_TEST_SUITE_P(All, ArchGolden, testing::Combine(testing::ValuesIn(kGoldenArchs), testing::ValuesIn(kCuts)),
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

// The divergence of each row that counts from the reference's.
std::vector<double> divergences(const GoldenModel& golden, const EngineConfig& config) {
  std::vector<float> found;
  if (worst_difference(golden, config, Cut::kChunksOf7, &found) < 0) return {};
  std::vector<double> rows;
  size_t at = 0;
  for (const GoldenSequence& s : golden.sequences) {
    for (size_t r = 0; r < s.ids.size(); r++) {
      if (!s.counts[r]) continue;
      double kl = 0;
      for (int64_t i = 0; i < golden.n_vocab; i++, at++) {
        const double p = s.logprobs[r * static_cast<size_t>(golden.n_vocab) + static_cast<size_t>(i)];
        kl += std::exp(p) * (p - found[at]);
      }
      rows.push_back(kl);
    }
  }
  return rows;
}

// A 16-bit KV cache moves log-probabilities, but not far: mean KL under 1e-5 in the reference's own words.
TEST(KvTypes, SixteenBitsStayCloseToFloat) {
  for (const char* arch : kGoldenArchs) {
    EngineConfig config = test_config();
    config.kv_type = kernels::KvType::kF16;
    const std::vector<double> rows = divergences(load_arch_golden(arch), config);
    ASSERT_FALSE(rows.empty());
    const double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
    EXPECT_LE(sum / static_cast<double>(rows.size()), 1e-5) << arch;
    EXPECT_GT(sum, 0) << arch;  // it really was another cache type
  }
}

// Heads of models whose values do not divide into the blocks of a type are refused, which the tests of sequences check.
bool has_heads_for(const GoldenModel& golden, kernels::KvType type) {
  return model::StateMemory::check_type(hparams_of(golden), type).ok();
}

// The divergence grows with the square of the rounding: 1e-5 for the 2^-11 of f16, so 64 times as much for the 2^-8 of
// bf16, and for q8_0, whose largest of 32 normal values is about 2.2 times what they are in the mean,
// (2.2 / 254)^2 / 2^-22 = 315 times as much. That is so for most rows: where the router's choice is closer than what
// the rounding moves, another expert is taken, and the row is far off. Hence the median.
TEST(KvTypes, NarrowerOnesStayWithinTheirRounding) {
  struct Bound {
    kernels::KvType type;
    double kl;
  };
  int n_checked = 0;
  for (const Bound& bound : {Bound{kernels::KvType::kBf16, 64e-5}, Bound{kernels::KvType::kQ8_0, 315e-5}}) {
    for (const char* arch : kGoldenArchs) {
      const GoldenModel golden = load_arch_golden(arch);
      if (!has_heads_for(golden, bound.type)) continue;
      n_checked++;
      EngineConfig config = test_config();
      config.kv_type = bound.type;
      std::vector<double> rows = divergences(golden, config);
      ASSERT_FALSE(rows.empty());
      const auto median = rows.begin() + static_cast<ptrdiff_t>(rows.size() / 2);
      std::nth_element(rows.begin(), median, rows.end());
      EXPECT_LE(*median, bound.kl) << arch << " " << kernels::kv_type_name(bound.type);
      EXPECT_GT(*median, 0) << arch << " " << kernels::kv_type_name(bound.type);
    }
  }
  EXPECT_GT(n_checked, std::ssize(kGoldenArchs)) << "each with bf16, some with q8_0";
}

// N01: every type keeps logits finite over a context of several spans, recurrent layers or not; and the bits are the
// same however the prompt is cut and however many threads share it.
TEST(KvTypes, LongPromptsAreFiniteAndTheSameForAnyCut) {
  for (const char* arch : kGoldenArchs) {
    GoldenModel model = load_arch_golden(arch);
    GoldenSequence sequence;
    for (int32_t i = 0; i < 600; i++) sequence.ids.push_back((i * 37 + i / 7) % static_cast<int32_t>(model.n_vocab));
    for (size_t i = 0; i < sequence.ids.size(); i++) sequence.counts.push_back(i % 29 == 0 || i > 500);
    sequence.logprobs.resize(sequence.ids.size() * static_cast<size_t>(model.n_vocab));
    model.sequences = {sequence};
    for (const kernels::KvType type : kernels::kKvTypes) {
      if (!has_heads_for(model, type)) continue;
      EngineConfig config = test_config();
      config.deterministic = true;
      config.kv_type = type;
      config.threads = 1;
      std::vector<float> whole, cut;
      worst_difference(model, config, Cut::kWhole, &whole);
      ASSERT_FALSE(whole.empty());
      EXPECT_TRUE(std::all_of(whole.begin(), whole.end(), [](float x) { return std::isfinite(x); }))
          << arch << " " << kernels::kv_type_name(type);
      config.threads = 3;
      worst_difference(model, config, Cut::kChunksOf64, &cut);
      ASSERT_EQ(cut.size(), whole.size());
      EXPECT_EQ(std::memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)), 0)
          << arch << " " << kernels::kv_type_name(type);
    }
  }
}

// One set of bits, whatever the threads, the expert source, graphs or the cut; with the delta net this takes the
// deterministic mode, since its chunk form rounds differently.
TEST(Determinism, BitsDoNotDependOnThreadsSourceGraphsOrCut) {
  for (const char* arch : kGoldenArchs) {
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
