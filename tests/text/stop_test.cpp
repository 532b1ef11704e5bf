// Stop strings as text streams: every way of cutting the text gives what a search of the whole text gives. And the
// guard against endless repetition.
#include "text/stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "text/detokenizer.h"
#include "text/repeat_guard.h"

namespace strata::text {
namespace {

struct Answer {
  std::string text;
  std::optional<size_t> matched;
  bool operator==(const Answer&) const = default;
};
void PrintTo(const Answer& answer, std::ostream* out) {
  *out << '"' << answer.text << "\", " << (answer.matched ? static_cast<int>(*answer.matched) : -1);
}

StopStrings make(const std::vector<std::string>& stops) {
  auto made = StopStrings::create(stops);
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

Answer run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopStrings stop = make(stops);
  Answer answer;
  for (const std::string& piece : pieces) answer.text += stop.push(piece);
  answer.text += stop.flush();
  answer.matched = stop.matched();
  return answer;
}

// The first end of any stop string, there the longest.
Answer whole(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool fits = !stops[i].empty() && std::string_view(text).substr(0, end).ends_with(stops[i]);
      if (fits && (!best || stops[i].size() > stops[*best].size())) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

// R01's kind: cut in two everywhere, byte by byte, and at random.
void expect_as_whole(const std::vector<std::string>& stops, const std::string& text) {
  SCOPED_TRACE(text);
  const Answer wanted = whole(stops, text);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(run(stops, {text.substr(0, cut), text.substr(cut)}), wanted) << cut;
  }
  std::vector<std::string> bytes;
  for (const char byte : text) bytes.emplace_back(1, byte);
  EXPECT_EQ(run(stops, bytes), wanted);
}

TEST(StopStrings, AnyCutGivesTheSame) {
  expect_as_whole({"</s>"}, "hello</s>world");
  expect_as_whole({"ab", "xabc"}, "1xabc2");          // "ab" is complete first
  expect_as_whole({"b", "ab", "aab"}, "caab");        // complete together: the longest
  expect_as_whole({"aab"}, "aaaab");
  expect_as_whole({"abab", "babb"}, "aababb");
  expect_as_whole({"", "x"}, "axb");
  expect_as_whole({}, "axb");
  expect_as_whole({"\n\n"}, "a\nb\n\n\nc");
  expect_as_whole({"x", "x"}, "axb");
  Random random(5);
  for (int round = 0; round < 500; ++round) {
    const auto word = [&](size_t n) {
      std::string text;
      for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + random.below(2));
      return text;
    };
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + random.below(4); ++i) stops.push_back(word(2 + random.below(6)));
    expect_as_whole(stops, word(random.below(30)));
  }
}

TEST(StopStrings, HoldBackOnlyWhatMayBecomeOne) {
  StopStrings stop = make({"</s>", "END"});
  EXPECT_EQ(stop.push("a < b"), "a < b");
  EXPECT_EQ(stop.push("<"), "");
  EXPECT_EQ(stop.push("/"), "");
  EXPECT_EQ(stop.push("p>E"), "</p>");
  EXPECT_EQ(stop.push("NE"), "EN");
  EXPECT_EQ(stop.push("ND tail"), "");
  EXPECT_EQ(stop.matched(), 1u);
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.flush(), "");
}

// R07: what is held when the answer ends belongs to it.
TEST(StopStrings, FlushGivesWhatWasHeld) {
  EXPECT_EQ(run({"assert"}, {"ple", "as"}), (Answer{"pleas", std::nullopt}));
  EXPECT_EQ(run({"ease!"}, {"pl", "ease"}), (Answer{"please", std::nullopt}));
}

// R11: the answer may be over with its first token.
TEST(StopStrings, MayMatchTheFirstToken) {
  EXPECT_EQ(run({"\n"}, {"\n"}), (Answer{"", 0}));
  EXPECT_EQ(run({"x", "\n"}, {"\nabc", "d"}), (Answer{"", 1}));
}

// F01: stops of several bytes a character, the characters cut between tokens. What is given out is whole characters.
TEST(StopStrings, CharactersOfSeveralBytes) {
  const std::string text = "\u6771\u4eac\u90fd\U0001F600\u00e9!";
  const std::vector<std::string> stops = {"\U0001F600\u00e9", "\u4eab"};  // the second shares two bytes of three
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    StreamDecoder decoder(InvalidBytes::kReplace);
    StopStrings stop = make(stops);
    std::string given;
    for (const std::string& piece : {text.substr(0, cut), text.substr(cut)}) {
      const std::string out = stop.push(decoder.push(piece));
      EXPECT_EQ(out.find("\uFFFD"), std::string::npos);
      given += out;
    }
    given += stop.push(decoder.flush()) + stop.flush();
    EXPECT_EQ(given, "\u6771\u4eac\u90fd") << cut;
    EXPECT_EQ(stop.matched(), 0u);
  }
}

// What it holds is bounded by the stop strings whatever it was given, so no push can look at old text again.
TEST(StopStrings, HeldTextDoesNotGrow) {
  const std::string stop_text = std::string(200, 'a') + "b";
  StopStrings stop = make({stop_text, "aaac"});
  size_t n_pushed = 0, n_given = 0;
  for (int i = 0; i < 200'000; ++i) {
    n_pushed += 4;
    n_given += stop.push("aaaa").size();
    ASSERT_LE(n_pushed - n_given, stop_text.size());
  }
  EXPECT_EQ(n_given + stop.flush().size(), n_pushed);
  EXPECT_FALSE(stop.matched());
}

TEST(StopStrings, LimitsAreSaid) {
  using ::testing::HasSubstr;
  const auto refused = [](const std::vector<std::string>& stops) {
    const auto made = StopStrings::create(stops);
    if (made.ok()) return std::string("accepted");
    EXPECT_EQ(made.error().code, ErrorCode::kBadInput);
    return made.error().message;
  };
  EXPECT_THAT(refused(std::vector<std::string>(257, "x")), HasSubstr("257"));
  EXPECT_THAT(refused({"a", std::string(1025, 'x')}), HasSubstr("stop string 1 has 1025 bytes; the limit is 1024"));
  EXPECT_THAT(refused({"\xff"}), HasSubstr("UTF-8"));
  EXPECT_EQ(refused({"\xc3"}), refused({"\xc3"}));
  EXPECT_EQ(refused(std::vector<std::string>(256, std::string(1024, 'x'))), "accepted");
}

// R10
TEST(RepeatGuard, EndsAtTheLimitOfOneTokenInARow) {
  RepeatGuard guard(256);
  for (int i = 0; i < 255; ++i) EXPECT_FALSE(guard.push(7));
  EXPECT_FALSE(guard.push(8));
  for (int i = 0; i < 255; ++i) EXPECT_FALSE(guard.push(7));
  EXPECT_TRUE(guard.push(7));
  RepeatGuard off(0);
  for (int i = 0; i < 10'000; ++i) EXPECT_FALSE(off.push(7));
  RepeatGuard first(1);
  EXPECT_TRUE(first.push(0));
}

}  // namespace
}  // namespace strata::text
