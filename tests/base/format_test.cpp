#include "base/format.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(FormatTest, FormatsValuesOfAllKinds) {
  const std::string text = "x";
  EXPECT_EQ(format("{} {:>4} {:.2f} {:#x} {}", text, 7, 1.005, 255u, true), "x    7 1.00 0xff true");
  EXPECT_EQ(format("no arguments"), "no arguments");
}

TEST(FormatTest, BytesAreShownInTheLargestUnitThatFits) {
  const struct {
    unsigned long long bytes;
    const char* text;
  } cases[] = {
      {0, "0 B"},
      {17, "17 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {1536, "1.5 KiB"},
      {1024 * 1024 - 1, "1 MiB"},  // never "1024 KiB"
      {3ull << 29, "1.5 GiB"},
      {10ull << 30, "10 GiB"},
      {5ull << 40, "5 TiB"},
      {~0ull, "16 EiB"},
  };
  for (const auto& c : cases) EXPECT_EQ(format_bytes(c.bytes), c.text) << c.bytes;
}

TEST(FormatTest, PrintableKeepsTextAndReplacesWhatATerminalMightObey) {
  const struct {
    std::string text, shown;
  } cases[] = {
      {"plain text", "plain text"},
      {"tab\tnew\nline", "tab?new?line"},
      {"\x1b[31mred\x7f", "?[31mred?"},
      {std::string("nul\0nul", 7), "nul?nul"},
      {"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xc2\x9b" "2J", "?2J"},            // C1: the one-character form of ESC [
      {"\xc2\xa0", "\xc2\xa0"},            // the first character after C1
      {"\xff\xfe", "??"},                  // never in UTF-8
      {"\xc0\xaf", "??"},                  // overlong
      {"\xe0\x80\xaf", "???"},             // overlong
      {"\xed\xa0\x80", "???"},             // a surrogate
      {"\xf4\x90\x80\x80", "????"},        // above U+10FFFF
      {"cut \xe2\x82", "cut ??"},          // ends inside a character
      {"\xe2\x28\xa1", "?(?"},             // not a continuation byte
  };
  for (const auto& c : cases) EXPECT_EQ(printable(c.text), c.shown) << testing::PrintToString(c.text);
}

TEST(FormatTest, PrintableCutsLongTextBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("ab\xe2\x82\xac", 4), "ab...");
  EXPECT_EQ(printable("ab\xe2\x82\xac", 5), "ab\xe2\x82\xac");
  EXPECT_EQ(printable("a", 0), "...");
  EXPECT_EQ(printable("", 0), "");
}

}  // namespace
}  // namespace strata
