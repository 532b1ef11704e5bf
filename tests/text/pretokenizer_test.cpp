// Words of the pre-tokenizers: known splits, and the hand-written ones against their regular expressions.
#include "text/pretokenizer/pretokenizer.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/pretokenizer/regex.h"
#include "text/processor_time.h"
#include "text/text_generator.h"

namespace strata::text {
namespace {

using Words = std::vector<std::string>;

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr char kQwen2[] = CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES;
constexpr char kQwen35[] =
    CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" SPACES;
constexpr char kLlamaBpe[] =
    CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES;
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
constexpr char kGpt4o[] =
    R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" CONTRACTIONS R"(?|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER "*" CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES;
constexpr char kTekken[] = R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER R"(+|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER
    R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES;
constexpr const char* kDeepseekV3[] = {
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*)" SPACES};

Words split(const Pretokenizer& pretokenizer, std::string_view text) {
  std::vector<size_t> ends;
  const Status status = pretokenizer.split(text, ends);
  EXPECT_TRUE(status.ok());
  Words words;
  size_t begin = 0;
  for (const size_t end : ends) {
    EXPECT_GT(end, begin);
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return words;
}

// "a|b": words separated by the sign that no example contains.
Words words_of(std::string_view line) {
  Words words(1);
  for (const char c : line) {
    if (c == '|') words.emplace_back();
    else words.back().push_back(c);
  }
  return words;
}

std::unique_ptr<Pretokenizer> make(std::string_view name) {
  const PretokenizerRow* row = find_pretokenizer(name);
  if (row == nullptr) return nullptr;
  auto made = row->make();
  return made.ok() ? std::move(made).value() : nullptr;
}

std::unique_ptr<Pretokenizer> regex(const std::vector<std::string>& patterns) {
  auto made = RegexPretokenizer::create(patterns);
  EXPECT_TRUE(made.ok());
  return made.ok() ? std::move(made).value() : nullptr;
}

struct KnownSplit {
  const char* text;
  const char* qwen2;
  const char* qwen35;
  const char* llama_bpe;
  const char* gpt_2;
  const char* gpt_4o;
  const char* deepseek_v3;
};

constexpr KnownSplit kKnown[] = {
    {"I'LL pay $12345.67  now\n\n  ok",
     "I|'LL| pay| $|1|2|3|4|5|.|6|7| | now|\n\n| | ok",
     "I|'LL| pay| $|1|2|3|4|5|.|6|7| | now|\n\n| | ok",
     "I|'LL| pay| $|123|45|.|67| | now|\n\n| | ok",
     "I|'|LL| pay| $|12345|.|67| | now|\n\n | ok",
     "I'LL| pay| $|123|45|.|67| | now|\n\n| | ok",
     "I|'LL| pay| $|123|45|.|67| | now|\n\n| | ok"},
    {"'sam don't_stop",
     "'s|am| don|'t|_stop",
     "'s|am| don|'t|_stop",
     "'s|am| don|'t|_stop",
     "'s|am| don|'t|_|stop",
     "'sam| don't|_stop",
     "'sam| don|'t|_stop"},
    {"a   b\t\n c ",
     "a|  | b|\t\n| c| ",
     "a|  | b|\t\n| c| ",
     "a|  | b|\t\n| c| ",
     "a|  | b|\t\n| c| ",
     "a|  | b|\t\n| c| ",
     "a|  | b|\t\n| c| "},
    {"na\u00EFve \u0928\u092E\u0938\u094D\u0924\u0947 \u65E5\u672C123",
     "na\u00EFve| \u0928\u092E\u0938|\u094D\u0924|\u0947| \u65E5\u672C|1|2|3",
     "na\u00EFve| \u0928\u092E\u0938\u094D\u0924\u0947| \u65E5\u672C|1|2|3",
     "na\u00EFve| \u0928\u092E\u0938|\u094D\u0924|\u0947| \u65E5\u672C|123",
     "na\u00EFve| \u0928\u092E\u0938|\u094D|\u0924|\u0947| \u65E5\u672C|123",
     "na\u00EFve| \u0928\u092E\u0938\u094D\u0924\u0947| \u65E5\u672C|123",
     "na\u00EFve| \u0928\u092E\u0938\u094D\u0924\u0947| |\u65E5\u672C|123"},
    {"HelloWORLD's //x\n",
     "HelloWORLD|'s| //|x|\n",
     "HelloWORLD|'s| //|x|\n",
     "HelloWORLD|'s| //|x|\n",
     "HelloWORLD|'s| //|x|\n",
     "Hello|WORLD's| //|x|\n",
     "HelloWORLD|'s| //|x|\n"},
};

TEST(Pretokenizer, KnownSplits) {
  for (const KnownSplit& known : kKnown) {
    EXPECT_EQ(split(*make("qwen2"), known.text), words_of(known.qwen2));
    EXPECT_EQ(split(*make("qwen35"), known.text), words_of(known.qwen35));
    EXPECT_EQ(split(*make("llama-bpe"), known.text), words_of(known.llama_bpe));
    EXPECT_EQ(split(*make("gpt-2"), known.text), words_of(known.gpt_2));
    EXPECT_EQ(split(*make("gpt-4o"), known.text), words_of(known.gpt_4o));
    EXPECT_EQ(split(*make("deepseek-v3"), known.text), words_of(known.deepseek_v3));
  }
}

TEST(Pretokenizer, DefaultRules) {
  const auto pretokenizer = make("default");
  ASSERT_NE(pretokenizer, nullptr);
  EXPECT_EQ(split(*pretokenizer, "Hello, world: 12345 it's"), words_of("Hello|,| world|:| |123|45| it|'|s"));
  EXPECT_EQ(split(*pretokenizer, "a  b\n"), words_of("a| | b|\n"));
  EXPECT_TRUE(split(*pretokenizer, "").empty());
}

TEST(Pretokenizer, UnknownNamesHaveNoRow) {
  EXPECT_EQ(find_pretokenizer("no-such"), nullptr);
  EXPECT_EQ(find_pretokenizer(""), nullptr);
  EXPECT_NE(find_pretokenizer(kDefaultPretokenizer), nullptr);
}

// U+180E lost the property White_Space; U+0085 and U+2028 have it.
TEST(RegexPretokenizer, WhiteSpaceIsTheUnicodeProperty) {
  const auto pretokenizer = regex({R"(\s+)", R"([^\s]+)"});
  EXPECT_EQ(split(*pretokenizer, "a\u180Eb\u0085\u2028c"), (Words{"a\u180Eb", "\u0085\u2028", "c"}));
}

TEST(RegexPretokenizer, PiecesEndLookahead) {
  // The second expression sees each piece of the first alone: the space before x ends its piece.
  const auto pretokenizer = regex({"x", R"(\s+(?!\S))"});
  EXPECT_EQ(split(*pretokenizer, "a  xb"), (Words{"a", "  ", "x", "b"}));
}

TEST(RegexPretokenizer, EmptyMatchesCutNothing) {
  const auto pretokenizer = regex({"b*"});
  EXPECT_EQ(split(*pretokenizer, "\u00E9abba"), (Words{"\u00E9a", "bb", "a"}));
}

TEST(RegexPretokenizer, BadPatternIsAnError) {
  const auto made = RegexPretokenizer::create({"a", "(b"});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, ::testing::HasSubstr("\"(b\""));
}

TEST(RegexPretokenizer, EndlessBacktrackingGivesUp) {
  const auto pretokenizer = regex({"(a+)+$"});
  std::vector<size_t> ends;
  const Status status = pretokenizer->split(std::string(64, 'a') + "b", ends);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInternal);
}

// Those written by hand against the regular expressions of the models, through PCRE2.
struct ByHand {
  const char* name;
  std::vector<std::string> expressions;
};

const ByHand kByHand[] = {
    {"qwen2", {kQwen2}},
    {"qwen35", {kQwen35}},
    {"llama-bpe", {kLlamaBpe}},
    {"gpt-4o", {kGpt4o}},
    {"tekken", {kTekken}},
    {"deepseek-v3", {kDeepseekV3[0], kDeepseekV3[1], kDeepseekV3[2]}},
};

TEST(PretokenizersByHand, EqualTheirRegularExpressions) {
  for (const ByHand& member : kByHand) {
    const auto by_hand = make(member.name), by_regex = regex(member.expressions);
    ASSERT_NE(by_hand, nullptr) << member.name;
    test::TextGenerator generator(2026);
    for (int i = 0; i < 20'000; ++i) {
      const std::string text = generator.next();
      ASSERT_EQ(split(*by_hand, text), split(*by_regex, text)) << member.name << ", string " << i << ": " << text;
    }
  }
}

// Every string of a few signs up to some length: the places where alternatives of the expressions meet.
TEST(PretokenizersByHand, EqualTheirRegularExpressionsOnAllShortTexts) {
  static const char* const signs[] = {"A", "a", "\u4E00", "\u0301", "1", ".", "/", "'", "s", " ", "\n", "\u00A0",
                                      "\x01"};
  std::vector<std::string> texts = {""};
  for (size_t begin = 0, round = 0; round < 4; ++round) {
    const size_t end = texts.size();
    for (; begin < end; ++begin) {
      for (const char* sign : signs) texts.push_back(texts[begin] + sign);
    }
  }
  for (const ByHand& member : kByHand) {
    const auto by_hand = make(member.name), by_regex = regex(member.expressions);
    ASSERT_NE(by_hand, nullptr) << member.name;
    for (const std::string& text : texts) {
      ASSERT_EQ(split(*by_hand, text), split(*by_regex, text)) << member.name << ": " << text;
    }
  }
}

// The member has the fourth expression in a form that costs linear work.
TEST(Pretokenizer, DeepseekLlmEqualsItsExpressions) {
  const auto member = make("deepseek-llm");
  ASSERT_NE(member, nullptr);
  EXPECT_EQ(split(*member, "Hi there, ok?\n  x1  "), words_of("Hi| there|,| ok|?|\n| | x|1|  "));
  // The third expression's class of signs, from : to ~, has the ASCII letters in it.
  EXPECT_EQ(split(*member, "na\u00EFve \u65E5\u672C123 \u00A0 \u4F60"),
            words_of("na|\u00EF|ve| |\u65E5\u672C|123| \u00A0 |\u4F60"));
  const auto plain = regex({R"(\s+$)"}), linear = regex({R"((?<!\s)\s++$)"});
  test::TextGenerator generator(5);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = generator.next() + (i % 2 == 0 ? " \t\u3000" : "");
    ASSERT_EQ(split(*linear, text), split(*plain, text)) << "string " << i << ": " << text;
  }
}

TEST(Pretokenizer, OtherRules) {
  EXPECT_EQ(split(*make("deepseek-coder"), "int x12; \u4F60\u597D\r\n"), words_of("int| x|1|2|;| |\u4F60\u597D|\r|\n"));
  EXPECT_EQ(split(*make("deepseek-coder"), "a,\u3042\u4F60 7"), words_of("a|,|\u3042\u4F60| |7"));
  EXPECT_EQ(split(*make("starcoder"), "x = 123  y's"), words_of("x| =| |1|2|3| | y|'s"));
  EXPECT_EQ(split(*make("falcon"), "a+b 12345 `x`"), words_of("a|+|b| |123|45| |`|x|`"));
  EXPECT_EQ(split(*make("default"), "`x`"), words_of("`|x|`"));
  EXPECT_EQ(split(*make("tekken"), "It's HelloWorld 123"), words_of("It|'s| Hello|World| |1|2|3"));
}

// See expect_linear_work. Runs that end in something else, as a run to the end of the text may be a special case.
TEST(Pretokenizer, LongRunsCostLinearWork) {
  for (const char* name : {"qwen2", "qwen35", "llama-bpe", "gpt-4o", "tekken", "deepseek-v3", "gpt-2", "starcoder",
                           "falcon", "deepseek-llm", "deepseek-coder", "default"}) {
    const auto member = make(name);
    ASSERT_NE(member, nullptr) << name;
    for (const char* unit : {"a", "A", " ", "7", "\n", "\t", ".", "'", "\u4F60", "\u0301", "\t\r", "\u4F60A", "\x01",
                             "/\n"}) {
      for (const char* end : {"x", "\u4F60", "1"}) {
        test::expect_linear_work(name, unit, [&](const std::string& text) {
          std::vector<size_t> ends;
          EXPECT_TRUE(member->split(text + end, ends).ok());
        });
      }
    }
  }
}

TEST(Pretokenizer, NamesOfTheSameRules) {
  const std::vector<std::vector<const char*>> families = {
      {"qwen2", "deepseek-r1-qwen", "stablelm2"},
      {"llama-bpe", "llama3", "llama-v3", "glm4", "chatglm-bpe", "dbrx", "smaug-bpe"},
      {"gpt-2", "olmo", "mpt", "phi-2"},
      {"gpt-4o", "llama4"},
      {"deepseek-v3", "hunyuan-dense"},
      {"starcoder", "refact", "command-r", "smollm", "codeshell"},
      {"qwen35"}, {"deepseek-llm"}, {"deepseek-coder"}, {"tekken"}, {"falcon"}, {"default"}};
  std::set<const void*> members;
  for (const auto& family : families) {
    const PretokenizerRow* first = find_pretokenizer(family[0]);
    ASSERT_NE(first, nullptr) << family[0];
    members.insert(reinterpret_cast<const void*>(first->make));
    for (const char* name : family) {
      const PretokenizerRow* row = find_pretokenizer(name);
      ASSERT_NE(row, nullptr) << name;
      EXPECT_EQ(row->make, first->make) << name;
    }
  }
  EXPECT_EQ(members.size(), families.size());
}

}  // namespace
}  // namespace strata::text
