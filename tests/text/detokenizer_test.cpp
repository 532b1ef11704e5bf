// Streams are cut at every place; what comes out is whole characters and, in total, the text.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/utf8.h"

namespace strata::text {
namespace {

// F01
TEST(StreamDecoder, HoldsACharacterUntilItIsComplete) {
  StreamDecoder decoder(InvalidBytes::kReplace);
  EXPECT_EQ(decoder.push("\xF0"), "");
  EXPECT_EQ(decoder.push("\x9F\x98"), "");
  EXPECT_EQ(decoder.push("\x80"), "\U0001F600");
  EXPECT_EQ(decoder.push("a\xC3"), "a");
  EXPECT_EQ(decoder.push("\xA9" "b"), "\u00E9" "b");
  EXPECT_EQ(decoder.push(""), "");
  EXPECT_EQ(decoder.flush(), "");
}

// F02
TEST(StreamDecoder, ImpossibleBytesDoNotWait) {
  StreamDecoder replace(InvalidBytes::kReplace), keep(InvalidBytes::kKeep);
  EXPECT_EQ(replace.push("\xFF"), "\uFFFD");
  EXPECT_EQ(keep.push("\xFF"), "\xFF");
  EXPECT_EQ(replace.push("\xED\xA0"), "\uFFFD\uFFFD");  // a surrogate is no character
  EXPECT_EQ(replace.push("\xE2\x82"), "");
  EXPECT_EQ(replace.push("x"), "\uFFFD\uFFFDx");
}

TEST(StreamDecoder, FlushGivesWhatWasHeld) {
  StreamDecoder replace(InvalidBytes::kReplace), keep(InvalidBytes::kKeep);
  EXPECT_EQ(replace.push("a\xF0\x9F\x98"), "a");
  EXPECT_EQ(keep.push("a\xF0\x9F\x98"), "a");
  EXPECT_EQ(replace.flush(), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(keep.flush(), "\xF0\x9F\x98");
  EXPECT_EQ(replace.flush(), "");
  EXPECT_EQ(replace.push("b"), "b");  // and it can be used again
}

// Pushes `text` in the pieces that the bits of `cuts` say, bit i cutting before byte i + 1.
void expect_same_text(const std::string& text, uint64_t cuts, bool valid) {
  StreamDecoder replace(InvalidBytes::kReplace), keep(InvalidBytes::kKeep);
  std::string replaced, kept;
  size_t begin = 0;
  for (size_t end = 1; end <= text.size(); ++end) {
    if (end < text.size() && (cuts >> (end - 1) & 1) == 0) continue;
    const std::string_view piece = std::string_view(text).substr(begin, end - begin);
    const std::string out = replace.push(piece), raw = keep.push(piece);
    EXPECT_TRUE(is_valid_utf8(out));
    EXPECT_TRUE(!valid || is_valid_utf8(raw));
    replaced += out;
    kept += raw;
    begin = end;
  }
  replaced += replace.flush();
  kept += keep.flush();
  EXPECT_EQ(replaced, replace_invalid_utf8(text));
  EXPECT_EQ(kept, text);
}

TEST(StreamDecoder, EverySplitGivesTheSameText) {
  const std::string valid = "a\u00E9\u20AC\U0001F600\u4F60";  // 1, 2, 3, 4 and 3 bytes
  for (uint64_t cuts = 0; cuts < uint64_t{1} << (valid.size() - 1); ++cuts) expect_same_text(valid, cuts, true);
  const std::string broken = "\xC3\xE2\x82z\xF0\x9F\x98\xED\xA0\x80\xFF\xF4";
  for (uint64_t cuts = 0; cuts < uint64_t{1} << (broken.size() - 1); ++cuts) expect_same_text(broken, cuts, false);
}

TEST(StreamDecoder, RandomBytes) {
  static const unsigned char alphabet[] = {'a', 0x80, 0x9F, 0xA0, 0xBF, 0xC1, 0xC3, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF};
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t n = random.below(20); n > 0; --n) {
      text.push_back(static_cast<char>(alphabet[random.below(sizeof(alphabet))]));
    }
    expect_same_text(text, random.next(), false);
  }
}

}  // namespace
}  // namespace strata::text
