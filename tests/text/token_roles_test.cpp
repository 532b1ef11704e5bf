// Which tokens end an answer: by key, by text, and the exceptions.
#include <gtest/gtest.h>

#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using test::TokenizerModel;

TEST(TokenRoles, KeysMarkEnds) {
  for (const char* name : {"eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    TokenizerModel model;
    model.more_keys = [&](gguf::Writer& writer) {
      writer.set_u32("tokenizer.ggml." + std::string(name) + "_token_id", 65);
    };
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    for (int32_t id = 0; id < 256; ++id) EXPECT_EQ(tokenizer->is_end_of_generation(id), id == 65) << name << id;
    // Being an end by key does not make a token a control token.
    EXPECT_EQ(tokenizer->token_type(65), TokenType::kNormal);
  }
}

TEST(TokenRoles, WellKnownTextsEndAnswersAndBecomeControl) {
  for (const char* text : {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|endoftext|>", "<EOT>",
                           "<end_of_turn>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "[e~["}) {
    TokenizerModel model;
    const int32_t end = model.add(text);
    const int32_t other = model.add("<|im_start|>", TokenType::kControl);
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_TRUE(tokenizer->is_end_of_generation(end)) << text;
    EXPECT_EQ(tokenizer->token_type(end), TokenType::kControl) << text;
    EXPECT_FALSE(tokenizer->is_end_of_generation(other));
    EXPECT_EQ(test::encode(*tokenizer, text, true), std::vector<int32_t>{end}) << text;
  }
}

// Vocabularies for code and web pages have </s> as a normal token: it closes struck text there.
TEST(TokenRoles, HtmlIsNoEnd) {
  TokenizerModel model;
  const int32_t html = model.add("</s>");
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_FALSE(tokenizer->is_end_of_generation(html));
  EXPECT_EQ(tokenizer->token_type(html), TokenType::kNormal);
  model.types[static_cast<size_t>(html)] = static_cast<int32_t>(TokenType::kControl);
  const auto sentence_piece = model.must_load();
  ASSERT_NE(sentence_piece, nullptr);
  EXPECT_TRUE(sentence_piece->is_end_of_generation(html));
}

TEST(TokenRoles, FillInTheMiddleTextsEndAnswersWithoutChangingType) {
  for (const char* text : {"<|fim_pad|>", "<|fim_repo|>", "<|repo_name|>", "<|file_sep|>"}) {
    TokenizerModel model;
    const int32_t end = model.add(text, TokenType::kUserDefined);
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_TRUE(tokenizer->is_end_of_generation(end)) << text;
    EXPECT_EQ(tokenizer->token_type(end), TokenType::kUserDefined) << text;
  }
}

TEST(TokenRoles, EndOfTurnIsFoundByTextInOrder) {
  TokenizerModel model;
  model.add("<|endoftext|>", TokenType::kControl);
  const int32_t im_end = model.add("<|im_end|>", TokenType::kControl);
  const auto by_text = model.must_load();
  ASSERT_NE(by_text, nullptr);
  EXPECT_EQ(by_text->eot(), im_end);
  model.more_keys = [](gguf::Writer& writer) { writer.set_u32("tokenizer.ggml.eot_token_id", 7); };
  const auto by_key = model.must_load();
  ASSERT_NE(by_key, nullptr);
  EXPECT_EQ(by_key->eot(), 7);
  EXPECT_TRUE(by_key->is_end_of_generation(im_end));
}

// In the harmony format <|end|> ends a message, not the answer, and the marks of its parts are shown; they stay control
// tokens, so that text of a user can't become one.
TEST(TokenRoles, HarmonyMarksAreShownAndEndIsNoEnd) {
  TokenizerModel model;
  const int32_t end = model.add("<|end|>", TokenType::kControl);
  const int32_t channel = model.add("<|channel|>", TokenType::kControl);
  const auto plain = model.must_load();
  ASSERT_NE(plain, nullptr);
  EXPECT_TRUE(plain->is_end_of_generation(end));
  EXPECT_EQ(plain->piece(channel, false), "");

  for (const auto& [first, second] : {std::pair("<|return|>", "<|call|>"), std::pair("<|calls|>", "<|flush|>")}) {
    TokenizerModel harmony;
    harmony.add("<|end|>", TokenType::kControl);
    harmony.add("<|channel|>", TokenType::kControl);
    const int32_t a = harmony.add(first, TokenType::kControl), b = harmony.add(second, TokenType::kControl);
    const auto tokenizer = harmony.must_load();
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_FALSE(tokenizer->is_end_of_generation(end));
    EXPECT_TRUE(tokenizer->is_end_of_generation(a));
    EXPECT_TRUE(tokenizer->is_end_of_generation(b));
    EXPECT_EQ(tokenizer->piece(channel, false), "<|channel|>");
    EXPECT_EQ(tokenizer->piece(end, false), "<|end|>");
    EXPECT_EQ(tokenizer->piece(a, false), "");
    for (const int32_t id : test::encode(*tokenizer, "<|channel|><|end|>")) EXPECT_LT(id, 256);
  }
}

// Files without keys follow an old vocabulary in which token 11 begins and ends texts; a normal token 11 does not.
TEST(TokenRoles, KeylessFilesUseTokenElevenIfItIsControl) {
  TokenizerModel model;
  const auto normal = model.must_load();
  ASSERT_NE(normal, nullptr);
  EXPECT_EQ(normal->bos(), kNoToken);
  EXPECT_EQ(normal->eos(), kNoToken);
  EXPECT_FALSE(normal->is_end_of_generation(11));
  model.types[11] = static_cast<int32_t>(TokenType::kControl);
  const auto control = model.must_load();
  ASSERT_NE(control, nullptr);
  EXPECT_EQ(control->bos(), 11);
  EXPECT_EQ(control->eos(), 11);
  EXPECT_TRUE(control->is_end_of_generation(11));
}

// Where the file does not say, some pre-tokenizers' models begin texts with bos; the key has the last word.
TEST(TokenRoles, PretokenizersDecideOnBosWithoutKey) {
  const std::pair<const char*, bool> rows[] = {{"llama-bpe", true}, {"llama3", true}, {"tekken", true},
                                               {"qwen2", false},    {"glm4", false},  {"gpt-4o", false}};
  for (const auto& [pre, expected] : rows) {
    TokenizerModel model;
    model.pre = pre;
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->add_bos(), expected) << pre;
    const bool other = !expected;
    model.more_keys = [other](gguf::Writer& writer) { writer.set_bool("tokenizer.ggml.add_bos_token", other); };
    const auto by_key = model.must_load();
    ASSERT_NE(by_key, nullptr);
    EXPECT_EQ(by_key->add_bos(), other) << pre;
  }
}

}  // namespace
}  // namespace strata::text
