// Goal: what a model writes becomes the same text and calls however it is cut into pieces, in every dialect; what is no
// call stays text, to the last byte; truncated and broken calls are neither completed nor mixed.
#include "server/api/dialects/dialect.h"

#include <map>

#include <gtest/gtest.h>

#include "base/random.h"
#include "server/api/api_samples.h"
#include "server/api/answer_parser.h"

namespace strata::server {
namespace {

using K = AnswerEvent;

ToolSet tools() {
  return ToolSet(Json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}, "options": {"type": "object"},
      "note": {"type": ["string", "null"]}, "exact": {"type": "boolean"}}}}},
    {"type": "function", "function": {"name": "now"}}])"));
}

AnswerEvents merged(const AnswerEvents& events) {
  AnswerEvents out;
  for (const AnswerEvent& event : events) {
    const bool grows = event.kind == K::kText || event.kind == K::kArguments || event.kind == K::kReasoning;
    if (grows && !out.empty() && out.back().kind == event.kind) {
      out.back().text += event.text;
    } else {
      out.push_back(event);
    }
  }
  return out;
}

struct Outcome {
  AnswerEvents events;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  constexpr const char* kNames[] = {"reasoning", "text", "call", "arguments", "end"};
  for (const AnswerEvent& event : outcome.events) *out << "\n  " << kNames[event.kind] << " '" << event.text << "'";
}

Outcome parsed(const ToolDialect& dialect, const std::vector<std::string_view>& pieces, bool ended = true) {
  const ToolSet set = tools();
  const auto parser = dialect.make(set);
  AnswerEvents events;
  for (const std::string_view piece : pieces) parser->push(piece, events);
  parser->flush(ended, events);
  return {merged(events)};
}

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

std::vector<std::string_view> cut_into_characters(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0, begin = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && !begins_character(text[i + 1])) continue;
    pieces.push_back(text.substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  return pieces;
}

// Some pieces of random sizes.
std::vector<std::string_view> cut_at_random(std::string_view text, Random& random) {
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  for (const std::string_view character : cut_into_characters(text)) {
    const size_t end = static_cast<size_t>(character.data() - text.data()) + character.size();
    if (random.below(4) == 0 || end == text.size()) pieces.push_back(text.substr(begin, end - begin)), begin = end;
  }
  return pieces;
}

// K05: every place to cut at, every character by itself, and some cuts at random.
void expect_same_however_cut(const ToolDialect& dialect, std::string_view text, const Outcome& expected, bool ended) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (!begins_character(text[i])) continue;
    ASSERT_EQ(parsed(dialect, {text.substr(0, i), text.substr(i)}, ended), expected) << "cut at " << i;
  }
  ASSERT_EQ(parsed(dialect, cut_into_characters(text), ended), expected) << "in characters";
  Random random(7);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(parsed(dialect, cut_at_random(text, random), ended), expected) << i;
}

TEST(Dialects, ReadTheirCallsHoweverCut) {
  for (const DialectSample& sample : dialect_samples()) {
    SCOPED_TRACE(std::string(sample.dialect->name) + ": " + sample.text);
    const Outcome whole = parsed(*sample.dialect, {sample.text}, sample.ended);
    ASSERT_EQ(whole, Outcome{sample.events});
    expect_same_however_cut(*sample.dialect, sample.text, whole, sample.ended);
  }
}

TEST(Dialects, CompleteCallsHaveArgumentsThatParse) {
  int n = 0;
  for (const DialectSample& sample : dialect_samples()) {
    const AnswerEvents& events = sample.events;
    for (size_t i = 1; i < events.size(); ++i) {
      if (events[i].kind != K::kCallEnd || events[i - 1].kind != K::kArguments) continue;
      if (sample.dialect == &kHarmonyTools && !events[i - 1].text.starts_with('{')) continue;
      EXPECT_TRUE(Json::accept(events[i - 1].text)) << events[i - 1].text;
      ++n;
    }
  }
  EXPECT_GT(n, 30);
}

// Text without any mark comes through as it is, in every dialect, white space included.
TEST(Dialects, LeaveTextAlone) {
  for (const std::string_view text :
       {"", " ", "\n\n", "plain", "a < b > c {d} [e] \"f\"", "  lead and trail \n", "{\"name\": \"unknown\", \"x\": 1}",
        "<tool> <function> <|im_end", "tool_call {}", "caf\xC3\xA9 \xF0\x9F\x98\x80 \xEF\xBD\x9C"}) {
    for (const ToolDialect* dialect : tool_dialects()) {
      SCOPED_TRACE(std::string(dialect->name) + ": " + std::string(text));
      const Outcome expected{text.empty() ? AnswerEvents{} : AnswerEvents{{K::kText, std::string(text)}}};
      ASSERT_EQ(parsed(*dialect, {text}), expected);
      expect_same_however_cut(*dialect, text, expected, true);
    }
  }
}

// All that was written comes out again as something: nothing crashes, nothing depends on the cuts. Answers are made of
// pieces of real ones, so that they get deep into the parsers.
TEST(Dialects, GarbageIsTheSameHoweverCut) {
  std::vector<std::string> words = {" ", "\n", "{", "}", "\"", "\\", ":", ",", "[", "1", "name", "x\xC3\xA9", "<", ">"};
  for (const ToolDialect* dialect : tool_dialects()) {
    for (const std::string_view mark : dialect->marks) words.emplace_back(mark);
  }
  for (const char* more : {"<function=now>", "<parameter=city>", "</parameter>", "</function>", "to=functions.now",
                           "{\"name\": \"now\", ", "\"arguments\": {", "now\n", "function"}) {
    words.emplace_back(more);
  }
  Random random(11);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (uint64_t n = random.below(14); n > 0; --n) text += words[random.below(words.size())];
    const bool ended = random.below(2) == 0;
    for (const ToolDialect* dialect : tool_dialects()) {
      SCOPED_TRACE(std::string(dialect->name) + ": " + text);
      const Outcome whole = parsed(*dialect, {text}, ended);
      ASSERT_EQ(parsed(*dialect, cut_into_characters(text), ended), whole);
      ASSERT_EQ(parsed(*dialect, cut_at_random(text, random), ended), whole);
    }
  }
}

// The longest that is kept back is what may still become something.
TEST(Dialects, GiveTextOutAtOnce) {
  const ToolSet set = tools();
  for (const ToolDialect* dialect : tool_dialects()) {
    const auto parser = dialect->make(set);
    AnswerEvents events;
    parser->push("abc", events);
    EXPECT_EQ(Outcome{events}, (Outcome{{{K::kText, "abc"}}})) << dialect->name;
  }
}

TEST(Dialects, StreamArgumentsAsTheyCome) {
  const ToolSet set = tools();
  const auto parser = kHermesTools.make(set);
  AnswerEvents events;
  parser->push("<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par", events);
  EXPECT_EQ(Outcome{events}, (Outcome{{{K::kCallBegin, "get_weather"}, {K::kArguments, "{\"city\": \"Par"}}}));
  events.clear();
  const auto xml = kQwenXmlTools.make(set);
  xml->push("<tool_call>\n<function=get_weather>\n<parameter=city>\nPar", events);
  EXPECT_EQ(Outcome{events}, (Outcome{{{K::kCallBegin, "get_weather"}, {K::kArguments, "{\"city\": \"Par"}}}));
}

// R04's neighbour: ten times the text takes about ten times the steps, whatever the text is. Steps are counted by
// growing the text until the work would be out of reach were it quadratic.
TEST(Dialects, AreLinearInTheText) {
  for (const std::string_view unit : {"<tool_call>", "<tool_call>{\"a\":\"", "<|start|>", " to=", "<", "{", "\n"}) {
    std::string text;
    while (text.size() < 400'000) text += unit;
    for (const ToolDialect* dialect : tool_dialects()) static_cast<void>(parsed(*dialect, {text}));
  }
}

TEST(Dialects, AreToldByTheirSigns) {
  const std::map<std::string, const ToolDialect*> templates = {
      {"<|start|>{{x}}<|channel|>y<|message|>", &kHarmonyTools},
      {"<tool_call>{{ name }}<arg_key>k</arg_key><arg_value>", &kGlmTools},
      {"<tool_call>\n<function=example>\n<parameter=p>", &kQwenXmlTools},
      {"<tool_call>\n{\"name\": ", &kHermesTools},
      {"<|start_header_id|> {% if message.tool_calls %}", &kLlama3Tools},
      {"<\xEF\xBD\x9Ctool\xE2\x96\x81" "call\xE2\x96\x81" "begin\xEF\xBD\x9C>"
       "<\xEF\xBD\x9Ctool\xE2\x96\x81sep\xEF\xBD\x9C>", &kDeepSeekTools},
      {"<|im_start|>{{ message.content }}", nullptr},
  };
  for (const auto& [source, dialect] : templates) EXPECT_EQ(find_tool_dialect(source), dialect) << source;
}

AnswerStyle style_of(const ToolSet& set, const char* reasoning, const ToolDialect& dialect) {
  AnswerStyle style{.dialect = &dialect, .tools = &set};
  for (const text::ReasoningStyle& known : text::reasoning_styles()) {
    if (known.name == reasoning) style.reasoning = &known;
  }
  EXPECT_NE(style.reasoning, nullptr);
  return style;
}

Outcome answered(const AnswerStyle& style, const std::vector<std::string_view>& pieces, bool ended = true) {
  AnswerParser parser(style);
  AnswerEvents events;
  for (const std::string_view piece : pieces) parser.push(piece, events);
  parser.flush(ended, events);
  return {merged(events)};
}

// K02
TEST(Answers, ACallInsideReasoningThatNeverEndsIsACall) {
  const ToolSet set = tools();
  const AnswerStyle style = style_of(set, "think", kHermesTools);
  const std::string text = "<think>I call it. <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  const Outcome expected{{{K::kReasoning, text.substr(7)},
                          {K::kCallBegin, "now"},
                          {K::kArguments, "{}"},
                          {K::kCallEnd, ""}}};
  EXPECT_EQ(answered(style, {text}), expected);
  for (size_t i = 1; i < text.size(); ++i) {
    ASSERT_EQ(answered(style, {text.substr(0, i), std::string_view(text).substr(i)}), expected) << i;
  }
  // Cut by a limit, or not complete: no call.
  EXPECT_EQ(answered(style, {text}, false).events.size(), 1u);
  EXPECT_EQ(answered(style, {"<think>x <tool_call>{\"name\": \"now\", \"argum"}).events.size(), 1u);
  // Reasoning that ends: what stands in it stays there.
  const Outcome ends = answered(style, {text + "</think>done"});
  EXPECT_EQ(ends, (Outcome{{{K::kReasoning, text.substr(7)}, {K::kText, "done"}}}));
}

TEST(Answers, OneCallOnlyWhereThatIsAskedFor) {
  const ToolSet set = tools();
  AnswerStyle style = style_of(set, "think", kHermesTools);
  const std::string call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>\n";
  EXPECT_EQ(answered(style, {call + call}).events.size(), 6u);
  style.one_call = true;
  EXPECT_EQ(answered(style, {call + call + "text"}).events.size(), 3u);
}

// Harmony as a whole: reasoning, a word to the user, two calls, the first left open (K04).
TEST(Answers, HarmonyChannelsAreToldApart) {
  const ToolSet set = tools();
  const AnswerStyle style = style_of(set, "harmony", kHarmonyTools);
  const std::string text =
      "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>commentary<|message|>Let me look.<|end|>"
      "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"P"
      "<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|end|>"
      "<|start|>assistant<|channel|>final<|message|>Done.";
  const Outcome expected{{{K::kReasoning, "think"},
                          {K::kText, "Let me look."},
                          {K::kCallBegin, "get_weather"},
                          {K::kArguments, "{\"city\": \"P"},
                          {K::kCallBegin, "now"},
                          {K::kArguments, "{}"},
                          {K::kCallEnd, ""},
                          {K::kText, "Done."}}};
  EXPECT_EQ(answered(style, {text}), expected);
  for (size_t i = 1; i < text.size(); ++i) {
    ASSERT_EQ(answered(style, {text.substr(0, i), std::string_view(text).substr(i)}), expected) << i;
  }
}

}  // namespace
}  // namespace strata::server
