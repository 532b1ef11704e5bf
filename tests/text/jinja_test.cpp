// What the golden cases can't show: differences from Jinja2 on purpose, messages and positions, injected time, data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja_render.h"

namespace strata::text::jinja {
namespace {

using ::testing::HasSubstr;
using test::error_of;
using test::text_of;
using Json = nlohmann::ordered_json;

TEST(Jinja, IntegersHave64Bits) {
  EXPECT_EQ(text_of("{{ 9223372036854775807 }}"), "9223372036854775807");
  EXPECT_THAT(error_of("{{ 9223372036854775808 }}"), HasSubstr("fits 64 bits"));
  for (const char* source : {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 2 ** 63 }}",
                             "{{ 4611686018427387904 * 2 }}", "{{ -(-9223372036854775807 - 1) }}",
                             "{{ (-9223372036854775807 - 1) // -1 }}"}) {
    EXPECT_THAT(error_of(source), HasSubstr("does not fit 64 bits")) << source;
  }
  EXPECT_EQ(text_of("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_THAT(error_of("{{ (-9223372036854775807 - 1)|abs }}"), HasSubstr("64 bits"));
}

TEST(Jinja, NumbersOfJsonKeepTheirKind) {
  const Json data = {{"v", {1, -1, 1.0, 1e-5, 18446744073709551615ull, true, nullptr}}};
  EXPECT_EQ(text_of("{{ v }}", data), "[1, -1, 1.0, 1e-05, 1.8446744073709552e+19, True, None]");
  EXPECT_EQ(text_of("{{ v|tojson }}", data), "[1, -1, 1.0, 1e-05, 1.8446744073709552e+19, true, null]");
}

TEST(Jinja, ViewsPrintAsLists) {
  EXPECT_EQ(text_of("{{ {'a': 1}.items() }}{{ {'a': 1}.keys() }}"), "[('a', 1)]['a']");
  EXPECT_EQ(text_of("{{ {'a': 1}|items }}"), "[('a', 1)]");
}

TEST(Jinja, ListsCanBeAppendedTo) {
  EXPECT_EQ(text_of("{% set l = [] %}{% for i in range(3) %}{% set _ = l.append(i) %}{% endfor %}{{ l }}"),
            "[0, 1, 2]");
  EXPECT_THAT(error_of("{{ (1, 2).append(3) }}"), HasSubstr("tuple"));
}

TEST(Jinja, TimeIsTheGivenOne) {
  EXPECT_EQ(text_of("{{ strftime_now('%Y-%m-%d %-d %B %b %A %a %j %H:%M:%S %I %p %y %e%%') }}"),
            "2026-01-05 5 January Jan Monday Mon 005 09:07:00 09 AM 26  5%");
  EXPECT_THAT(error_of("{{ strftime_now('%1000000d') }}"), HasSubstr("unknown conversion"));
  EXPECT_THAT(error_of("{{ strftime_now('%') }}"), HasSubstr("unknown conversion"));
  EXPECT_THAT(error_of("{{ strftime_now('a' * 2000) }}"), HasSubstr("too long"));
}

TEST(Jinja, ErrorsNameTemplateLineAndColumn) {
  EXPECT_EQ(error_of("a\n  {{ x.y }}"), "test, line 2, column 7: undefined 'x' has no attribute 'y'");
  EXPECT_THAT(error_of("{{ 'é' }}{{ nosuch() }}"), HasSubstr("line 1, column 20: "));
  EXPECT_THAT(error_of("\r\n\r{% if x %}"), HasSubstr("line 3, column 1: the block has no {% endif %}"));
  EXPECT_THAT(error_of("{{ [1, }}"), HasSubstr("line 1, column 8: unexpected '}' where ']' is missing"));
  EXPECT_THAT(error_of("{{ 1 +"), HasSubstr("line 1, column 1: the tag is not closed"));
  EXPECT_THAT(error_of("x{# y"), HasSubstr("line 1, column 2: the comment is not closed"));
  EXPECT_THAT(error_of("{% set a = %}"), HasSubstr("line 1, column 12: the tag ends where an expression is expected"));
  EXPECT_THAT(error_of("{% macro f() %}\n{{ 1 / 0 }}{% endmacro %}\n\n{{ f() }}"),
              HasSubstr("line 2, column 6: division"));
}

TEST(Jinja, MessagesOfTemplatesReachTheCaller) {
  EXPECT_EQ(error_of("{{ raise_exception('roles must ' ~ 'alternate\n\x1b[31m') }}"),
            "test, line 1, column 19: the template refuses: roles must alternate??[31m");
}

TEST(Jinja, UnknownPartsFailOnlyWhereTheyAreUsed) {
  EXPECT_EQ(text_of("{% if false %}{{ 1|nosuch }}{{ 1 is nosuch }}{% endif %}ok"), "ok");
  EXPECT_THAT(error_of("{{ 1|nosuch }}"), HasSubstr("there is no filter 'nosuch'"));
  EXPECT_THAT(error_of("{{ 1 is nosuch }}"), HasSubstr("there is no test 'nosuch'"));
  EXPECT_THAT(error_of("{{ [1]|map('nosuch')|list }}"), HasSubstr("there is no filter 'nosuch'"));
  EXPECT_THAT(error_of("{{ [1]|select('nosuch')|list }}"), HasSubstr("there is no test 'nosuch'"));
}

TEST(Jinja, ArgumentsAreChecked) {
  EXPECT_THAT(error_of("{{ 'a'.replace('b') }}"), HasSubstr("replace() needs the argument 'new'"));
  EXPECT_THAT(error_of("{{ 'a'|trim(1) }}"), HasSubstr("trim: argument 'chars' must be a string, not an integer"));
  EXPECT_THAT(error_of("{{ 'a'|indent(q=1) }}"), HasSubstr("indent has no argument 'q'"));
  EXPECT_THAT(error_of("{{ 'a'|indent(1, width=1) }}"), HasSubstr("indent: argument 'width' is given twice"));
  EXPECT_THAT(error_of("{{ [1]|list(2) }}"), HasSubstr("list takes at most 0 arguments, not 1"));
  EXPECT_THAT(error_of("{{ 1|tojson(separators=1) }}"), HasSubstr("separators"));
  EXPECT_THAT(error_of("{{ range() }}"), HasSubstr("range() needs the argument 'start'"));
  EXPECT_EQ(text_of("{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1], **{'b': 2}) }}"), "12");
  EXPECT_THAT(error_of("{{ range(*5) }}"), HasSubstr("can't be iterated over"));
  EXPECT_THAT(error_of("{{ dict(**[1]) }}"), HasSubstr("must be a mapping"));
}

TEST(Jinja, RecursiveLoopsAreRefused) {
  EXPECT_THAT(error_of("{% for a in b recursive %}{% endfor %}"), HasSubstr("recursive loops are not supported"));
}

TEST(Jinja, TemplatesAreNotChangedByRendering) {
  const auto parsed =
      Template::parse("{% set a = 'x' %}{% for i in l %}{% set a = a ~ i %}{{ a }}{% endfor %}", "test");
  ASSERT_TRUE(parsed.ok());
  const Json list = {1, 2};
  for (int i = 0; i < 2; ++i) {
    const auto text = (*parsed)->render({{"l", &list}}, test::fixed_options());
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(text->bytes(), "x1x2");
  }
}

TEST(Jinja, InvalidUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(text_of("a\xFF{{ v|upper }}", {{"v", "\xC3z"}}), "a\uFFFD\uFFFDZ");
}

}  // namespace
}  // namespace strata::text::jinja
