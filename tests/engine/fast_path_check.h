// How far the fast path may be from the exact runs of tests/golden/models: one and a half times what an established
// engine's own fast path is.
#pragma once

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/golden_check.h"
#include "support/golden.h"

namespace strata::test {

struct Divergence {
  double mean = 0;
  double max = 0;
};

// KL(exact || found) of the rows that count, `found` holding them in order.
inline Divergence divergence(const GoldenSequence& sequence, int64_t n_vocab, const float* found) {
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

inline int64_t rows_that_count(const GoldenSequence& sequence) {
  int64_t n = 0;
  for (const bool counts : sequence.counts) n += counts ? 1 : 0;
  return n;
}

// Of the model `key` of tests/golden/models, as `config` computes it.
inline void expect_as_close_as_the_peer(const char* key, const engine::EngineConfig& config, const std::string& label) {
  const GoldenModel golden = load_model_golden(key);
  std::ifstream in(golden_path("models/refs.json"));
  const nlohmann::json refs = nlohmann::json::parse(in).at("models").at(key);
  std::vector<float> bits;
  ASSERT_GE(worst_difference(golden, config, Cut::kWhole, &bits), 0);
  const float* found = bits.data();
  for (size_t s = 0; s < golden.sequences.size(); s++) {
    const nlohmann::json& peer = refs.at(s == 0 ? "peer_vs_exact_A" : "peer_vs_exact_B");
    const Divergence ours = divergence(golden.sequences[s], golden.n_vocab, found);
    found += rows_that_count(golden.sequences[s]) * golden.n_vocab;
    EXPECT_LE(ours.mean, 1.5 * peer.at("kl_mean").get<double>()) << label << " sequence " << s;
    EXPECT_LE(ours.max, 1.5 * peer.at("kl_max").get<double>()) << label << " sequence " << s;
    const std::string name = label + (s == 0 ? "_A_" : "_B_");
    testing::Test::RecordProperty(name + "mean", std::to_string(ours.mean));
    testing::Test::RecordProperty(name + "max", std::to_string(ours.max));
  }
}

}  // namespace strata::test
