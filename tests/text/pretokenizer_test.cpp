// Words of the pre-tokenizers: known splits, and the hand-written one against its regular expression.
#include "text/pretokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "text/pcre2_set.h"
#include "text/pretokenizer/regex.h"
#include "text/utf8.h"

namespace strata::text {
namespace {

using Words = std::vector<std::string>;

constexpr char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt2[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";

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
  const char* gpt2;
  const char* deepseek_v3;
};

constexpr KnownSplit kKnown[] = {
    {"I'LL pay $12345.67  now\n\n  ok", "I|'LL| pay| $|1|2|3|4|5|.|6|7| | now|\n\n| | ok",
     "I|'|LL| pay| $|12345|.|67| | now|\n\n | ok", "I|'LL| pay| $|123|45|.|67| | now|\n\n| | ok"},
    {"'sam don't_stop", "'s|am| don|'t|_stop", "'s|am| don|'t|_|stop", "'sam| don|'t|_stop"},
    {"a   b\t\n c ", "a|  | b|\t\n| c| ", "a|  | b|\t\n| c| ", "a|  | b|\t\n| c| "},
    {"na\u00EFve \u0928\u092E\u0938\u094D\u0924\u0947 \u65E5\u672C123",
     "na\u00EFve| \u0928\u092E\u0938|\u094D\u0924|\u0947| \u65E5\u672C|1|2|3",
     "na\u00EFve| \u0928\u092E\u0938|\u094D|\u0924|\u0947| \u65E5\u672C|123",
     "na\u00EFve| \u0928\u092E\u0938\u094D\u0924\u0947| |\u65E5\u672C|123"},
    {"HelloWORLD's //x\n", "HelloWORLD|'s| //|x|\n", "HelloWORLD|'s| //|x|\n", "HelloWORLD|'s| //|x|\n"},
};

TEST(Pretokenizer, KnownSplits) {
  const auto qwen2 = make("qwen2"), gpt2 = regex({kGpt2});
  const auto deepseek_v3 = regex(
      {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
       R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"});
  for (const KnownSplit& known : kKnown) {
    EXPECT_EQ(split(*qwen2, known.text), words_of(known.qwen2));
    EXPECT_EQ(split(*gpt2, known.text), words_of(known.gpt2));
    EXPECT_EQ(split(*deepseek_v3, known.text), words_of(known.deepseek_v3));
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

// Code points at which blocks of some forty scripts begin.
constexpr uint32_t kScripts[] = {
    0x41,   0xC0,   0x100,  0x250,  0x370,  0x400,  0x531,  0x5D0,  0x620,  0x710,  0x780,  0x7C0,   0x904,   0x985,
    0xA05,  0xA85,  0xB05,  0xB83,  0xC05,  0xC85,  0xD05,  0xD85,  0xE01,  0xE81,  0xF40,  0x1000,  0x10D0,  0x1100,
    0x1200, 0x13A0, 0x1401, 0x1680, 0x16A0, 0x1780, 0x1820, 0x1950, 0x1A00, 0x1B05, 0x1C00, 0x2C00,  0x2D30,  0x3041,
    0x30A1, 0x3105, 0x4E00, 0xA000, 0xA4D0, 0xAC00, 0xFB50, 0xFF10, 0x10400, 0x10900, 0x12000, 0x1D400, 0x1F130};

class TextGenerator {
 public:
  explicit TextGenerator(uint64_t seed) : random_(seed), assigned_(test::characters_matching("\\P{Cn}")) {}

  std::string next() {
    std::string text;
    for (uint64_t n = 1 + random_.below(16); n > 0; --n) append_some(text);
    return text;
  }

 private:
  void append_some(std::string& text) {
    static const char* const contractions[] = {"'s", "'T", "'rE", "'ve", "'M", "'lL", "'d", "'", "'x", "'r", "'\u017F"};
    static const uint32_t spaces[] = {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x20, 0x20, 0x85, 0xA0, 0x1680, 0x180E,
                                      0x2000, 0x2009, 0x200A, 0x200B, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
    switch (random_.below(9)) {
      case 0: text += contractions[random_.below(std::size(contractions))]; return;
      case 1: case 2:
        for (uint64_t n = 1 + random_.below(5); n > 0; --n) append_utf8(spaces[random_.below(std::size(spaces))], text);
        return;
      case 3: append_range(0x300, 0x70, text); return;                // marks
      case 4: append_range(0x21, 0x5E, text); return;                 // ASCII signs, digits, letters
      case 5: append_range(0x00, 0x20, text); return;                 // controls
      case 6: append_range(0x1F300, 0x300, text); return;             // emoji
      case 7: append_range(0, 0x110000, text); return;                // anything
      default: {
        const uint32_t script = kScripts[random_.below(std::size(kScripts))];
        for (uint64_t n = 1 + random_.below(4); n > 0; --n) append_range(script, 0x50, text);
      }
    }
  }

  void append_range(uint32_t first, uint32_t n, std::string& text) {
    const auto c = first + static_cast<uint32_t>(random_.below(n));
    if (assigned_[c]) append_utf8(c, text);
  }

  Random random_;
  std::vector<bool> assigned_;
};

TEST(Qwen2Pretokenizer, EqualsItsRegularExpression) {
  const auto by_hand = make("qwen2"), by_regex = regex({kQwen2});
  TextGenerator generator(2026);
  for (int i = 0; i < 40'000; ++i) {
    const std::string text = generator.next();
    ASSERT_EQ(split(*by_hand, text), split(*by_regex, text)) << "string " << i << ": " << text;
  }
}

}  // namespace
}  // namespace strata::text
