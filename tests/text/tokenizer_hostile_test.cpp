// Vocabularies that can't be right are refused with one line that names file, key and index.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using test::TokenizerModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Everything a message of a refused file has to have, and that it is one line.
void expect_refused(const TokenizerModel& model, ErrorCode code, const std::string& key, const std::string& detail) {
  const auto tokenizer = model.load();
  ASSERT_FALSE(tokenizer.ok()) << "accepted; expected a complaint about " << key << ": " << detail;
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().message;
  EXPECT_THAT(tokenizer.error().message,
              AllOf(HasSubstr("model.gguf"), HasSubstr(key), HasSubstr(detail), Not(HasSubstr("\n"))));
}

TEST(TokenizerHostile, OtherKindsAreNamed) {
  for (const char* kind : {"t5", "bert", "no_vocab", ""}) {
    TokenizerModel model;
    model.model = kind;
    expect_refused(model, ErrorCode::kUnsupported, "tokenizer.ggml.model", "\"" + std::string(kind) + "\"");
  }
}

TEST(TokenizerHostile, TokensMissingEmptyOrOfAnotherType) {
  TokenizerModel missing;
  missing.with_tokens = false;
  expect_refused(missing, ErrorCode::kBadInput, "tokenizer.ggml.tokens", "missing");

  TokenizerModel numbers;
  numbers.with_tokens = false;
  numbers.more_keys = [](gguf::Writer& writer) {
    writer.set_i32s("tokenizer.ggml.tokens", std::vector<int32_t>{1, 2});
  };
  expect_refused(numbers, ErrorCode::kBadInput, "tokenizer.ggml.tokens", "not an array of strings");

  TokenizerModel scalar;
  scalar.with_tokens = false;
  scalar.more_keys = [](gguf::Writer& writer) { writer.set_string("tokenizer.ggml.tokens", "a"); };
  expect_refused(scalar, ErrorCode::kBadInput, "tokenizer.ggml.tokens", "not an array of strings");

  TokenizerModel empty;
  empty.tokens.clear();
  empty.types.clear();
  expect_refused(empty, ErrorCode::kBadInput, "tokenizer.ggml.tokens", "0 entries");
}

TEST(TokenizerHostile, DuplicateTexts) {
  TokenizerModel model;
  model.add("twice");
  model.add("twice");
  expect_refused(model, ErrorCode::kBadInput, "tokenizer.ggml.tokens[257]", "[256]");
}

TEST(TokenizerHostile, TypesShortWrongOrOutOfRange) {
  TokenizerModel shorter;
  shorter.types.pop_back();
  expect_refused(shorter, ErrorCode::kBadInput, "tokenizer.ggml.token_type", "index 255");

  for (const int32_t type : {0, 7, -1, INT32_MAX}) {
    TokenizerModel wrong;
    wrong.types[17] = type;
    expect_refused(wrong, ErrorCode::kBadInput, "tokenizer.ggml.token_type[17]", std::to_string(type));
  }

  TokenizerModel floats;
  floats.with_types = false;
  floats.more_keys = [](gguf::Writer& writer) {
    writer.set_f32s("tokenizer.ggml.token_type", std::vector<float>(256, 1.0f));
  };
  expect_refused(floats, ErrorCode::kBadInput, "tokenizer.ggml.token_type[0]", "");

  TokenizerModel scalar;
  scalar.with_types = false;
  scalar.more_keys = [](gguf::Writer& writer) { writer.set_i32("tokenizer.ggml.token_type", 1); };
  expect_refused(scalar, ErrorCode::kBadInput, "tokenizer.ggml.token_type", "not an array");
}

TEST(TokenizerHostile, ScoresShorterThanTokensOrOfAnotherType) {
  TokenizerModel shorter;
  shorter.more_keys = [](gguf::Writer& writer) {
    writer.set_f32s("tokenizer.ggml.scores", std::vector<float>(255, 0.0f));
  };
  expect_refused(shorter, ErrorCode::kBadInput, "tokenizer.ggml.scores", "index 255");

  TokenizerModel integers;
  integers.more_keys = [](gguf::Writer& writer) {
    writer.set_i32s("tokenizer.ggml.scores", std::vector<int32_t>(256, 0));
  };
  expect_refused(integers, ErrorCode::kBadInput, "tokenizer.ggml.scores", "not f32");
}

TEST(TokenizerHostile, IdsOutsideTheVocabulary) {
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "fim_pad", "fim_rep", "fim_sep"}) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    for (const uint32_t id : {256u, 0xFFFFFFFFu}) {
      TokenizerModel model;
      model.more_keys = [&](gguf::Writer& writer) { writer.set_u32(key, id); };
      expect_refused(model, ErrorCode::kBadInput, key, std::to_string(id));
    }
    TokenizerModel negative;
    negative.more_keys = [&](gguf::Writer& writer) { writer.set_i32(key, -1); };
    expect_refused(negative, ErrorCode::kBadInput, key, "-1");

    TokenizerModel text;
    text.more_keys = [&](gguf::Writer& writer) { writer.set_string(key, "1"); };
    expect_refused(text, ErrorCode::kBadInput, key, "");

    TokenizerModel last;
    last.more_keys = [&](gguf::Writer& writer) { writer.set_u32(key, 255); };
    EXPECT_TRUE(last.load().ok()) << key;
  }
}

TEST(TokenizerHostile, MergesMissingWithoutSeparatorOrOfAnotherType) {
  TokenizerModel missing;
  missing.with_merges = false;
  expect_refused(missing, ErrorCode::kBadInput, "tokenizer.ggml.merges", "missing");

  for (const char* line : {"ab", "", " ", "a ", " a", "a"}) {
    TokenizerModel model;
    model.merge("x", "y");
    model.merges.push_back(line);
    expect_refused(model, ErrorCode::kBadInput, "tokenizer.ggml.merges[1]", "two parts");
  }

  TokenizerModel numbers;
  numbers.with_merges = false;
  numbers.more_keys = [](gguf::Writer& writer) { writer.set_i32s("tokenizer.ggml.merges", std::vector<int32_t>{1}); };
  expect_refused(numbers, ErrorCode::kBadInput, "tokenizer.ggml.merges", "not an array of strings");
}

TEST(TokenizerHostile, NamesOfOtherTypes) {
  TokenizerModel pre;
  pre.pre.clear();
  pre.more_keys = [](gguf::Writer& writer) { writer.set_u32("tokenizer.ggml.pre", 3); };
  expect_refused(pre, ErrorCode::kBadInput, "tokenizer.ggml.pre", "");

  TokenizerModel add_bos;
  add_bos.more_keys = [](gguf::Writer& writer) { writer.set_string("tokenizer.ggml.add_bos_token", "yes"); };
  expect_refused(add_bos, ErrorCode::kBadInput, "tokenizer.ggml.add_bos_token", "");
}

TEST(TokenizerHostile, HugeSpecialToken) {
  TokenizerModel model;
  model.add(std::string(5000, 'x'), TokenType::kControl);
  const auto tokenizer = model.load();
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(tokenizer.error().message, AllOf(HasSubstr("tokenizer.ggml.tokens[256]"), HasSubstr("5000 bytes")));
}

// Control characters and invalid UTF-8 of a file never reach the terminal.
TEST(TokenizerHostile, MessagesArePrintable) {
  TokenizerModel model;
  model.merges.push_back("\x1b[31m\xff\n");
  const auto tokenizer = model.load();
  ASSERT_FALSE(tokenizer.ok());
  for (const char c : tokenizer.error().message) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << int{c};
}

// Merges may name texts that no word can contain, or that are no tokens; they are harmless.
TEST(TokenizerHostile, UnreachableMergesAreHarmless) {
  TokenizerModel model;
  model.merges = {"\u6F22 \u5B57", "\xff \xfe", "a b", "a b", "ab c"};
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  // "ab" and "abc" are merged, but no tokens: they fall apart into bytes.
  EXPECT_EQ(test::encode(*tokenizer, "abc"), (std::vector<int32_t>{'a', 'b', 'c'}));
}

TEST(TokenizerHostile, ByteWithoutTokenIsNamed) {
  TokenizerModel model;
  model.tokens['q'] = "renamed";
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = tokenizer->encode("a q", {});
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(ids.error().message, HasSubstr("0x71"));
}

}  // namespace
}  // namespace strata::text
