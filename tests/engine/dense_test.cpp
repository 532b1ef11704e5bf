// Models without experts: the log-probabilities of an equal model whose layers have one expert each, which takes the
// other way through the engine; on every device and with every option for experts, which change nothing.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sim_support.h"
#include "model/dense_copy.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using engine::ExpertPlace;
using testing::HasSubstr;

struct Row {
  const char* golden;  // what the twins are made from
  const char* arch;
};
constexpr Row kRows[] = {{"llama", "llama"}, {"qwen3moe", "qwen3"}};

class Dense : public testing::TestWithParam<Row> {
 protected:
  std::vector<float> bits_of(const ModelCopy& copy, const EngineConfig& config, Cut cut) {
    copy.write(dir_.file("m.gguf"));
    GoldenModel golden = load_arch_golden(GetParam().golden);
    golden.path = dir_.file("m.gguf");
    for (GoldenSequence& s : golden.sequences) s.counts.assign(s.ids.size(), true);
    std::vector<float> bits;
    stats_.reset();
    EXPECT_GE(worst_difference(golden, config, cut, &bits, &stats_), 0);
    return bits;
  }
  ModelCopy twin() const { return dense_twin(GetParam().golden, 0, GetParam().arch); }
  std::string refusal(const ModelCopy& copy, const EngineConfig& config) {
    copy.write(dir_.file("r.gguf"));
    const auto model = gguf::Model::open(dir_.file("r.gguf"), real_file_system()).value();
    const auto engine = engine::Engine::open(*model, config, stats_);
    return engine.ok() ? "" : engine.error().message;
  }

  const TempDir dir_;
  Stats stats_;
};
INSTANTIATE_TEST_SUITE_P(All, Dense, testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.arch); });

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.empty() || a.size() != b.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The form with experts is what the golden files check. Sums are formed in other orders, hence no equal bits.
TEST_P(Dense, GivesTheLogprobsOfOneExpertPerLayer) {
  const ModelCopy one = with_one_expert(GetParam().golden, 0);
  for (const Cut cut : {Cut::kWhole, Cut::kChunksOf1, Cut::kChunksOf7, Cut::kBatchOfThree, Cut::kCheckpoint}) {
    const std::vector<float> expected = bits_of(one, test_config(), cut);
    EXPECT_LE(largest_difference(bits_of(twin(), test_config(), cut), expected), 2e-5) << cut_name(cut);
    // It can fail: another expert is another model.
    const ModelCopy other = dense_twin(GetParam().golden, 1, GetParam().arch);
    EXPECT_GT(largest_difference(bits_of(other, test_config(), cut), expected), 1e-2) << cut_name(cut);
  }
}

TEST_P(Dense, OptionsForExpertsChangeNothing) {
  const std::vector<float> expected = bits_of(twin(), test_config(), Cut::kChunksOf7);
  for (const ExpertPlace place : {ExpertPlace::kAuto, ExpertPlace::kArena, ExpertPlace::kResident, ExpertPlace::kMapped,
                                  ExpertPlace::kDirect}) {
    EngineConfig config = test_config();
    config.experts = place;
    config.adapt_every = 1;
    config.verify_arena = true;
    config.expert_cache = 5;
    config.resident_budget_bytes = kMiB;
    EXPECT_TRUE(same_bits(bits_of(twin(), config, Cut::kChunksOf7), expected)) << static_cast<int>(place);
  }
  EngineConfig shared = test_config();
  shared.experts = ExpertPlace::kArena;
  shared.shared_arena = dir_.file("arena");
  EXPECT_TRUE(same_bits(bits_of(twin(), shared, Cut::kChunksOf7), expected));
  EXPECT_FALSE(real_file_system().exists(dir_.file("arena"))) << "there is nothing to share";
  EngineConfig deterministic = test_config();
  deterministic.deterministic = true;
  for (const Cut cut : {Cut::kWhole, Cut::kChunksOf64}) {
    EXPECT_TRUE(same_bits(bits_of(twin(), deterministic, cut), bits_of(twin(), test_config(), cut))) << cut_name(cut);
  }
}

TEST_P(Dense, GivesTheBitsOfCpuOnSimulatedDevices) {
  int seed = 1;
  for (const Cut cut : {Cut::kWhole, Cut::kChunksOf1, Cut::kChunksOf7, Cut::kBatchOfThree, Cut::kCheckpoint}) {
    const std::vector<float> expected = bits_of(twin(), test_config(), cut);
    for (const bool split : {false, true}) {
      EngineConfig config = sim_config(4, seed);
      if (split) {
        config.device = format("sim:64MiB,96MiB/peer={}/seed={}", seed % 2 == 0 ? "off" : "1GiBps", seed);
        config.layer_split = {1, 2};
      }
      config.use_graphs = seed++ % 3 != 0;
      config.adapt_every = 1;
      config.stream_rows = 5;
      EXPECT_TRUE(same_bits(bits_of(twin(), config, cut), expected)) << cut_name(cut) << (split ? ", split" : "");
      EXPECT_EQ(stats_.get(Counter::kCacheHits) + stats_.get(Counter::kCacheMisses), 0);
    }
  }
}

TEST_P(Dense, IsSaidToHaveNoExperts) {
  twin().write(dir_.file("m.gguf"));
  const auto model = gguf::Model::open(dir_.file("m.gguf"), real_file_system()).value();
  const auto engine = open_engine(*model, test_config(), stats_);
  EXPECT_THAT(engine->describe(), HasSubstr(format("{}: 3 layers, no experts; on cpu", GetParam().arch)));
  EngineConfig saving = test_config();
  saving.expert_profile_save = dir_.file("profile");
  EXPECT_THAT(refusal(twin(), saving), testing::AllOf(HasSubstr("--expert-profile-save"), HasSubstr("no experts")));
}

// gguf 29: what the keys and the tensors say about experts has to agree.
TEST_P(Dense, Gguf29ContradictionsAboutExpertsAreRefused) {
  ModelCopy with_experts = with_one_expert(GetParam().golden, 0);
  with_experts.remove("expert_count");
  with_experts.set_u32("feed_forward_length", 64);
  with_experts.rename_arch(GetParam().arch);
  EXPECT_THAT(refusal(with_experts, test_config()),
              testing::AllOf(HasSubstr("blk.0.ffn_gate_exps.weight"), HasSubstr("expert_count")));
  ModelCopy without = twin();
  without.set_u32("expert_count", 1);
  without.set_u32("expert_used_count", 1);
  EXPECT_THAT(refusal(without, test_config()),
              GetParam().arch == std::string("qwen3") ? HasSubstr("'qwen3.expert_count' is 1")
                                                      : HasSubstr("blk.0.ffn_gate_exps.weight is missing"));
  ModelCopy no_width = twin();
  no_width.remove("feed_forward_length");
  EXPECT_THAT(refusal(no_width, test_config()), HasSubstr(format("{}.feed_forward_length", GetParam().arch)));
  for (const char* tensor : {"blk.1.ffn_gate.weight", "blk.2.ffn_up.weight", "blk.0.ffn_down.weight",
                             "blk.1.ffn_norm.weight"}) {
    ModelCopy missing = twin();
    missing.remove_tensor(tensor);
    EXPECT_THAT(refusal(missing, test_config()), testing::AllOf(HasSubstr(tensor), HasSubstr("missing")));
  }
}

}  // namespace
}  // namespace strata::test
