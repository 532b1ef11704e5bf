// The reasoning splitter: the same parts for every way of cutting the text, and the rules of reasoning.h.
#include "text/reasoning.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using Make = std::function<std::unique_ptr<ReasoningSplitter>()>;

const ReasoningStyle& style(std::string_view name) {
  for (const ReasoningStyle& row : reasoning_styles()) {
    if (row.name == name) return row;
  }
  ADD_FAILURE() << "no style " << name;
  return reasoning_styles().front();
}
Make maker(std::string_view name, bool inside) {
  return [name, inside] { return style(name).make(style(name), inside); };
}

// "(reasoning)answer", in order of the events.
std::string run(const Make& make, const std::vector<std::string>& pieces) {
  std::vector<TextEvent> events;
  const auto splitter = make();
  for (const std::string& piece : pieces) splitter->push(piece, events);
  splitter->flush(events);
  std::string text;
  for (const TextEvent& event : events) {
    EXPECT_FALSE(event.text.empty());
    text += event.part == TextPart::kReasoning ? "(" + event.text + ")" : event.text;
  }
  return text;
}

// R01: cut in two and in three everywhere, and byte by byte.
void expect_parts(const Make& make, const std::string& text, const std::string& wanted) {
  SCOPED_TRACE(text);
  EXPECT_EQ(run(make, {text}), wanted);
  for (size_t a = 0; a <= text.size(); ++a) {
    for (size_t b = a; b <= text.size(); b += 5) {
      ASSERT_EQ(run(make, {text.substr(0, a), text.substr(a, b - a), text.substr(b)}), wanted) << a << " " << b;
    }
  }
  std::vector<std::string> bytes;
  for (const char byte : text) bytes.emplace_back(1, byte);
  EXPECT_EQ(run(make, bytes), wanted);
}

TEST(ReasoningTags, SplitAtEveryCut) {
  const Make make = maker("think", false);
  expect_parts(make, "<think>\nI see.\n\nYes \n</think>\n\nanswer  \n", "(I see.\n\nYes)answer  \n");
  expect_parts(make, "\n <think>a</think>b", "(a)b");
  expect_parts(make, "<think>a</think>\n<think> b </think>c", "(ab)c");
  expect_parts(make, "<think>\n\n</think>\n\nanswer", "answer");
  expect_parts(make, "<think>a < b </thin </</think>c", "(a < b </thin </)c");
  expect_parts(make, "<think><think>a</think>b", "(<think>a)b");
  expect_parts(make, "answer", "answer");
  expect_parts(make, " \n answer \n", " \n answer \n");
  expect_parts(make, "", "");
  expect_parts(make, "<think>\u6771\u4eac</think>\u00e9", "(\u6771\u4eac)\u00e9");
}

TEST(ReasoningTags, PromptMayHaveOpenedTheBlock) {
  const Make make = maker("think", true);
  expect_parts(make, "\nwell\n</think>\n\nanswer", "(well)answer");
  expect_parts(make, "</think>answer", "answer");
  expect_parts(make, "secret</think>ANSWER", "(secret)ANSWER");  // R02
  expect_parts(make, "never closed \n", "(never closed \n)");
  expect_parts(make, " \n", "");
  expect_parts(make, "cut off \n</thi", "(cut off \n</thi)");  // R07's kind
}

// R02: the longest that is held back is a real beginning of a tag.
TEST(ReasoningTags, HoldBackOnlyWhatMayBecomeATag) {
  std::vector<TextEvent> events;
  const auto given = [&](ReasoningSplitter& splitter, std::string_view text) {
    events.clear();
    splitter.push(text, events);
    return events.empty() ? std::string() : events.back().text;
  };
  const auto inside = maker("think", true)();
  EXPECT_EQ(given(*inside, "a < b"), "a < b");
  EXPECT_EQ(given(*inside, "<"), "");
  EXPECT_EQ(given(*inside, "t"), "<t");  // "<t" begins the opener, which says nothing in here
  const auto outside = maker("think", false)();
  EXPECT_EQ(given(*outside, "<th"), "");
  EXPECT_EQ(given(*outside, "e"), "<the");
  EXPECT_EQ(given(*outside, " <thin"), " <thin");
}

// R05, as documented: dropped in front of the answer, shown within it, never both.
TEST(ReasoningTags, OrphanTags) {
  const Make make = maker("think", false);
  expect_parts(make, "</think>answer", "answer");
  expect_parts(make, " </think>\n\nanswer", "answer");
  expect_parts(make, "<think>a</think></think>b", "(a)b");
  expect_parts(make, "Write </think> to end it.", "Write </think> to end it.");
  expect_parts(make, "Write <think> to begin.</think>", "Write <think> to begin.</think>");
  expect_parts(make, "<think>a</think>use </think> and <think>", "(a)use </think> and <think>");
  expect_parts(make, "x</think", "x</think");
  expect_parts(make, "</think", "</think");
}

TEST(ReasoningTags, OfAnyText) {
  const auto own = [](bool inside) {
    return [inside] { return std::move(make_tag_splitter("[[", "]]", inside)).value(); };
  };
  expect_parts(own(false), "[[a]b]]c", "(a]b)c");
  expect_parts(own(true), "a]]]c", "(a)]c");
  for (const auto& [opener, closer] : std::vector<std::pair<std::string, std::string>>{
           {"", "x"}, {"x", ""}, {"x", "x"}, {"x", "xy"}, {" x", "y"}, {"x", "\ny"}, {std::string(65, 'x'), "y"}}) {
    const auto made = make_tag_splitter(opener, closer, false);
    ASSERT_FALSE(made.ok()) << opener << " " << closer;
    EXPECT_EQ(made.error().code, ErrorCode::kBadInput);
  }
}

TEST(ReasoningChannels, SplitAtEveryCut) {
  const Make make = maker("harmony", false);
  expect_parts(make,
               "<|channel|>analysis<|message|>Hm, \n<|end|><|start|>assistant<|channel|>final<|message|> Yes. ",
               "(Hm, \n) Yes. ");
  expect_parts(make, "<|channel|>commentary<|message|>I look.<|end|>", "I look.");
  expect_parts(make, "<|start|>assistant<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "(a)b");
  expect_parts(make, "<|message|>plain", "plain");
  expect_parts(make, "tomorrow <| end", "tomorrow <| end");
  expect_parts(make, "a<|end|>b", "ab");
  expect_parts(make, "<|channel|>analysis<|message|>1 <|mess <|en<|end|>", "(1 <|mess <|en)");
  expect_parts(make, "", "");
}

TEST(ReasoningChannels, PromptMayHaveOpenedTheMessage) {
  const Make make = maker("harmony", true);
  expect_parts(make, "a<|end|><|start|>assistant<|channel|>final<|message|>b", "(a)b");
  expect_parts(make, "a<|en", "(a<|en)");
}

TEST(ReasoningChannels, MessagesToToolsStayAsWritten) {
  const Make make = maker("harmony", false);
  const std::string call = "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{\"a\":1}";
  expect_parts(make, "<|channel|>analysis<|message|>x<|end|>" + call, "(x)" + call);
  expect_parts(make, call + "<|end|>" + call + "<|end|>", call + "<|end|>" + call + "<|end|>");
  const std::string short_call = " to=functions.f<|channel|>analysis <|constrain|>json<|message|>{}";
  expect_parts(make, short_call, short_call);
  expect_parts(make, short_call + "<|end|><|start|>assistant<|channel|>final<|message|>b", short_call + "<|end|>b");
}

// R08: no tail of a mark or header is shown.
TEST(ReasoningChannels, CutOffHeadersAreDropped) {
  const Make make = maker("harmony", false);
  expect_parts(make, "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>fin", "(a)");
  expect_parts(make, "<|channel|>final<|message|>a<|end|>", "a");
  const std::string lost = "<|start|>" + std::string(2000, 'x');
  for (const size_t cut : {0, 5, 1000, 1024, 1025, 1900}) {
    EXPECT_EQ(run(make, {lost.substr(0, cut), lost.substr(cut)}), lost);  // not a header
  }
}

// R04: what is held never grows with the text, so that no push can look at old text again.
TEST(Reasoning, HeldTextDoesNotGrow) {
  for (const char* name : {"think", "harmony"}) {
    const auto splitter = maker(name, true)();
    std::vector<TextEvent> events;
    size_t n_pushed = 0, n_given = 0;
    for (int i = 0; i < 200'000; ++i) {
      events.clear();
      const std::string_view piece = i % 2 == 0 ? "</th" : "a <|e";
      splitter->push(piece, events);
      n_pushed += piece.size();
      for (const TextEvent& event : events) n_given += event.text.size();
      ASSERT_LE(n_pushed - n_given, 8u);
    }
  }
}

TEST(Reasoning, WhiteSpaceOfAnyLengthIsKeptOrDroppedWhole) {
  const std::string space(300'000, '\n');
  EXPECT_EQ(run(maker("think", true), {"a" + space + "b" + space + "</think>" + space + "c" + space}),
            "(a" + space + "b)c" + space);
}

TEST(ReasoningStyles, AreToldByTemplateElseVocabulary) {
  test::TokenizerModel plain, thinking;
  thinking.add("<think>", TokenType::kUserDefined);
  thinking.add("</think>", TokenType::kUserDefined);
  const auto without = plain.must_load(), with = thinking.must_load();
  ASSERT_TRUE(without != nullptr && with != nullptr);
  const auto name = [](const ReasoningStyle* found) { return found == nullptr ? "none" : std::string(found->name); };
  EXPECT_EQ(name(find_reasoning_style("{{ '<think>\\n' + r + '</think>' }}", *without)), "think");
  EXPECT_EQ(name(find_reasoning_style("<|start|>x<|channel|>y<|message|> <think> </think>", *without)), "harmony");
  EXPECT_EQ(name(find_reasoning_style("[THINK]x[/THINK]", *without)), "bracket");
  EXPECT_EQ(name(find_reasoning_style("<seed:think>x</seed:think>", *without)), "seed");
  EXPECT_EQ(name(find_reasoning_style("only <think>", *without)), "none");
  EXPECT_EQ(name(find_reasoning_style("", *without)), "none");
  EXPECT_EQ(name(find_reasoning_style("", *with)), "think");
}

TEST(ReasoningStyles, PromptsThatOpenABlock) {
  const auto opened = [](std::string_view name, std::string_view prompt) {
    return style(name).opened_by(style(name), prompt);
  };
  EXPECT_TRUE(opened("think", "<|im_start|>assistant\n<think>\n"));
  EXPECT_TRUE(opened("think", "<think>"));
  EXPECT_FALSE(opened("think", "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opened("think", "user: what is <think> for"));
  EXPECT_FALSE(opened("think", ""));
  EXPECT_FALSE(opened("harmony", "<|start|>user<|message|>hi<|end|><|start|>assistant"));
  EXPECT_TRUE(opened("harmony", "<|start|>assistant<|channel|>analysis<|message|>"));
  EXPECT_TRUE(opened("harmony", "<|start|>assistant<|channel|>analysis<|message|>I begin"));
  EXPECT_FALSE(opened("harmony", "<|start|>assistant<|channel|>analysis<|message|>x<|end|>"));
  EXPECT_FALSE(opened("harmony", "<|start|>assistant<|channel|>final<|message|>"));
  EXPECT_FALSE(opened("harmony", "<|message|>"));
}

}  // namespace
}  // namespace strata::text
