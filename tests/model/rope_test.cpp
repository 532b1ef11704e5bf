// Rope scaling from keys, tables and flags: forms that say the same give the same bits, and what contradicts itself is
// refused. The frequencies themselves are checked in tests/kernels/rope_test.cpp.
#include <cmath>
#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/golden_check.h"
#include "model/model_copy.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using engine::NumericPath;
using testing::AllOf;
using testing::HasSubstr;

Settings flags(const std::vector<std::pair<Key, std::string>>& values) {
  Settings settings;
  for (const auto& [key, value] : values) EXPECT_TRUE(settings.set(key, value, "test").ok()) << value;
  return settings;
}
using Flags = std::vector<std::pair<Key, std::string>>;

std::string refusal_of(const Flags& values) {
  const auto config = engine::config_from(flags(values), NumericPath::kFloat);
  return config.ok() ? "" : config.error().message;
}

class Rope : public testing::Test {
 protected:
  EngineConfig config(const Flags& values) const {
    EngineConfig config = test_config();
    config.context = 128;
    config.rope = engine::config_from(flags(values), NumericPath::kFloat).value().rope;
    return config;
  }
  std::vector<float> bits_of(const ModelCopy& copy, const EngineConfig& config) const {
    copy.write(dir_.file("m.gguf"));
    GoldenModel golden = load_arch_golden("llama");
    golden.path = dir_.file("m.gguf");
    golden.sequences.resize(1);
    std::vector<float> bits;
    EXPECT_GE(worst_difference(golden, config, Cut::kWhole, &bits), 0);
    return bits;
  }
  std::string refusal(const ModelCopy& copy, const EngineConfig& config) const {
    copy.write(dir_.file("r.gguf"));
    Stats stats;
    const auto model = gguf::Model::open(dir_.file("r.gguf"), real_file_system()).value();
    const auto engine = engine::Engine::open(*model, config, stats);
    return engine.ok() ? "" : engine.error().message;
  }
  // Equal where both say the same, and other than without scaling.
  void expect_same(const ModelCopy& file, const Flags& values) const {
    const std::vector<float> from_file = bits_of(file, config({}));
    const std::vector<float> from_flags = bits_of(ModelCopy("llama"), config(values));
    EXPECT_TRUE(same(from_file, from_flags));
    EXPECT_FALSE(same(from_file, bits_of(ModelCopy("llama"), config({}))));
  }
  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  // n_rot of the golden model is 16.
  static ModelCopy::Tensor table(const std::string& name, const std::vector<float>& values) {
    ModelCopy::Tensor t{.name = name, .type = 0, .ne = {values.size()}, .data = {}};
    t.data.resize(values.size() * sizeof(float));
    std::memcpy(t.data.data(), values.data(), t.data.size());
    return t;
  }

  const TempDir dir_;
};

TEST_F(Rope, FlagsSayWhatKeysSay) {
  ModelCopy linear("llama");
  linear.set_string("rope.scaling.type", "linear");
  linear.set_f32("rope.scaling.factor", 4);
  expect_same(linear, {{Key::kRopeScaling, "linear"}, {Key::kRopeScale, "4"}});
  expect_same(linear, {{Key::kRopeScale, "4"}});
  expect_same(linear, {{Key::kRopeFreqScale, "0.25"}});

  ModelCopy base("llama");
  base.set_f32("rope.freq_base", 500000);
  expect_same(base, {{Key::kRopeFreqBase, "500000"}});

  ModelCopy yarn("llama");
  yarn.set_string("rope.scaling.type", "yarn");
  yarn.set_f32("rope.scaling.factor", 4);
  yarn.set_u32("rope.scaling.original_context_length", 64);
  yarn.set_f32("rope.scaling.attn_factor", 1.25);
  const Flags all = {{Key::kRopeScaling, "yarn"}, {Key::kRopeScale, "4"}, {Key::kYarnOrigCtx, "64"},
                     {Key::kYarnAttnFactor, "1.25"}};
  expect_same(yarn, all);
  // The other numbers of YaRN count too.
  for (const auto& [key, value] : Flags{{Key::kYarnExtFactor, "0.5"}, {Key::kYarnBetaFast, "1.5"},
                                        {Key::kYarnBetaSlow, "2"}}) {
    Flags more = all;
    more.push_back({key, value});
    EXPECT_FALSE(same(bits_of(ModelCopy("llama"), config(more)), bits_of(yarn, config({})))) << value;
  }
}

TEST_F(Rope, FlagsOverruleKeys) {
  ModelCopy yarn("llama");
  yarn.set_string("rope.scaling.type", "yarn");
  yarn.set_f32("rope.scaling.factor", 4);
  const std::vector<float> plain = bits_of(ModelCopy("llama"), config({}));
  EXPECT_TRUE(same(bits_of(yarn, config({{Key::kRopeScaling, "none"}})), plain));
  EXPECT_FALSE(same(bits_of(yarn, config({})), plain));
  ModelCopy eight("llama");
  eight.set_string("rope.scaling.type", "yarn");
  eight.set_f32("rope.scaling.factor", 8);
  EXPECT_TRUE(same(bits_of(yarn, config({{Key::kRopeScale, "8"}})), bits_of(eight, config({}))));
}

// Llama 3: one divisor for each pair. Four for all is linear scaling.
TEST_F(Rope, TheTableOfLlama3DividesFrequencies) {
  ModelCopy fours("llama"), ones("llama"), some("llama");
  fours.add_tensor(table("rope_freqs.weight", std::vector<float>(8, 4.0f)));
  ones.add_tensor(table("rope_freqs.weight", std::vector<float>(8, 1.0f)));
  some.add_tensor(table("rope_freqs.weight", {1, 1, 1, 1, 1, 1, 2.5f, 8}));
  expect_same(fours, {{Key::kRopeScaling, "linear"}, {Key::kRopeScale, "4"}});
  EXPECT_TRUE(same(bits_of(ones, config({})), bits_of(ModelCopy("llama"), config({}))));
  EXPECT_FALSE(same(bits_of(some, config({})), bits_of(ones, config({}))));
}

// The long table from the context on that is longer than the original one.
TEST_F(Rope, LongropeTakesTheTableOfTheContext) {
  ModelCopy m("llama");
  m.set_string("rope.scaling.type", "longrope");
  m.set_u32("rope.scaling.original_context_length", 128);
  m.add_tensor(table("rope_factors_long.weight", std::vector<float>(8, 4.0f)));
  m.add_tensor(table("rope_factors_short.weight", std::vector<float>(8, 2.0f)));
  for (const auto& [context, scale] : {std::pair{128, "2"}, {129, "4"}}) {
    EngineConfig asked = config({}), linear = config({{Key::kRopeScale, scale}});
    asked.context = linear.context = context;
    EXPECT_TRUE(same(bits_of(m, asked), bits_of(ModelCopy("llama"), linear))) << context;
  }
  // Its factor on cos and sin is a key.
  ModelCopy larger = m;
  larger.set_f32("rope.scaling.attn_factor", 1.5);
  EXPECT_FALSE(same(bits_of(larger, config({})), bits_of(m, config({}))));
  EXPECT_THAT(refusal(m, config({{Key::kRopeScale, "2"}})), AllOf(HasSubstr("longrope"), HasSubstr("--rope-scale")));
  EXPECT_THAT(refusal(m, config({{Key::kRopeScaling, "yarn"}})), HasSubstr("longrope"));
  m.remove_tensor("rope_factors_short.weight");
  EXPECT_THAT(refusal(m, config({})), AllOf(HasSubstr("rope_factors_short.weight"), HasSubstr("missing")));
}

TEST_F(Rope, Gguf29TablesThatLieAreRefused) {
  const auto with = [&](const std::vector<float>& values) {
    ModelCopy m("llama");
    m.add_tensor(table("rope_freqs.weight", values));
    return refusal(m, config({}));
  };
  EXPECT_EQ(with(std::vector<float>(8, 2.0f)), "");
  EXPECT_THAT(with(std::vector<float>(4, 2.0f)), HasSubstr("rope_freqs.weight has shape"));
  for (const float bad : {0.0f, -1.0f, INFINITY, std::nanf("")}) {
    std::vector<float> values(8, 1.0f);
    values[5] = bad;
    EXPECT_THAT(with(values), HasSubstr("tensor rope_freqs.weight has the value")) << bad;
  }
}

TEST_F(Rope, FlagsThatContradictEachOtherAreRefused) {
  EXPECT_EQ(refusal_of({{Key::kRopeScaling, "yarn"}, {Key::kRopeScale, "4"}, {Key::kYarnOrigCtx, "32768"}}), "");
  EXPECT_THAT(refusal_of({{Key::kRopeScale, "4"}, {Key::kRopeFreqScale, "0.25"}}),
              AllOf(HasSubstr("--rope-scale 4"), HasSubstr("--rope-freq-scale 0.25")));
  EXPECT_THAT(refusal_of({{Key::kRopeScaling, "none"}, {Key::kRopeScale, "4"}}), HasSubstr("--rope-scaling none"));
  EXPECT_THAT(refusal_of({{Key::kRopeScaling, "linear"}, {Key::kYarnBetaFast, "16"}}),
              AllOf(HasSubstr("--rope-scaling linear"), HasSubstr("--yarn-beta-fast")));
  EXPECT_FALSE(Settings().set(Key::kRopeFreqBase, "1", "test").ok());  // every angle would be the same
  // Only the model says that these mean nothing.
  for (const Key key : {Key::kYarnOrigCtx, Key::kYarnExtFactor, Key::kYarnAttnFactor, Key::kYarnBetaFast,
                        Key::kYarnBetaSlow}) {
    const std::string name = std::string("--") + setting(key).name;
    EXPECT_THAT(refusal(ModelCopy("llama"), config({{key, "1"}})),
                AllOf(HasSubstr(name), HasSubstr("--rope-scaling yarn")));
  }
  EXPECT_THAT(refusal(ModelCopy("llama"), config({{Key::kRopeScaling, "yarn"}, {Key::kYarnBetaFast, "1"}})),
              HasSubstr("--yarn-beta-slow"));
}

}  // namespace
}  // namespace strata::test
