// What a model file says about sampling, read from files that say it well and badly.
#include "text/sampling/model_defaults.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using Keys = std::function<void(gguf::Writer&)>;

Result<SamplerParams> read(Keys keys) {
  test::TokenizerModel model;
  model.more_keys = std::move(keys);
  const auto opened = model.open();
  if (opened == nullptr) return Error{ErrorCode::kInternal, "the container was refused"};
  return model_sampler_params(*opened);
}

std::string refused(Keys keys) {
  const auto params = read(std::move(keys));
  if (params.ok()) return "accepted";
  EXPECT_EQ(params.error().code, ErrorCode::kBadInput);
  return params.error().message;
}

TEST(ModelDefaults, SilentModelsHaveTheUsualOnes) {
  const auto params = read([](gguf::Writer&) {});
  ASSERT_TRUE(params.ok());
  EXPECT_EQ(std::tuple(params->temp, params->top_k, params->top_p, params->min_p), std::tuple(0.8f, 40, 0.95f, 0.05f));
  EXPECT_EQ(params->order, SamplerParams().order);
  EXPECT_TRUE(params->suppress.empty());
}

TEST(ModelDefaults, AllKeys) {
  const auto params = read([](gguf::Writer& writer) {
    writer.set_string("general.sampling.sequence", "top_k;temperature");
    writer.set_i32("general.sampling.top_k", 20);
    writer.set_f32("general.sampling.top_p", 0.5f);
    writer.set_f32("general.sampling.min_p", 0.25f);
    writer.set_f32("general.sampling.xtc_probability", 0.125f);
    writer.set_f32("general.sampling.xtc_threshold", 0.375f);
    writer.set_f32("general.sampling.temp", 0.625f);
    writer.set_i32("general.sampling.penalty_last_n", 32);
    writer.set_f32("general.sampling.penalty_repeat", 1.5f);
    writer.set_i32("general.sampling.mirostat", 2);
    writer.set_f32("general.sampling.mirostat_tau", 4);
    writer.set_f32("general.sampling.mirostat_eta", 0.75f);
    writer.set_i32s("tokenizer.ggml.suppress_tokens", std::vector<int32_t>{3, 5});
  });
  ASSERT_TRUE(params.ok()) << params.error().message;
  EXPECT_EQ(params->order, (std::vector{StageKind::kTopK, StageKind::kTemperature}));
  EXPECT_EQ(std::tuple(params->top_k, params->top_p, params->min_p), std::tuple(20, 0.5f, 0.25f));
  EXPECT_EQ(std::tuple(params->xtc_probability, params->xtc_threshold, params->temp),
            std::tuple(0.125f, 0.375f, 0.625f));
  EXPECT_EQ(std::tuple(params->repeat_last_n, params->repeat_penalty), std::tuple(32, 1.5f));
  EXPECT_EQ(std::tuple(params->mirostat, params->mirostat_tau, params->mirostat_eta), std::tuple(2, 4.0f, 0.75f));
  EXPECT_EQ(params->suppress, (std::vector<int32_t>{3, 5}));
}

TEST(ModelDefaults, BadValuesNameFileAndKey) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  const auto names = [](const char* key) { return AllOf(HasSubstr(".gguf"), HasSubstr(key)); };
  EXPECT_THAT(refused([](auto& w) { w.set_string("general.sampling.temp", "hot"); }), names("general.sampling.temp"));
  EXPECT_THAT(refused([](auto& w) { w.set_f32("general.sampling.temp", std::numeric_limits<float>::quiet_NaN()); }),
              names("general.sampling.temp"));
  EXPECT_THAT(refused([](auto& w) { w.set_f32("general.sampling.top_k", 2.5f); }), names("general.sampling.top_k"));
  EXPECT_THAT(refused([](auto& w) { w.set_i32("general.sampling.penalty_last_n", -2); }), names("penalty_last_n"));
  EXPECT_THAT(refused([](auto& w) { w.set_i32("general.sampling.mirostat", 3); }), names("mirostat is 3"));
  EXPECT_THAT(refused([](auto& w) { w.set_f32("general.sampling.penalty_repeat", -1); }), names("repeat_penalty"));
  EXPECT_THAT(refused([](auto& w) { w.set_string("general.sampling.sequence", "top_k;top_q"); }), names("top_q"));
  EXPECT_THAT(refused([](auto& w) { w.set_i32s("tokenizer.ggml.suppress_tokens", std::vector<int32_t>{-1}); }),
              names("suppress_tokens"));
  EXPECT_THAT(refused([](auto& w) { w.set_string("tokenizer.ggml.suppress_tokens", "1"); }), names("suppress_tokens"));
}

TEST(EndOfGenerationIds, AreThoseOfTheTokenizer) {
  test::TokenizerModel model;
  const int32_t end = model.add("<|im_end|>", TokenType::kControl);
  const int32_t other_end = model.add("<|endoftext|>", TokenType::kControl);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(end_of_generation_ids(*tokenizer), (std::vector<int32_t>{end, other_end}));
}

}  // namespace
}  // namespace strata::text
