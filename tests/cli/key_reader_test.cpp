// Goal: what a terminal sends becomes keys that the editor knows, whole characters and pasted text; nothing of the rest
// gets into a line.
#include "cli/chat/key_reader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "text/utf8.h"

namespace strata::cli {
namespace {

KeyReader reader_of(const std::string& bytes) {
  return KeyReader([bytes, at = size_t{0}]() mutable {
    return at < bytes.size() ? static_cast<unsigned char>(bytes[at++]) : -1;
  });
}

// Everything up to the end, as UTF-8.
std::string keys(KeyReader& reader) {
  std::string all;
  for (int32_t c; (c = reader.next()) != KeyReader::kEnd;) text::append_utf8(static_cast<uint32_t>(c), all);
  return all;
}

std::string keys(const std::string& bytes) {
  KeyReader reader = reader_of(bytes);
  return keys(reader);
}

TEST(KeyReader, CharactersComeWhole) {
  EXPECT_EQ(keys(""), "");
  EXPECT_EQ(keys("Gr\u00FC\u00DFe \U0001F60A\r\x01\x7F"), "Gr\u00FC\u00DFe \U0001F60A\r\x01\x7F");
}

TEST(KeyReader, KnownSequencesGoThroughAndOthersAreSwallowedWhole) {
  for (const char* known : {"\x1b[A", "\x1b[D", "\x1bOA", "\x1b[H", "\x1b[F", "\x1b[3~", "\x1b[1~", "\x1b[200~",
                            "\x1b" "b", "\x1b\x7f", "\x1b\u00E9"}) {
    EXPECT_EQ(keys(std::string("a") + known + "b"), std::string("a") + known + "b");
  }
  for (const char* unknown :
       {"\x1b[15~", "\x1b[1;5C", "\x1b[Z", "\x1b[201~", "\x1bOP", "\x1b[[A", "\x1b[?1;2c", "\x1b[24;80R", "\x1b[I",
        "\x1b[<0;10;20M", "\x1b]11;rgb:ffff/ffff/ffff\x07", "\x1b]0;title\x1b\\", "\x1b[ q", "\x1b\\",
        "\x1b[1111111111111111111111111111111111111111A"}) {
    EXPECT_EQ(keys(std::string("a") + unknown + "b"), "ab") << unknown + 1;
  }
}

TEST(KeyReader, ASequenceThatBreaksOffTakesNothingWithIt) {
  EXPECT_EQ(keys("a\x1b[1\x03z"), "a\x03z");
  EXPECT_EQ(keys("a\x1b[1\rz"), "a\rz");
  EXPECT_EQ(keys("a\x1b[1\u00E9z"), "a\u00E9z");
  EXPECT_EQ(keys("a\x1b[\x1b[Az"), "a\x1b[Az");
  EXPECT_EQ(keys("a\x1b\x1b[Az"), "a\x1b[Az");
  EXPECT_EQ(keys("a\x1bO\x03z"), "a\x03z");
  EXPECT_EQ(keys("a\x1b]text\rz"), "a\rz");
  EXPECT_EQ(keys("a\x1b\x03z"), "a\x03z");
  for (const char* ended : {"\x1b", "\x1b[", "\x1b[1", "\x1bO", "\x1b]1", "\x1b[["}) {
    EXPECT_EQ(keys(std::string("a") + ended), "a");
  }
}

// Nested without end, they need no stack.
TEST(KeyReader, EscapesInARow) {
  std::string bytes;
  for (int i = 0; i < 1'000'000; i++) bytes += "\x1b[";
  EXPECT_EQ(keys(bytes + "Az"), "\x1b[Az");
}

TEST(KeyReader, BytesThatAreNoCharacterAreShownAndNoted) {
  KeyReader reader = reader_of("a\xFF\xC3" "b\xE2\x82" "c\xF0\x9F\x98\x80");
  EXPECT_FALSE(reader.take_invalid());
  EXPECT_EQ(keys(reader), "a\uFFFD\uFFFD" "b\uFFFD\uFFFD" "c\U0001F600");
  EXPECT_TRUE(reader.take_invalid());
  EXPECT_FALSE(reader.take_invalid());
}

std::string paste(const std::string& bytes, std::string* after) {
  KeyReader reader = reader_of(bytes);
  const Result<std::string> pasted = reader.read_paste();
  EXPECT_TRUE(pasted.ok());
  *after = keys(reader);
  return pasted.ok() ? *pasted : "";
}

TEST(KeyReader, PastedTextKeepsItsLines) {
  std::string after;
  EXPECT_EQ(paste("one\rtwo\r\nthree\nfour\t\u00E9\x1b[201~\r", &after), "one\ntwo\nthree\nfour\t\u00E9");
  EXPECT_EQ(after, "\r");
  EXPECT_EQ(paste("\x1b[201~z", &after), "");
  EXPECT_EQ(after, "z");
  EXPECT_EQ(paste("a\x1b[31m\x07\x7f" "b\x1b[201\x1b[201~", &after), "a[31mb[201");
  EXPECT_EQ(after, "");
}

TEST(KeyReader, APasteWithoutEndIsLeftWithCtrlC) {
  std::string after;
  EXPECT_EQ(paste("never\rsent\x03z", &after), "");
  EXPECT_EQ(after, "\x03z");
  EXPECT_EQ(paste("the terminal is gone", &after), "");
  EXPECT_EQ(after, "");
}

TEST(KeyReader, APasteHasALimit) {
  const std::string longest(kMaxPasteBytes, 'x');
  std::string after;
  EXPECT_EQ(paste(longest + "\x1b[201~z", &after), longest);
  EXPECT_EQ(after, "z");
  for (const size_t more : {size_t{1}, kMaxPasteBytes, 3 * kMaxPasteBytes}) {
    KeyReader reader = reader_of(longest + std::string(more, 'x') + "\x1b[201~z");
    const Result<std::string> pasted = reader.read_paste();
    ASSERT_FALSE(pasted.ok()) << more;
    EXPECT_NE(pasted.error().message.find("longer than 1 MiB"), std::string::npos) << pasted.error().message;
    EXPECT_EQ(keys(reader), "z");
  }
}

// Whatever comes, text without escapes is given back as it is, and everything ends.
TEST(KeyReader, AnyBytesEnd) {
  EXPECT_TRUE(rc::check("any bytes end", [](const std::string& bytes) {
    const std::string all = keys(bytes);
    RC_ASSERT(text::is_valid_utf8(all));
    if (bytes.find('\x1b') == std::string::npos) RC_ASSERT(all == text::replace_invalid_utf8(bytes));
  }));
}

}  // namespace
}  // namespace strata::cli
