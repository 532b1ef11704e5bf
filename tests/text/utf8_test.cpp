#include "text/utf8.h"

#include <gtest/gtest.h>

namespace strata::text {
namespace {

TEST(Utf8, EveryCharacterIsReadAsWritten) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    std::string bytes;
    append_utf8(c, bytes);
    const Utf8Step step = utf8_step(bytes);
    if (c >= 0xD800 && c <= 0xDFFF) {
      ASSERT_EQ(step.kind, Utf8Kind::kInvalid) << c;
      ASSERT_FALSE(is_valid_utf8(bytes));
      continue;
    }
    ASSERT_EQ(step.kind, Utf8Kind::kCharacter) << c;
    ASSERT_EQ(step.length, bytes.size());
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(utf8_char(bytes.data()).code_point, c);
    ASSERT_TRUE(is_valid_utf8(bytes));
    for (size_t n = 1; n < bytes.size(); ++n) {
      const Utf8Step part = utf8_step(std::string_view(bytes).substr(0, n));
      ASSERT_EQ(part.kind, Utf8Kind::kIncomplete) << c;
      ASSERT_EQ(part.length, n);
    }
  }
}

TEST(Utf8, OverlongAndTooLargeFormsAreInvalid) {
  for (const char* bytes : {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x80\x80\x80",
                            "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\x80"}) {
    EXPECT_EQ(utf8_step(bytes).kind, Utf8Kind::kInvalid);
    EXPECT_EQ(utf8_step(bytes).length, 1);
    EXPECT_FALSE(is_valid_utf8(std::string("long ascii before ") + bytes));
  }
}

TEST(Utf8, ReplacementLeavesValidTextAlone) {
  const std::string text("a\0\u00E9\u20AC\U0001F600", 11);
  EXPECT_EQ(replace_invalid_utf8(text), text);
  EXPECT_EQ(replace_invalid_utf8("a\xC3(\xE2\x82"), "a\uFFFD(\uFFFD\uFFFD");
}

}  // namespace
}  // namespace strata::text
