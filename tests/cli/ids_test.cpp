#include "cli/ids.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cli/parse_ids.h"

namespace strata::cli {
namespace {

using test::parse_ids;

using Ids = std::vector<int32_t>;

TEST(ParseIds, TakesAnyWhiteSpace) {
  EXPECT_EQ(*parse_ids("", 10, "x"), Ids{});
  EXPECT_EQ(*parse_ids(" \n\t\r\v\f", 10, "x"), Ids{});
  EXPECT_EQ(*parse_ids("1 2\n3\t\t4\r\n5 ", 10, "x"), (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(*parse_ids("0 9 007", 10, "x"), (Ids{0, 9, 7}));
  EXPECT_EQ(*parse_ids("2147483647", int64_t{1} << 31, "x"), Ids{2147483647});
}

TEST(ParseIds, RefusesWhatIsNoIdByPlaceAndText) {
  for (const char* word : {"10", "-1", "+1", "1.0", "a", "1,", "0x1", "1e1", "2147483648", "99999999999999999999",
                           "\xff"}) {
    const auto ids = parse_ids(std::string("3 ") + word + " 4", 10, "ids.txt");
    ASSERT_FALSE(ids.ok()) << word;
    EXPECT_EQ(ids.error().code, ErrorCode::kBadInput);
    EXPECT_EQ(ids.error().message.find("ids.txt: entry 1, '"), 0u) << ids.error().message;
    EXPECT_NE(ids.error().message.find("0 to 9"), std::string::npos) << ids.error().message;
  }
  EXPECT_FALSE(parse_ids(std::string_view("1\0 2", 4), 10, "x").ok());
}

TEST(ParseIds, BlocksMayBeCutAnywhere) {
  const std::string text = " 12 345\n6 ";
  for (size_t i = 0; i <= text.size(); i++) {
    for (size_t j = i; j <= text.size(); j++) {
      IdParser parser(1000, "x");
      for (const std::string& block : {text.substr(0, i), text.substr(i, j - i), text.substr(j)}) {
        ASSERT_TRUE(parser.push(block).ok());
      }
      EXPECT_EQ(*parser.finish(), (Ids{12, 345, 6})) << i << " " << j;
    }
  }
}

// What has no end is not waited for.
TEST(ParseIds, AWordThatGoesOnIsRefusedWhenItIsTooLong) {
  IdParser parser(10, "x");
  const std::string block(1000, '0');
  const Status status = parser.push("1 " + block);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("entry 1, '0000"), std::string::npos) << status.error().message;
  EXPECT_LT(status.error().message.size(), 200u);
  EXPECT_EQ(*parse_ids(std::string(64, '0') + " 5", 10, "x"), (Ids{0, 5}));
  EXPECT_FALSE(parse_ids(std::string(65, '0'), 10, "x").ok());
}

TEST(ParseIds, ReadsBackWhatIsWritten) {
  EXPECT_TRUE(rc::check("text of ids parses to the ids", [] {
    const Ids ids = *rc::gen::container<Ids>(rc::gen::inRange(0, 1 << 20));
    RC_ASSERT(*parse_ids(ids_text(ids), 1 << 20, "x") == ids);
  }));
}

}  // namespace
}  // namespace strata::cli
