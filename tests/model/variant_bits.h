// What a changed copy of a golden model computes, and the pieces that such copies are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/golden_check.h"
#include "model/model_copy.h"
#include "support/golden.h"

namespace strata::test {

inline constexpr uint32_t kF32 = static_cast<uint32_t>(quant::Type::F32);

// All log-probabilities of the golden sequences with the model in `path`.
inline std::vector<float> bits_of(const std::string& arch, const std::string& path) {
  GoldenModel golden = load_arch_golden(arch);
  golden.path = path;
  engine::EngineConfig config = test_config();
  config.context = 128;
  config.chunk = 64;
  std::vector<float> bits;
  EXPECT_GE(worst_difference(golden, config, Cut::kChunksOf7, &bits), 0);
  return bits;
}
inline std::vector<float> bits_of(const ModelCopy& copy) {
  const TempDir dir;
  copy.write(dir.file("m.gguf"));
  return bits_of(copy.arch(), dir.file("m.gguf"));
}
inline const std::vector<float>& golden_bits(const std::string& arch) {
  static std::map<std::string, std::vector<float>> known;
  auto at = known.find(arch);
  if (at == known.end()) at = known.emplace(arch, bits_of(ModelCopy(arch))).first;
  return at->second;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.empty() || a.size() != b.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

inline std::string layer_prefix(uint32_t layer) { return "blk." + std::to_string(layer) + "."; }

inline void append(std::vector<std::byte>& to, const std::vector<std::byte>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

inline std::vector<float> floats_of(const ModelCopy::Tensor& t) {
  EXPECT_EQ(t.type, kF32) << t.name;
  std::vector<float> values(t.data.size() / sizeof(float));
  std::memcpy(values.data(), t.data.data(), t.data.size());
  return values;
}
inline void set_floats(ModelCopy::Tensor& t, const std::vector<float>& values) {
  ASSERT_EQ(t.type, kF32) << t.name;
  ASSERT_EQ(t.data.size(), values.size() * sizeof(float));
  std::memcpy(t.data.data(), values.data(), t.data.size());
}
inline void zero(ModelCopy::Tensor& t) { std::fill(t.data.begin(), t.data.end(), std::byte{0}); }

}  // namespace strata::test
