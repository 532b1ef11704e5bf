// The fast path (activations rounded to 8 bits, KV cache in float16) against the exact runs of tests/golden/models: no
// further from them than one and a half times what an established engine's own fast path is; and its bits depend on
// nothing beside a row.
#include <cmath>
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/golden_check.h"
#include "support/golden.h"

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

struct Divergence {
  double mean = 0;
  double max = 0;
};

// KL(exact || found) of the rows that count, `found` holding them in order.
Divergence divergence(const GoldenSequence& sequence, int64_t n_vocab, const float* found) {
  Divergence result;
  int n = 0;
  for (size_t row = 0; row < sequence.ids.size(); row++) {
    if (!sequence.counts[row]) continue;
    const float* exact = sequence.logprobs.data() + static_cast<int64_t>(row) * n_vocab;
    double kl = 0;
    for (int64_t i = 0; i < n_vocab; i++) kl += std::exp(double{exact[i]}) * (double{exact[i]} - double{found[i]});
    result.mean += kl;
    result.max = std::max(result.max, kl);
    found += n_vocab;
    n++;
  }
  result.mean /= n;
  return result;
}

int64_t rows_that_count(const GoldenSequence& sequence) {
  int64_t n = 0;
  for (const bool counts : sequence.counts) n += counts ? 1 : 0;
  return n;
}

class FastPath : public testing::TestWithParam<const char*> {};

TEST_P(FastPath, StaysAsCloseAsThePeer) {
  const GoldenModel golden = load_model_golden(GetParam());
  std::ifstream in(golden_path("models/refs.json"));
  const nlohmann::json refs = nlohmann::json::parse(in).at("models").at(GetParam());
  for (const char* isa : kIsas) {
    if (!kernels::select_kernels(isa).ok()) continue;
    std::vector<float> bits;
    ASSERT_GE(worst_difference(golden, fast_config(isa), Cut::kWhole, &bits), 0);
    const float* found = bits.data();
    for (size_t s = 0; s < golden.sequences.size(); s++) {
      const nlohmann::json& peer = refs.at(s == 0 ? "peer_vs_exact_A" : "peer_vs_exact_B");
      const Divergence ours = divergence(golden.sequences[s], golden.n_vocab, found);
      found += rows_that_count(golden.sequences[s]) * golden.n_vocab;
      EXPECT_LE(ours.mean, 1.5 * peer.at("kl_mean").get<double>()) << isa << " sequence " << s;
      EXPECT_LE(ours.max, 1.5 * peer.at("kl_max").get<double>()) << isa << " sequence " << s;
      const std::string key = std::string(isa) + (s == 0 ? "_A_" : "_B_");
      RecordProperty(key + "mean", std::to_string(ours.mean));
      RecordProperty(key + "max", std::to_string(ours.max));
    }
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
