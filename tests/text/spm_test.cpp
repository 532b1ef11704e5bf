// SentencePiece-style segmentation: scores and ties against the plain rule, bytes, unused and unknown tokens, and the
// spaces in front.
#include "text/spm.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "text/processor_time.h"
#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using test::encode;
using test::kSpmFirstByte;
using test::SpmModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr char kS[] = "\u2581";

int32_t byte_id(int byte) { return kSpmFirstByte + byte; }

void without_space_prefix(SpmModel& model) {
  model.more_keys = [](gguf::Writer& writer) { writer.set_bool("tokenizer.ggml.add_space_prefix", false); };
}

// Scan for the pair with the highest score (the leftmost of equals), merge, repeat.
std::vector<std::string> plain_merge(const std::string& word, const std::map<std::string, float>& scores) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.push_back(std::string(1, c));
  while (true) {
    const float none = -INFINITY;
    float best = none;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = scores.find(symbols[i] + symbols[i + 1]);
      if (found != scores.end() && found->second > best) best = found->second, at = i;
    }
    if (best == none) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(Spm, EqualsThePlainRule) {
  Random random(17);
  for (int round = 0; round < 60; ++round) {
    SpmModel model;
    without_space_prefix(model);
    std::map<std::string, float> scores = {{"a", 0.0f}, {"b", 0.0f}, {"c", 0.0f}};
    while (scores.size() < 40) {
      std::string text;
      for (uint64_t n = 2 + random.below(4); n > 0; --n) text.push_back("abc"[random.below(3)]);
      scores.emplace(text, -static_cast<float>(random.below(12)));  // few values, so that there are ties
    }
    for (const auto& [text, score] : scores) model.add_piece(text, score);
    const auto tokenizer = model.must_load();
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 100; ++i) {
      std::string word;
      for (uint64_t n = 1 + random.below(30); n > 0; --n) word.push_back("abc"[random.below(3)]);
      std::vector<std::string> texts;
      for (const int32_t id : encode(*tokenizer, word)) texts.push_back(tokenizer->piece(id, false));
      ASSERT_EQ(texts, plain_merge(word, scores)) << word;
    }
  }
}

TEST(Spm, OfEqualScoresTheLeftmostIsMerged) {
  SpmModel model;
  without_space_prefix(model);
  const int32_t a = model.add_piece("a", -9), aa = model.add_piece("aa", -1), ab = model.add_piece("ab", -1);
  const int32_t b = model.add_piece("b", -9);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, "aaa"), (Ids{aa, a}));
  EXPECT_EQ(encode(*tokenizer, "aab"), (Ids{aa, b}));
  EXPECT_EQ(encode(*tokenizer, "aaab"), (Ids{aa, ab}));
  model.scores[static_cast<size_t>(ab)] = -0.5f;
  const auto other = model.must_load();
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(encode(*other, "aab"), (Ids{a, ab}));
}

TEST(Spm, CharactersWithoutTokenFallToBytes) {
  SpmModel model;
  without_space_prefix(model);
  const int32_t a = model.add_piece("a", 0);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, "a\u00E9\n"), (Ids{a, byte_id(0xC3), byte_id(0xA9), byte_id(0x0A)}));
  EXPECT_EQ(tokenizer->decode(Ids{a, byte_id(0xC3), byte_id(0xA9)}), "a\u00E9");
  EXPECT_EQ(encode(*tokenizer, "\xFF"), (Ids{byte_id(0xEF), byte_id(0xBF), byte_id(0xBD)}));
}

// What reads like a byte token is text.
TEST(Spm, MergesMakeNoByteControlOrUnknownTokens) {
  SpmModel model;
  without_space_prefix(model);
  Ids characters;
  for (const char c : std::string("<0x41>s/unk")) {
    const std::string text(1, c);
    if (std::find(model.tokens.begin(), model.tokens.end(), text) == model.tokens.end()) model.add_piece(text, -50);
  }
  for (const char* part : {"<0", "x4", "1>", "<0x4", "<s", "un", "<un", "k>"}) model.add_piece(part, -1);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  for (const char* text : {"<0x41>", "<s>", "<unk>"}) {
    const Ids ids = encode(*tokenizer, text, false);
    for (const int32_t id : ids) EXPECT_GE(id, byte_id(256)) << text;
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
  EXPECT_EQ(encode(*tokenizer, "<s><unk>", true), (Ids{1, 0}));
}

TEST(Spm, WithoutByteTokensTheUnknownTokenStandsForCharacters) {
  SpmModel model;
  without_space_prefix(model);
  const int32_t a = model.add_piece("a", 0);
  model.tokens[static_cast<size_t>(byte_id(0xA9))] = "renamed";
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, "a\u00E9a"), (Ids{a, 0, a}));
  EXPECT_EQ(encode(*tokenizer, "\u00E8"), (Ids{byte_id(0xC3), byte_id(0xA8)}));  // its bytes are there

  model.types[0] = static_cast<int32_t>(TokenType::kControl);
  const auto without = model.must_load();
  ASSERT_NE(without, nullptr);
  const auto ids = without->encode("a\u00E9", {});
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(ids.error().message, HasSubstr("no token for \"\u00E9\""));
}

// An unused token is a step on the way to longer ones, but never the result.
TEST(Spm, UnusedTokensFallApart) {
  SpmModel model;
  without_space_prefix(model);
  const int32_t a = model.add_piece("a", -9), b = model.add_piece("b", -9), c = model.add_piece("c", -9);
  model.add_piece("ab", -1, TokenType::kUnused);
  model.add_piece("abc", -2, TokenType::kUnused);
  const int32_t abca = model.add_piece("abca", -3);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, "ab"), (Ids{a, b}));
  EXPECT_EQ(encode(*tokenizer, "babcb"), (Ids{b, a, b, c, b}));
  EXPECT_EQ(encode(*tokenizer, "abca"), (Ids{abca}));
  EXPECT_EQ(encode(*tokenizer, "abcab"), (Ids{a, b, c, a, b}));
}

class SpmSpaces : public ::testing::Test {
 protected:
  SpmSpaces() {
    a_ = model_.add_piece("A", -9), b_ = model_.add_piece("B", -9), space_ = model_.add_piece(kS, -9);
    space_a_ = model_.add_piece(std::string(kS) + "A", -1), space_b_ = model_.add_piece(std::string(kS) + "B", -1);
    special_ = model_.add_piece("<special>", 0, TokenType::kControl);
    tool_ = model_.add_piece("<tool>", 0, TokenType::kUserDefined);
  }

  SpmModel model_;
  int32_t a_, b_, space_, space_a_, space_b_, special_, tool_;
};

// T02
TEST_F(SpmSpaces, OneIsPutBeforeTextThatOpens) {
  const auto tokenizer = model_.must_load();
  ASSERT_NE(tokenizer, nullptr);
  const std::pair<const char*, Ids> cases[] = {
      {"", {}},
      {"A", {space_a_}},
      {" A", {space_, space_a_}},
      {"A B", {space_a_, space_b_}},
      {"A  B", {space_a_, space_, space_b_}},
      {" ", {space_, space_}},
      {"A<special> B", {space_a_, special_, space_, space_b_}},
      {"<special>B", {special_, space_b_}},
      {"<special><special>", {special_, special_}},
      {"<tool>BA", {tool_, space_b_, a_}},
      {"<s>AB", {1, space_a_, b_}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(encode(*tokenizer, text, true), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids, true), text);
  }
  EXPECT_EQ(*tokenizer->encode("A", {.add_bos = true}), (Ids{1, space_a_}));
  EXPECT_EQ(*tokenizer->encode("", {.add_bos = true}), (Ids{1}));
  EXPECT_EQ(tokenizer->decode(Ids{1, space_a_}), "A");
  EXPECT_EQ(tokenizer->piece(space_a_, false), " A");  // a piece for itself keeps its space
}

TEST_F(SpmSpaces, NoneIsPutBeforeAPieceThatGoesOn) {
  const auto tokenizer = model_.must_load();
  ASSERT_NE(tokenizer, nullptr);
  const std::pair<const char*, Ids> cases[] = {
      {"", {}},
      {"A", {a_}},
      {" A", {space_a_}},
      {"AB", {a_, b_}},
      {"A B", {a_, space_b_}},
      {" ", {space_}},
      {"B<special>A B", {b_, special_, space_a_, space_b_}},
      {"<special>B", {special_, space_b_}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(*tokenizer->encode(text, {.parse_special = true, .opens = false}), ids) << text;
  }
  // Cut where the segmentation has a border anyway, the pieces are the whole.
  Ids pieces = *tokenizer->encode("AB", {});
  for (const char* piece : {" A", " B"}) {
    const Ids more = *tokenizer->encode(piece, {.opens = false});
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  EXPECT_EQ(pieces, encode(*tokenizer, "AB A B"));
}

TEST_F(SpmSpaces, NoneIsPutWhereTheFileSaysSo) {
  without_space_prefix(model_);
  const auto tokenizer = model_.must_load();
  ASSERT_NE(tokenizer, nullptr);
  for (const auto& [text, ids] : {std::pair<const char*, Ids>{"A B", {a_, space_b_}}, {" A", {space_a_}},
                                  {"<special>B", {special_, b_}}, {"<special> B", {special_, space_b_}}}) {
    EXPECT_EQ(encode(*tokenizer, text, true), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids, true), text);
  }
}

TEST(Spm, RolesWithoutKeys) {
  const auto tokenizer = SpmModel().must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_TRUE(tokenizer->is_end_of_generation(2));
  EXPECT_TRUE(tokenizer->warnings().empty());
}

TEST(Spm, TextWithSpacesComesBack) {
  SpmModel model;
  for (std::string run = kS; run.size() < 64; run += run) model.add_piece(run, -static_cast<float>(run.size()));
  for (const char* piece : {"a", "b", "ab", "\u00E9"}) model.add_piece(piece, -1);
  model.add_piece("<special>", 0, TokenType::kControl);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  Random random(23);
  static const char* const parts[] = {"a", "b", " ", "  ", "\u00E9", "\U0001F600", "\n", "<special>"};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (uint64_t n = random.below(20); n > 0; --n) text += parts[random.below(std::size(parts))];
    for (const bool parse_special : {false, true}) {
      ASSERT_EQ(tokenizer->decode(encode(*tokenizer, text, parse_special), true), text);
    }
  }
}

// A megabyte is one text for the merges.
TEST(Spm, AMegabyte) {
  SpmModel model;
  model.add_piece(kS, -1);
  Random random(4);
  for (char first = 'a'; first <= 'z'; ++first) {
    model.add_piece(std::string(1, first), -1000);
    for (char second = 'a'; second <= 'z'; second += 2) {
      model.add_piece(std::string{first, second}, -static_cast<float>(random.below(500)));
    }
  }
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  std::string text;
  while (text.size() < 1 << 20) text.push_back(static_cast<char>('a' + random.below(26)));
  const Ids ids = encode(*tokenizer, text);
  EXPECT_LT(ids.size(), text.size() * 9 / 10);
  EXPECT_EQ(tokenizer->decode(ids), text);
}

// See expect_linear_work.
TEST(Spm, LongRunsCostLinearWork) {
  SpmModel model;
  model.add_piece(kS, -1);
  for (std::string a = "a"; a.size() < 4096; a += a) model.add_piece(a, -static_cast<float>(a.size()));
  for (std::string a = "b"; a.size() < 1000; a += "b") model.add_piece(a, static_cast<float>(a.size()));
  for (std::string a = "c"; a.size() < 300; a += "c") {
    model.add_piece(a, static_cast<float>(a.size()), a.size() == 1 ? TokenType::kNormal : TokenType::kUnused);
  }
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  for (const char* unit : {"a", "b", "c", "ab", " ", "\u4F60", "\n"}) {
    test::expect_linear_work("spm", unit,
                             [&](const std::string& text) { EXPECT_FALSE(encode(*tokenizer, text).empty()); });
  }
}

TEST(Spm, TooLongATextIsRefused) {
  const auto tokenizer = SpmModel().must_load();
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = tokenizer->encode(std::string((64 << 20) + 1, 'x'), {});
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(ids.error().message, HasSubstr("64"));
}

void expect_refused(const SpmModel& model, const std::string& key, const std::string& detail) {
  const auto tokenizer = model.load();
  ASSERT_FALSE(tokenizer.ok()) << "accepted; expected a complaint about " << key << ": " << detail;
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(tokenizer.error().message, AllOf(HasSubstr("model.gguf"), HasSubstr(key), HasSubstr(detail)));
}

TEST(SpmHostile, ScoresMissingShortOrNoNumbers) {
  SpmModel missing;
  missing.scores.clear();
  expect_refused(missing, "tokenizer.ggml.scores", "missing");
  SpmModel shorter;
  shorter.scores.pop_back();
  expect_refused(shorter, "tokenizer.ggml.scores", "index 258");
  SpmModel nan;
  nan.scores[7] = NAN;
  expect_refused(nan, "tokenizer.ggml.scores[7]", "not a number");
}

TEST(SpmHostile, InfiniteScoresAreAnOrderToo) {
  SpmModel model;
  without_space_prefix(model);
  const int32_t a = model.add_piece("a", -INFINITY), ab = model.add_piece("ab", INFINITY);
  const int32_t b = model.add_piece("b", -INFINITY);
  model.add_piece("ba", -INFINITY);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, "babb"), (Ids{b, ab, b}));
  EXPECT_EQ(encode(*tokenizer, "a"), (Ids{a}));
}

TEST(SpmHostile, KeysOfOtherTypes) {
  SpmModel model;
  model.more_keys = [](gguf::Writer& writer) { writer.set_string("tokenizer.ggml.add_space_prefix", "yes"); };
  expect_refused(model, "tokenizer.ggml.add_space_prefix", "");
}

// Unused tokens that are made of unused ones, three thousand deep.
TEST(SpmHostile, DeepUnusedTokens) {
  SpmModel model;
  without_space_prefix(model);
  const int32_t a = model.add_piece("a", -10'000);
  for (size_t n = 2; n <= 3000; ++n) model.add_piece(std::string(n, 'a'), static_cast<float>(n), TokenType::kUnused);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, std::string(3000, 'a')), Ids(3000, a));
}

}  // namespace
}  // namespace strata::text
