// Goal: JSON of strangers becomes the value that it is, wherever it is wrong this is said, and no shape of it takes
// time that grows faster than its size. Method: against nlohmann's own reader, and by the growth of processor time.
#include "text/json_reader.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/processor_time.h"

namespace strata::text {
namespace {

using Json = nlohmann::ordered_json;

std::string failure(std::string_view text, int max_depth = 8) {
  const auto json = read_json(text, max_depth);
  return json.ok() ? "read" : json.error().message;
}

// Text that is JSON more often than not; few names, so that members meet others of their name.
std::string random_json(Random& random, int depth) {
  const uint64_t kind = random.below(depth > 4 ? 6 : 9);
  switch (kind) {
    case 0: return "null";
    case 1: return random.below(2) == 0 ? "true" : "false";
    case 2: return std::to_string(static_cast<int64_t>(random.next()));
    case 3: return std::to_string(random.next());
    case 4: return "-1.5e" + std::to_string(random.below(320));
    case 5: return "\"a\\u00e9\\n\xc3\xa9\"";
    case 6: return random.below(20) == 0 ? "[1,]" : "[]";
    default: break;
  }
  const bool object = kind == 8;
  std::string text(1, object ? '{' : '[');
  for (uint64_t i = 0, n = random.below(5); i < n; ++i) {
    if (i > 0) text += " , ";
    if (object) text += "\"" + std::string(1, static_cast<char>('a' + random.below(3))) + "\" :\t";
    text += random_json(random, depth + 1);
  }
  return text + (object ? "}" : "]");
}

TEST(ReadJson, ReadsWhatTheUsualReaderReads) {
  Random random(11);
  int read = 0, with_equal_names = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_json(random, 0);
    const Json expected = Json::parse(text, nullptr, false);
    const auto json = read_json(text, 100);
    ASSERT_EQ(json.ok(), !expected.is_discarded()) << text;
    if (!json.ok()) continue;
    ++read;
    ASSERT_EQ(json->dump(), expected.dump()) << text;
    with_equal_names += text.find("\"a\"") != text.rfind("\"a\"") ? 1 : 0;
  }
  EXPECT_GT(read, 15'000);
  EXPECT_GT(with_equal_names, 500);
}

TEST(ReadJson, TakesTheLastOfEqualNames) {
  const auto json = read_json(R"({"b":1,"a":2,"b":{"c":3,"c":4},"d":5,"a":6})", 8);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->dump(), R"({"b":{"c":4},"a":6,"d":5})");
}

TEST(ReadJson, SaysWhereItGoesWrong) {
  EXPECT_EQ(failure(""), "is not JSON at line 1, column 1 (byte 0): it ends too early");
  EXPECT_EQ(failure("{\"a\": 1"), "is not JSON at line 1, column 8 (byte 7): it ends too early");
  const std::string check = ": check quotes, commas, brackets and that it is UTF-8";
  EXPECT_EQ(failure("{\"a\": x}"), "is not JSON at line 1, column 7 (byte 6)" + check);
  EXPECT_EQ(failure("{\n  \"a\": 1,\n  \"\xc3\xa9\" 2}"), "is not JSON at line 3, column 7 (byte 19)" + check);
  EXPECT_EQ(failure("{\"a\": \"\xFF\"}"), "is not JSON at line 1, column 8 (byte 7)" + check);
  EXPECT_EQ(failure("[1] 2"), "is not JSON at line 1, column 5 (byte 4)" + check);
  EXPECT_EQ(failure("[1e999]").find("is not JSON at line 1, column "), 0u) << failure("[1e999]");
  EXPECT_NE(failure("[1e999]").find("too large"), std::string::npos) << failure("[1e999]");
}

TEST(ReadJson, HasALimitOfDepth) {
  EXPECT_EQ(failure("[[[[[[[[1]]]]]]]]"), "read");
  EXPECT_EQ(failure("[[[[[[[[[1]]]]]]]]]"), "is nested more than 8 deep");
  EXPECT_EQ(failure("{\"a\":[{\"b\":[[[[[[1]]]]]]}]}"), "is nested more than 8 deep");
  EXPECT_EQ(failure(std::string(5'000'000, '[')), "is nested more than 8 deep");
}

// T08's kind: one object of many members. The usual reader took half a minute for a megabyte of them.
TEST(ReadJson, TakesLinearTimeForLargeObjects) {
  for (const size_t names : {size_t{1} << 40, size_t{3}}) {
    test::expect_linear_work("members", "x", [&](const std::string& size) {
      std::string text = "{";
      for (size_t i = 0; i * 12 < size.size(); ++i) text += "\"" + std::to_string(1'000'000 + i % names) + "\":0,";
      text.back() = '}';
      EXPECT_TRUE(read_json(text, 8).ok());
    });
  }
}

}  // namespace
}  // namespace strata::text
