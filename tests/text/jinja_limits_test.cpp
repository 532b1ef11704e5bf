// Goal: no template and no data can crash, hang or exhaust the process (fault C02 below HTTP: the engine is a sandbox).
// Method: one hostile template per way to get large, deep or slow; each must end with one line that names the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja_render.h"

namespace strata::text::jinja {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using test::error_of;
using test::text_of;
using Json = nlohmann::ordered_json;

std::string repeated(const std::string& text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

Limits small() { return {.steps = 200'000, .output_bytes = kMiB, .memory_bytes = 8 * kMiB, .list_items = 10'000}; }

TEST(JinjaLimits, C02NoAttributesBeyondData) {
  EXPECT_THAT(error_of("{{ ''.__class__.__mro__ }}"), HasSubstr("'__class__' of a string is out of bounds"));
  for (const char* object : {"''", "1", "1.5", "true", "none", "[]", "(1,)", "{}", "range", "namespace()", "cycler(1)",
                             "''.upper", "joiner()"}) {
    for (const char* name : {"__class__", "__globals__", "__init__", "__subclasses__"}) {
      EXPECT_THAT(error_of(std::string("{{ (") + object + ")." + name + " }}"), HasSubstr("out of bounds")) << object;
      EXPECT_THAT(error_of(std::string("{{ (") + object + ")['" + name + "'] }}"), HasSubstr("out of bounds"))
          << object;
    }
  }
  EXPECT_THAT(error_of("{{ '{0.__class__}'.format(1) }}"), HasSubstr("out of bounds"));
  EXPECT_THAT(error_of("{{ [1]|map(attribute='__class__')|list }}"), HasSubstr("out of bounds"));
  EXPECT_EQ(text_of("{{ d.__class__ }}", {{"d", {{"__class__", "data"}}}}), "data");
}

TEST(JinjaLimits, C02LongRanges) {
  EXPECT_THAT(error_of("{{ range(10**9)|length }}"), HasSubstr("more than 1000000 items"));
  EXPECT_THAT(error_of("{{ range(-9223372036854775807, 9223372036854775807)|length }}"), HasSubstr("items"));
  EXPECT_EQ(text_of("{{ range(9223372036854775806, 9223372036854775807, 5) }}"), "[9223372036854775806]");
}

TEST(JinjaLimits, C02NestedSources) {
  EXPECT_THAT(error_of("{{ " + repeated("(", 1'000'000) + repeated(")", 1'000'000) + " }}"), HasSubstr("too large"));
  for (const auto& [open, middle, close] : std::vector<std::array<std::string, 3>>{
           {"(", "1", ")"}, {"[", "", "]"}, {"{'a':", "1", "}"}, {"f(", "", ")"}, {"a[", "0", "]"}, {"-", "1", ""},
           {"not ", "1", ""}, {"1 if 1 else ", "1", ""}, {"a|f(", "", ")"}, {"a is f(", "", ")"}, {"a[1:", "1", "]"}}) {
    const std::string source = "{{ " + repeated(open, 50'000) + middle + repeated(close, 50'000) + " }}";
    EXPECT_THAT(error_of(source), AnyOf(HasSubstr("nested more than"), HasSubstr("one on another"))) << open;
  }
  for (const char* link : {"+1", "~1", "*1", "**1", " and 1", " or 1", ".a", "[0]", "()", "|e", " is string", "-1"}) {
    EXPECT_THAT(error_of("{{ a" + repeated(link, 50'000) + " }}"), HasSubstr("operations one on another")) << link;
  }
  EXPECT_THAT(error_of(repeated("{% if 1 %}", 20'000)), HasSubstr("nested more than"));
  EXPECT_THAT(error_of(repeated("{% for i in a %}", 20'000)), HasSubstr("nested more than"));
  EXPECT_THAT(error_of("{% set " + repeated("(", 50'000) + "a" + repeated(")", 50'000) + " = 1 %}"),
              HasSubstr("nested more than"));
  // Flat chains may be long.
  EXPECT_EQ(text_of("{% if 0 %}" + repeated("{% elif 0 %}", 20'000) + "{% else %}x{% endif %}"), "x");
  EXPECT_EQ(text_of("{{ 1" + repeated(" < 2", 1) + repeated(" <= 2", 20'000) + " }}"), "True");
}

TEST(JinjaLimits, C02NestedData) {
  Json deep = 1;
  for (int i = 0; i < 300; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THAT(error_of("{{ v }}", {{"v", deep}}), HasSubstr("nested more than"));
  const std::string grow =
      "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}";
  for (const char* use : {"ns.l", "ns.l|tojson", "ns.l == [ns.l]", "ns.l < [ns.l]", "ns.l|string"}) {
    EXPECT_THAT(error_of(grow + "{{ " + use + " }}"), HasSubstr("nested more than")) << use;
  }
  for (const char* use : {"l", "l|tojson", "l == [l]"}) {
    EXPECT_THAT(error_of(std::string("{% set l = [] %}{% set _ = l.append(l) %}{{ ") + use + " }}"),
                HasSubstr("nested more than"))
        << use;
  }
}

TEST(JinjaLimits, C02Recursion) {
  EXPECT_THAT(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("evaluation is nested more than"));
  EXPECT_THAT(error_of("{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}"
                       "{% endmacro %}{{ g() }}"),
              HasSubstr("evaluation is nested more than"));
  EXPECT_EQ(text_of("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% else %}end{% endif %}{% endmacro %}{{ f(60) }}"),
            "end");
}

TEST(JinjaLimits, C02Steps) {
  const std::string loops = "{% for a in r %}{% for b in r %}{% for c in r %}{% endfor %}{% endfor %}{% endfor %}";
  EXPECT_THAT(error_of("{% set r = range(1000) %}" + loops), HasSubstr("more than 10000000 steps"));
  EXPECT_THAT(error_of("{% set l = [1] %}{% for i in l %}{% set _ = l.append(i) %}{% endfor %}"
                       "{% for i in range(100) %}{% set l = l + l %}{% for a in range(9000) %}{{ l == l }}"
                       "{% endfor %}{% endfor %}",
                       Json::object(), small()),
              HasSubstr("steps"));
  // Looking at long texts counts, too.
  EXPECT_THAT(error_of("{% set t = 'a' * 1000000 %}{% for i in range(9000) %}{{ 'b' in t }}{% endfor %}",
                       Json::object(), small()),
              HasSubstr("steps"));
}

TEST(JinjaLimits, C02OutputAndMemory) {
  EXPECT_THAT(
      error_of("{% set t = 'a' * 1000 %}{% for i in range(9000) %}{{ t }}{% endfor %}", Json::object(), small()),
      HasSubstr("writes more than 1 MiB"));
  const char* const large[] = {
      "{{ 'a' * 1000000000 }}",
      "{{ ([1] * 5000) * 100000 }}",
      "{% set ns = namespace(t='ab') %}{% for i in range(100) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
      "{% set ns = namespace(t='ab') %}{% for i in range(100) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
      "{% set ns = namespace(t='aa') %}{% for i in range(100) %}{% set ns.t = ns.t|replace('a', ns.t) %}{% endfor %}",
      "{% set ns = namespace(t='a') %}{% for i in range(100) %}{% set ns.t = ns.t.join([ns.t, ns.t]) %}{% endfor %}",
      "{% set ns = namespace(t=[1]) %}{% for i in range(100) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
      "{% set ns = namespace(t=[1]) %}{% for i in range(100) %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.t }}",
      "{% set ns = namespace(t='a') %}{% for i in range(100) %}{% set ns.t = '%s%s' % (ns.t, ns.t) %}{% endfor %}",
      "{% set ns = namespace(t='a') %}{% for i in range(100) %}{% set ns.t = '{0}{0}'.format(ns.t) %}{% endfor %}",
      "{% set ns = namespace(t='<') %}{% for i in range(100) %}{% set ns.t = (ns.t|e) ~ ns.t|e %}{% endfor %}",
      "{% set ns = namespace(t='a\\nb') %}{% for i in range(100) %}{% set ns.t = ns.t|indent(ns.t) %}{% endfor %}",
      "{{ 'a\\na'|indent(1000000000) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%.1000000000f' % 1 }}",
      "{{ '%*d' % (1000000000, 1) }}",
      "{{ [1]|batch(1000000000, 0) }}",
      "{{ [1]|tojson(indent=1000000000) }}",
      "{% for i in range(9000) %}{% for c in 'a' * 1000 %}{% endfor %}{% endfor %}",
      "{% set ns = namespace() %}{% for i in range(9000) %}{% set ns.t = ('a' * 2000).split('a') %}{% endfor %}",
      "{% set d = {} %}{% for i in range(9000) %}{% set e = dict(d, a='x' * 5000) %}{% endfor %}",
      "{% for i in range(9000) %}{% macro f() %}{% endmacro %}{% for k in range(100) %}{% macro g() %}{% endmacro %}"
      "{% endfor %}{% endfor %}",
  };
  for (const char* source : large) {
    EXPECT_THAT(error_of(source, Json::object(), small()),
                AnyOf(HasSubstr("of memory"), HasSubstr("steps"), HasSubstr("items"), HasSubstr("too large")))
        << source;
  }
}

TEST(JinjaLimits, MessagesStayOnOneShortLine) {
  const std::string name = "a" + repeated("b", 100'000);
  for (const std::string& source : std::vector<std::string>{
           "{{ " + name + ".x }}", "{{ 1|" + name + " }}", "{% " + name + " %}",
           "{{ x." + name + ".y }}", "{{ f(" + name + "=1 2) }}", "{{ 'a\n'.format(\x01) }}",
           "{{ range(" + name + "=1) }}", "{{ raise_exception('" + name + "') }}",
           "{{ 1" + name + " }}", "{{ 0x" + name + " }}", "{{ '{" + name + "}'.format() }}"}) {
    const std::string message = error_of(source);
    EXPECT_LT(message.size(), 1200u);
    EXPECT_THAT(message, Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace strata::text::jinja
