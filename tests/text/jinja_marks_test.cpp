// Goal: content stays marked through every operation that copies characters, and template text never becomes content.
// Method: the variable `c` is content; runs of the output are written as [content] and plain text.
#include <gtest/gtest.h>

#include "text/jinja_render.h"

namespace strata::text::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string marked(const std::string& source, const Json& content) {
  const auto text = test::render(source, {{"c", content}, {"t", "plain"}}, {"c"});
  if (!text.ok()) return "failed: " + text.error().message;
  std::string out;
  text->for_each_run([&](std::string_view run, bool is_content) {
    out += is_content ? "[" + std::string(run) + "]" : std::string(run);
  });
  return out;
}

TEST(JinjaMarks, FollowTheCharacters) {
  const std::pair<const char*, const char*> cases[] = {
      {"a{{ c }}b", "a[X y é]b"},
      {"{{ t }}", "plain"},
      {"{{ 'a' + c + 'b' }}", "a[X y é]b"},
      {"{{ 'a' ~ c ~ 1 }}", "a[X y é]1"},
      {"{{ c * 2 }}", "[X y éX y é]"},
      {"{{ ('a' + c)[1:3] }}", "[X ]"},
      {"{{ ('a' + c)[0] }}{{ c[0] }}", "a[X]"},
      {"{{ ('ab' + c)[::-1] }}", "[é y X]ba"},
      {"{{ ('a' + c)|upper }}{{ c|lower }}{{ ('ß' + c)|upper }}", "A[X Y Éx y é]SS[X Y É]"},
      {"{{ ('a ' + c)|title }}{{ ('a' + c)|capitalize }}", "A [X Y É]A[x y é]"},
      {"{{ ('  ' + c + '  ')|trim }}{{ ('  ' + c).strip() }}", "[X y éX y é]"},
      {"{{ c.split(' ')[0] + '-' + c.split(' ')[-1] }}", "[X]-[é]"},
      {"{{ c.replace(' ', '_') }}{{ 'a_b'|replace('_', c) }}", "[X]_[y]_[é]a[X y é]b"},
      {"{{ [c, 'b', c]|join(', ') }}{{ ','.join([c]) }}{{ ['a', 'b']|join(c) }}", "[X y é], b, [X y éX y é]a[X y é]b"},
      {"{{ 'a%sb%5s' % (c, 'q') }}{{ '{}-{}'.format('a', c) }}", "a[X y é]b    qa-[X y é]"},
      {"{{ c % () }}", "[X y é]"},
      {"{{ (c + '\\nb')|indent(2, true) }}", "  [X y é]\n  b"},
      {"{{ ('<' + c)|e }}", "&lt;[X y é]"},
      {"{{ c|safe }}{{ c|string }}{{ c|default('z') }}{{ (c, 'a')|first }}", "[X y éX y éX y éX y é]"},
      {"{% for x in c %}{{ x }},{% endfor %}", "[X],[ ],[y],[ ],[é],"},
      {"{{ c|list|last }}{{ c|reverse }}", "[éé y X]"},
      {"{% set q %}a{{ c }}b{% endset %}{{ q }}", "a[X y é]b"},
      {"{% macro m(v) %}a{{ v }}b{% endmacro %}{{ m(c) }}{{ m('z') }}", "a[X y é]bazb"},
      {"{% filter upper %}a{{ c }}b{% endfilter %}", "A[X Y É]B"},
      {"{% call(v) m2(c) %}{{ v }}{% endcall %}", "failed: test, line 1, column 1: undefined 'm2' can't be called"},
      {"{{ c.removeprefix('X') }}{{ c.splitlines()[0] }}", "[ y éX y é]"},
      {"{{ [c]|map('upper')|join }}{{ {'k': c}.k }}{{ {c: 'v'}|items|first|first }}", "[X Y ÉX y éX y é]"},
      {"{% set ns = namespace(a=c) %}{{ ns.a }}{{ [c]|sort|first }}{{ [c]|unique|first }}", "[X y éX y éX y é]"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(marked(source, "X y é"), expected) << source;
}

TEST(JinjaMarks, CoverDerivedTextsAsAWhole) {
  const Json content = {{"key", {"a", 1}}};
  EXPECT_EQ(marked("{{ c|tojson }}", content), R"([{"key": ["a", 1]}])");
  EXPECT_EQ(marked("{{ c }}", content), "[{'key': ['a', 1]}]");
  EXPECT_EQ(marked("{{ ['b', c.key[0]]|tojson }}", content), R"([["b", "a"]])");
  EXPECT_EQ(marked("{{ ['b', c.key[1]]|tojson }}", content), R"(["b", 1])");
}

TEST(JinjaMarks, CoverKeysOfContent) {
  EXPECT_EQ(marked("{% for k, v in c.items() %}<{{ k }}={{ v }}>{% endfor %}{% for k in c %}{{ k }}{% endfor %}",
                   {{"key", "a"}}),
            "<[key]=[a]>[key]");
}

TEST(JinjaMarks, DoNotCoverNumbersAndTruth) {
  EXPECT_EQ(marked("{{ c }}", 5), "5");
  EXPECT_EQ(marked("{{ c|length }}{{ c == 'abc' }}{{ c|int }}", "abc"), "3True0");
}

TEST(JinjaMarks, DoNotChangeComparisons) {
  EXPECT_EQ(marked("{{ c == 'abc' and c in ['abc'] and {'abc': 1}[c] == 1 and 'b' in c and c < 'abd' }}", "abc"),
            "True");
}

TEST(JinjaMarks, TrustedStringsAreText) {
  auto options = test::fixed_options();
  options.is_trusted = [](std::string_view key, std::string_view text) { return key == "role" && text == "user"; };
  const Json data = {{"c", {{{"role", "user"}, {"content", "user"}}, {{"role", "other"}, {"content", ""}}}}};
  const auto text = test::render("{% for m in c %}{{ m.role }}{{ m.content }};{% endfor %}", data, {"c"}, options);
  ASSERT_TRUE(text.ok());
  std::string content;
  text->for_each_run(
      [&](std::string_view run, bool is_content) { content += is_content ? std::string(run) + "|" : ""; });
  EXPECT_EQ(content, "user|other|");
}

}  // namespace
}  // namespace strata::text::jinja
