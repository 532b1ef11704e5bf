// Behaviour of the tokenizer on vocabularies made for the purpose.
#include "text/tokenizer.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "text/processor_time.h"
#include "text/tokenizer_model.h"
#include "text/utf8.h"

namespace strata::text {
namespace {

using test::encode;
using test::TokenizerModel;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr char kG[] = "\u0120";  // a space in the byte alphabet

std::unique_ptr<Tokenizer> load_golden() {
  auto model = gguf::Model::open(::strata::test::golden_path("models/moe-a-q8_0.gguf"), real_file_system());
  if (!model.ok()) return nullptr;
  auto tokenizer = Tokenizer::load(**model);
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

// T02
TEST(Tokenizer, SpecialTokensDoNotChangeTheTextAroundThem) {
  TokenizerModel model;
  const int32_t special = model.add("<special>", TokenType::kControl);
  const int32_t bos = model.add("<s>", TokenType::kControl);
  model.merge(kG, "B");
  const int32_t space_b = static_cast<int32_t>(model.tokens.size()) - 1;
  model.merge("u", "s");
  const int32_t us = static_cast<int32_t>(model.tokens.size()) - 1;
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);

  const std::pair<const char*, Ids> cases[] = {
      {"A<special> B", {'A', special, space_b}},
      {"<special>B", {special, 'B'}},
      {"<special>user", {special, us, 'e', 'r'}},
      {"<s>G", {bos, 'G'}},
      {"A <special><s>", {'A', ' ', special, bos}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(encode(*tokenizer, text, true), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids, true), text);
  }
  EXPECT_EQ(tokenizer->decode(Ids{special, space_b}), " B");
}

// T05: text of users never becomes a control token, but user-defined tokens are found in it.
TEST(Tokenizer, OnlyUserDefinedTokensAreFoundWithoutParseSpecial) {
  TokenizerModel model;
  const int32_t control = model.add("<|im_end|>", TokenType::kControl);
  const int32_t unknown = model.add("<unk>", TokenType::kUnknown);
  const int32_t defined = model.add("<tool>", TokenType::kUserDefined);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = "<|im_end|><unk><tool>";
  EXPECT_EQ(encode(*tokenizer, text, true), (Ids{control, unknown, defined}));
  const Ids plain = encode(*tokenizer, text, false);
  EXPECT_EQ(plain.back(), defined);
  for (const int32_t id : plain) EXPECT_TRUE(id < 256 || id == defined) << id;
  EXPECT_EQ(tokenizer->decode(plain), text);
}

// Merging the bytes of a control token's text does not make it either.
TEST(Tokenizer, MergesNeverMakeControlOrUnusedTokens) {
  for (const TokenType type : {TokenType::kControl, TokenType::kUnknown, TokenType::kUnused}) {
    TokenizerModel model;
    model.add("ab", type);
    model.merges.push_back("a b");
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(encode(*tokenizer, "ab"), (Ids{'a', 'b'}));
  }
}

TEST(Tokenizer, BosIsPutInFrontWhenAsked) {
  TokenizerModel model;
  const int32_t bos = model.add("<s>", TokenType::kControl);
  model.more_keys = [bos](gguf::Writer& writer) {
    writer.set_u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(bos));
    writer.set_bool("tokenizer.ggml.add_bos_token", true);
  };
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_EQ(*tokenizer->encode("x", {.add_bos = true}), (Ids{bos, 'x'}));
  EXPECT_EQ(*tokenizer->encode("", {.add_bos = true}), (Ids{bos}));
  EXPECT_EQ(*tokenizer->encode("x", {.add_bos = false}), (Ids{'x'}));

  const auto without = TokenizerModel().must_load();
  ASSERT_NE(without, nullptr);
  EXPECT_EQ(without->bos(), kNoToken);
  EXPECT_FALSE(without->add_bos());
  EXPECT_EQ(*without->encode("x", {.add_bos = true}), (Ids{'x'}));
}

// T04. A missing, default or unknown name: split by the default rules and said so; the known names are silent.
TEST(Tokenizer, UnknownPretokenizersAreSaid) {
  const auto words = [](const std::string& pre, size_t warnings, const std::string& said) {
    TokenizerModel model;
    model.pre = pre;
    model.merge("1", "2");
    model.merge("12", "3");
    model.merge("123", "4");
    const auto tokenizer = model.must_load();
    if (tokenizer == nullptr) return Ids{};
    EXPECT_EQ(tokenizer->warnings().size(), warnings) << pre;
    for (const std::string& warning : tokenizer->warnings()) EXPECT_THAT(warning, HasSubstr(said));
    return encode(*tokenizer, "1234");
  };
  const Ids single = {'1', '2', '3', '4'};
  for (const char* known : {"qwen2", "deepseek-r1-qwen", "stablelm2", "qwen35", "starcoder"}) {
    EXPECT_EQ(words(known, 0, ""), single);
  }
  const Ids grouped = {257, '4'};  // groups of three digits: "123", "4"
  EXPECT_EQ(words("", 1, "tokenizer.ggml.pre is missing"), grouped);
  EXPECT_EQ(words("default", 1, "tokenizer.ggml.pre is \"default\""), grouped);
  EXPECT_EQ(words("from-the-future", 1, "tokenizer.ggml.pre is \"from-the-future\", which is not known"), grouped);
}

// With some pre-tokenizers a word that is a token becomes it, though the merges would not make it.
TEST(Tokenizer, WholeWordsBeforeMerges) {
  TokenizerModel model;
  const int32_t word = model.add(std::string(kG) + "word");
  const int32_t control = model.add("text", TokenType::kControl);
  model.merge("w", "o");
  const int32_t wo = static_cast<int32_t>(model.tokens.size()) - 1;
  const Ids merged = {' ', wo, 'r', 'd'};
  for (const auto& [pre, expected] : {std::pair("llama-bpe", Ids{word}), std::pair("llama-v3", Ids{word}),
                                      std::pair("tekken", Ids{word}), std::pair("qwen2", merged),
                                      std::pair("smaug-bpe", merged), std::pair("glm4", merged)}) {
    model.pre = pre;
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(encode(*tokenizer, " word"), expected) << pre;
    EXPECT_EQ(encode(*tokenizer, "words").size(), 4u) << pre;
    for (const int32_t id : encode(*tokenizer, "text")) EXPECT_NE(id, control) << pre;
  }
}

// T07
TEST(Tokenizer, AnyIdIsSafe) {
  const auto tokenizer = TokenizerModel().must_load();
  ASSERT_NE(tokenizer, nullptr);
  for (const int32_t id : {-1, tokenizer->vocab_size(), INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer->piece(id, true), "");
    EXPECT_EQ(tokenizer->decode(Ids{'a', id, 'b'}), "ab");
    EXPECT_FALSE(tokenizer->is_end_of_generation(id));
    EXPECT_EQ(tokenizer->token_type(id), TokenType::kUnused);
  }
}

TEST(Tokenizer, PiecesByType) {
  TokenizerModel model;
  const int32_t normal = model.add(std::string(kG) + "caf\u00C3\u00A9");  // " café" in the byte alphabet
  const int32_t control = model.add("<c>", TokenType::kControl);
  const int32_t unknown = model.add("<u>", TokenType::kUnknown);
  const int32_t defined = model.add("\u0120 \u6F22", TokenType::kUserDefined);
  const int32_t unused = model.add("[PAD0]", TokenType::kUnused);
  const int32_t byte = model.add("<0xE9>", TokenType::kByte);
  const int32_t no_byte = model.add("<0xZZ>", TokenType::kByte);
  const int32_t empty = model.add("");
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->piece(normal, false), " caf\u00E9");
  EXPECT_EQ(tokenizer->piece(control, false), "");
  EXPECT_EQ(tokenizer->piece(control, true), "<c>");
  EXPECT_EQ(tokenizer->piece(unknown, false), "");
  EXPECT_EQ(tokenizer->piece(unknown, true), "<u>");
  EXPECT_EQ(tokenizer->piece(defined, false), "\u0120 \u6F22");
  EXPECT_EQ(tokenizer->piece(unused, true), "");
  EXPECT_EQ(tokenizer->piece(byte, false), "\xE9");
  EXPECT_EQ(tokenizer->piece(no_byte, false), "<0xZZ>");
  EXPECT_EQ(tokenizer->piece(empty, false), "[EMPTY_" + std::to_string(empty) + "]");
  for (int32_t id = 0; id < 256; ++id) EXPECT_EQ(tokenizer->piece(id, false), std::string(1, static_cast<char>(id)));
}

TEST(Tokenizer, InvalidBytesBecomeOneReplacementEach) {
  const auto tokenizer = TokenizerModel().must_load();
  ASSERT_NE(tokenizer, nullptr);
  const std::pair<const char*, int> cases[] = {
      {"\xFF", 1}, {"\xED\xA0\x80", 3}, {"\xED\xA0\xBD\xED\xB8\x80", 6}, {"\xE4\xBD", 2}, {"\xC0\x80", 2},
      {"\xF4\x90\x80\x80", 4}, {"\x80", 1}};
  for (const auto& [bytes, n] : cases) {
    std::string expected = "a";
    for (int i = 0; i < n; ++i) expected += kReplacement;
    EXPECT_EQ(tokenizer->decode(encode(*tokenizer, "a" + std::string(bytes) + "b")), expected + "b");
  }
}

// One random string: letters, digits, white space and controls, emoji with joiners, marks, runs, any character, and
// (with `invalid`) bytes that are no UTF-8, among them lone surrogates.
std::string random_text(Random& random, bool invalid) {
  static const char* const pieces[] = {"the ", " and", "'s", "  ", "\n", "\r\n", "\t", "1234", "\u0301", "\u00E9",
                                       "\U0001F469\u200D\U0001F469\u200D\U0001F467", "\u4F60\u597D", "\u2003", "\u00A0",
                                       "<|im_end|>", "<|im_st", "..."};
  static const char* const broken[] = {"\xED\xA0\x80", "\xED\xBF\xBF", "\xFF", "\xC3", "\xF0\x9F\x98", "\x80"};
  std::string text;
  const uint64_t n = random.below(12);
  for (uint64_t i = 0; i < n; ++i) {
    switch (random.below(invalid ? 5 : 4)) {
      case 0: text += pieces[random.below(std::size(pieces))]; break;
      case 1: text.append(random.below(40), " 0\na"[random.below(4)]); break;
      case 2: text.push_back('\0'); break;
      case 3: {
        const auto c = static_cast<uint32_t>(random.below(0x110000));
        if (c < 0xD800 || c > 0xDFFF) append_utf8(c, text);
        break;
      }
      default: text += broken[random.below(std::size(broken))];
    }
  }
  return text;
}

// T08
TEST(Tokenizer, DecodingGivesTheTextBack) {
  const auto tokenizer = load_golden();
  ASSERT_NE(tokenizer, nullptr);
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = random_text(random, i % 2 == 1);
    const std::string valid = replace_invalid_utf8(text);
    ASSERT_TRUE(i % 2 == 1 || valid == text);
    for (const bool parse_special : {false, true}) {
      const Ids ids = encode(*tokenizer, text, parse_special);
      ASSERT_EQ(tokenizer->decode(ids, true), valid) << "string " << i;
    }
  }
}

// A megabyte without a place to cut: one word for the merges, and text back as it was.
TEST(Tokenizer, AWordOfAMegabyte) {
  const auto tokenizer = load_golden();
  ASSERT_NE(tokenizer, nullptr);
  std::string text;
  Random random(4);
  while (text.size() < 1 << 20) text.push_back(static_cast<char>('a' + random.below(26)));
  const Ids ids = encode(*tokenizer, text);
  EXPECT_LT(ids.size(), text.size());
  EXPECT_EQ(tokenizer->decode(ids), text);
}

// Threads share a tokenizer without a lock; both kinds of pre-tokenizers.
TEST(Tokenizer, ThreadsGetTheSameIds) {
  for (const char* pre : {"qwen2", "default"}) {
    TokenizerModel model;
    model.pre = pre;
    model.merge("t", "h");
    model.add("<|im_end|>", TokenType::kControl);
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    std::vector<std::string> texts;
    std::vector<Ids> expected;
    Random random(8);
    for (int i = 0; i < 200; ++i) {
      texts.push_back(random_text(random, true));
      expected.push_back(encode(*tokenizer, texts.back(), true));
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(encode(*tokenizer, texts[i], true), expected[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// T08: time. See expect_linear_work.
TEST(Tokenizer, LongRunsCostLinearWork) {
  TokenizerModel model;
  for (std::string a = "a"; a.size() < 4096; a += a) model.merge(a, a);
  for (std::string spaces = "  "; spaces.size() < 32; spaces += "  ") model.add(spaces, TokenType::kUserDefined);
  model.add("<|im_end|>", TokenType::kControl);
  for (const char* pre : {"qwen2", "default"}) {
    model.pre = pre;
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    for (const char* unit : {"a", " ", "7", "\n", "\t", ".", "\u4F60", "\u0301", "\t\r", "<|im_en", "<|im_end|>"}) {
      test::expect_linear_work(pre, unit,
                               [&](const std::string& text) { EXPECT_FALSE(encode(*tokenizer, text, true).empty()); });
    }
  }
}

}  // namespace
}  // namespace strata::text
