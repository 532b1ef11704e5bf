#include "text/unicode_tables.h"

#include <gtest/gtest.h>

#include "text/pcre2_set.h"

namespace strata::text {
namespace {

TEST(UnicodeTables, VersionIsThatOfPcre2) {
  EXPECT_EQ(test::pcre2_unicode_version(), kUnicodeVersion)
      << "run scripts/make_unicode_tables.py with a python of the same Unicode version";
}

TEST(UnicodeTables, RangesAreAscendingAndDisjoint) {
  uint32_t next = 0;
  for (const CharRange& range : kCharRanges) {
    EXPECT_GE(range.first, next);
    EXPECT_LE(range.first, range.last);
    EXPECT_NE(range.char_class, CharClass::kOther);
    next = range.last + 1;
  }
  EXPECT_LE(next, 0x110000u);
}

TEST(UnicodeTables, EveryAssignedCharacterHasTheClassThatPcre2Says) {
  const std::pair<CharClass, const char*> classes[] = {
      {CharClass::kUpper, "[\\p{Lu}\\p{Lt}]"},
      {CharClass::kLower, "\\p{Ll}"},
      {CharClass::kCaseless, "[\\p{Lm}\\p{Lo}]"},
      {CharClass::kMark, "\\p{M}"},
      {CharClass::kNumber, "\\p{N}"},
      {CharClass::kPunctuation, "\\p{P}"},
      {CharClass::kSymbol, "\\p{S}"},
      {CharClass::kWhiteSpace, "\\p{White_Space}"}};
  std::vector<CharClass> expected(0x110000, CharClass::kOther);
  for (const auto& [char_class, pattern] : classes) {
    const std::vector<bool> members = test::characters_matching(pattern);
    for (uint32_t c = 0; c < 0x110000; ++c) {
      if (members[c]) expected[c] = char_class;
    }
  }
  const std::vector<bool> assigned = test::characters_matching("\\P{Cn}");
  int n_checked = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (!assigned[c]) continue;
    ASSERT_EQ(char_class(c), expected[c]) << std::hex << c;
    ++n_checked;
  }
  EXPECT_GT(n_checked, 140'000);
}

TEST(UnicodeTables, WhatIsNoCodePointIsOther) {
  EXPECT_EQ(char_class(0x110000), CharClass::kOther);
  EXPECT_EQ(char_class(UINT32_MAX), CharClass::kOther);
}

}  // namespace
}  // namespace strata::text
