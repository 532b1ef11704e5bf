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
  const std::vector<bool> letters = test::characters_matching("\\p{L}"), numbers = test::characters_matching("\\p{N}"),
                          spaces = test::characters_matching("\\p{White_Space}"),
                          assigned = test::characters_matching("\\P{Cn}");
  int n_checked = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (!assigned[c]) continue;
    const CharClass expected = letters[c]   ? CharClass::kLetter
                               : numbers[c] ? CharClass::kNumber
                               : spaces[c]  ? CharClass::kWhiteSpace
                                            : CharClass::kOther;
    ASSERT_EQ(char_class(c), expected) << std::hex << c;
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
