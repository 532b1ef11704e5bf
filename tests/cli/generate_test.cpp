// Goal: the token loop stops where it should and publishes what it sampled, once, in order.
#include "engine/generate.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/models.h"

namespace strata::engine {
namespace {

const std::vector<int32_t> kPrompt = {17, 401, 33, 250, 96, 5, 77, 300};

// An engine on the tiny model with what a loop needs besides.
class Generator {
 public:
  explicit Generator(EngineConfig config, text::SamplerParams params = {.temp = 0}) {
    config.threads = 1;
    config.ram_bytes = uint64_t{1} << 30;
    model_ = gguf::Model::open(test::tiny_model(), real_file_system()).value();
    tokenizer_ = text::Tokenizer::load(*model_).value();
    engine_ = Engine::open(*model_, config, stats_).value();
    sampler_.emplace(text::Sampler::create(params, static_cast<int32_t>(engine_->n_vocab())).value());
    sequence_.emplace(engine_->make_sequence().value());
  }
  ~Generator() { sequence_.reset(); }

  Result<GenerateResult> run(std::span<const int32_t> prompt, const GenerateOptions& options) {
    return generate(*engine_, *sequence_, *tokenizer_, *sampler_, prompt, options, [&](int32_t id) -> Status {
      published.push_back(id);
      return on_token ? on_token() : Status();
    });
  }
  int64_t n_tokens() const { return sequence_->n_tokens(); }

  std::vector<int32_t> published;
  std::function<Status()> on_token;

 private:
  Stats stats_;
  std::unique_ptr<gguf::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  std::optional<text::Sampler> sampler_;
  std::optional<model::SequenceState> sequence_;
};

EngineConfig config_of(int64_t context, int chunk = 512) {
  EngineConfig config;
  config.context = context;
  config.chunk = chunk;
  return config;
}

std::vector<int32_t> continuation(int64_t n) {
  Generator generator(config_of(64));
  const auto result = generator.run(kPrompt, {.max_tokens = n});
  EXPECT_TRUE(result.ok());
  return generator.published;
}

TEST(Generate, StopsAtTheLimit) {
  Generator generator(config_of(64));
  const auto result = generator.run(kPrompt, {.max_tokens = 6});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->stop, StopReason::kLimit);
  EXPECT_EQ(result->n_tokens, 6);
  EXPECT_EQ(generator.published.size(), 6u);
  EXPECT_GT(result->prefill_ns, 0);
  EXPECT_GT(result->generate_ns, 0);
  EXPECT_EQ(generator.n_tokens(), static_cast<int64_t>(kPrompt.size()) + 5) << "all but the last token were computed";
}

TEST(Generate, WithoutTokensComputesThePrompt) {
  Generator generator(config_of(64));
  const auto result = generator.run(kPrompt, {.max_tokens = 0});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->stop, StopReason::kLimit);
  EXPECT_EQ(result->n_tokens, 0);
  EXPECT_TRUE(generator.published.empty());
  EXPECT_EQ(generator.n_tokens(), static_cast<int64_t>(kPrompt.size()));
}

TEST(Generate, ContinuesAfterThePromptHoweverItIsCut) {
  const std::vector<int32_t> expected = continuation(5);
  for (const int chunk : {1, 3, 4, 7, 8, 9}) {
    Generator generator(config_of(64, chunk));
    ASSERT_TRUE(generator.run(kPrompt, {.max_tokens = 5}).ok());
    EXPECT_EQ(generator.published, expected) << chunk;
  }
}

TEST(Generate, ItsTokensAreThoseOfALongerPrompt) {
  const std::vector<int32_t> tokens = continuation(4);
  for (size_t n = 0; n < 4; n++) {
    std::vector<int32_t> prompt = kPrompt;
    prompt.insert(prompt.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    Generator generator(config_of(64));
    ASSERT_TRUE(generator.run(prompt, {.max_tokens = 1}).ok());
    EXPECT_EQ(generator.published, std::vector<int32_t>{tokens[n]});
  }
}

TEST(Generate, StopsWhenTheContextIsFull) {
  for (const int64_t room : {0, 1, 5}) {
    Generator generator(config_of(static_cast<int64_t>(kPrompt.size()) + room));
    const auto result = generator.run(kPrompt, {.max_tokens = 100});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->stop, StopReason::kContextFull);
    EXPECT_EQ(result->n_tokens, room + 1) << "the last token needs no room";
    EXPECT_EQ(generator.published, continuation(room + 1));
  }
}

TEST(Generate, RefusesPromptsThatCannotBe) {
  Generator generator(config_of(8));
  EXPECT_EQ(generator.run({}, {.max_tokens = 1}).error().code, ErrorCode::kBadInput);
  const std::vector<int32_t> nine(9, 1);
  const auto longer = generator.run(nine, {.max_tokens = 1});
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(longer.error().message.find("the prompt has 9 tokens, but the context has room for 8"), 0u);
  EXPECT_EQ(generator.n_tokens(), 0) << "nothing was computed";
  const std::vector<int32_t> foreign = {512};
  EXPECT_EQ(generator.run(foreign, {.max_tokens = 1}).error().code, ErrorCode::kBadInput);
  EXPECT_TRUE(generator.published.empty());
}

TEST(Generate, ContinuesASequenceThatHasTokens) {
  Generator generator(config_of(64));
  const std::span<const int32_t> prompt(kPrompt);
  ASSERT_TRUE(generator.run(prompt.first(3), {.max_tokens = 0}).ok());
  ASSERT_TRUE(generator.run(prompt.subspan(3), {.max_tokens = 5}).ok());
  EXPECT_EQ(generator.published, continuation(5));
}

TEST(Generate, CancelledBeforeItBeginsComputesNothing) {
  const std::atomic<bool> cancel{true};
  Generator generator(config_of(64));
  const auto result = generator.run(kPrompt, {.max_tokens = 5, .cancel = &cancel});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->stop, StopReason::kCancelled);
  EXPECT_EQ(generator.n_tokens(), 0);
  EXPECT_TRUE(generator.published.empty());
}

TEST(Generate, CancelStopsBeforeTheNextStep) {
  std::atomic<bool> cancel{false};
  Generator generator(config_of(64));
  generator.on_token = [&]() -> Status {
    cancel = generator.published.size() == 3;
    return {};
  };
  const auto result = generator.run(kPrompt, {.max_tokens = 100, .cancel = &cancel});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->stop, StopReason::kCancelled);
  EXPECT_EQ(result->n_tokens, 3);
  EXPECT_EQ(generator.published, continuation(3));
  EXPECT_EQ(generator.n_tokens(), static_cast<int64_t>(kPrompt.size()) + 2);
}

TEST(Generate, AFailingSinkEndsIt) {
  Generator generator(config_of(64));
  generator.on_token = [&]() -> Status {
    if (generator.published.size() == 2) return Error{ErrorCode::kIo, "the disk is full"};
    return {};
  };
  const auto result = generator.run(kPrompt, {.max_tokens = 100});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_EQ(result.error().message, "the disk is full");
  EXPECT_EQ(generator.published.size(), 2u);
}

}  // namespace
}  // namespace strata::engine
