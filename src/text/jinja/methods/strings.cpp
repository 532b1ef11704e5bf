// Methods of strings. What is cut out of a text keeps its marks.
#include <algorithm>

#include "text/jinja/characters.h"
#include "text/jinja/methods/format.h"
#include "text/jinja/methods/method.h"
#include "text/jinja/runtime.h"
#include "text/jinja/texts.h"

namespace strata::text::jinja {
namespace {

template <Side side>
Value strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("strip()", arguments, {"chars"});
  if (!bound.has(0) || bound[0].is(Kind::kNull)) return trim_text(runtime.heap(), self.text(), side, nullptr);
  return trim_text(runtime.heap(), self.text(), side, &bound.text(0));
}

template <bool from_end>
Value split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("split()", arguments, {"sep", "maxsplit"});
  const int64_t most = bound.integer(1, -1);
  const bool by_space = !bound.has(0) || bound[0].is(Kind::kNull);
  return split_text(runtime.heap(), self.text(), {by_space ? nullptr : &bound.text(0), most, from_end});
}

Value split_lines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines()", arguments, {"keepends"});
  return split_text_lines(runtime.heap(), self.text(), bound.flag(0, false));
}

template <bool at_end>
Value has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound(at_end ? "endswith()" : "startswith()", arguments, {"prefix"}, 1);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      fail("{} takes strings, not {}", at_end ? "endswith()" : "startswith()", affix.description());
    }
    runtime.heap().look_at(affix.text().size());
    return at_end ? self.bytes().ends_with(affix.bytes()) : self.bytes().starts_with(affix.bytes());
  };
  if (!bound[0].is(Kind::kTuple)) return Value::boolean(matches(bound[0]));
  const auto& affixes = bound[0].items().items;
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

template <bool at_end>
Value remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound(at_end ? "removesuffix()" : "removeprefix()", arguments, {"affix"}, 1);
  const std::string& affix = bound.text(0).bytes();
  const size_t rest = self.text().size() - std::min(self.text().size(), affix.size());
  if (at_end && self.bytes().ends_with(affix)) return runtime.heap().text(self.text().slice(0, rest));
  if (!at_end && self.bytes().starts_with(affix)) {
    return runtime.heap().text(self.text().slice(affix.size(), self.text().size()));
  }
  return self;
}

Value replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("replace()", arguments, {"old", "new", "count"}, 2);
  return replace_text(runtime.heap(), self.text(), bound.text(0), bound.text(1), bound.integer(2, -1));
}

template <Value (*change)(Heap&, const MarkedText&)>
Value changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("the method", arguments, {});
  return change(runtime.heap(), self.text());
}

template <bool from_end>
Value find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("find()", arguments, {"sub"}, 1);
  const std::string_view text = self.bytes();
  runtime.heap().look_at(text.size());
  const std::string& what = bound.text(0).bytes();
  size_t at = find_text(text, what);
  for (size_t next = at; from_end && next != std::string_view::npos;) {
    at = next;
    runtime.heap().step();
    next = what.empty() && at == text.size() ? std::string_view::npos : find_text(text, what, at + 1);
  }
  return Value::integer(at == std::string_view::npos ? -1 : count_characters(text.substr(0, at)));
}

Value count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("count()", arguments, {"sub"}, 1);
  const std::string& what = bound.text(0).bytes();
  runtime.heap().look_at(self.text().size());
  if (what.empty()) return Value::integer(count_characters(self.bytes()) + 1);
  int64_t n = 0;
  for (size_t at = find_text(self.bytes(), what); at != std::string::npos; at = find_text(self.bytes(), what, at)) {
    runtime.heap().step();
    at += what.size();
    ++n;
  }
  return Value::integer(n);
}

Value join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("join()", arguments, {"iterable"}, 1);
  const std::vector<Value> items = iterate(runtime, bound[0]);
  for (const Value& item : items) {
    if (!item.is_string()) fail("join() takes strings, not {}", item.description());
  }
  return join_texts(runtime.heap(), items, self.text());
}

Value format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return format_braces(runtime, self.text(), arguments);
}

Value is_digits(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("isdigit()", arguments, {});
  runtime.heap().look_at(self.text().size());
  const std::string& text = self.bytes();
  return Value::boolean(!text.empty() && text.find_first_not_of("0123456789") == std::string::npos);
}

constexpr MethodRow kStringMethods[] = {
    {"strip", strip<Side::kBoth>},
    {"lstrip", strip<Side::kLeft>},
    {"rstrip", strip<Side::kRight>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", split_lines},
    {"startswith", has_affix<false>},
    {"endswith", has_affix<true>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"upper", changed<upper_text>},
    {"lower", changed<lower_text>},
    {"title", changed<python_title>},
    {"capitalize", changed<capitalized>},
    {"find", find<false>},
    {"rfind", find<true>},
    {"count", count},
    {"join", join},
    {"format", format_method},
    {"isdigit", is_digits},
};

}  // namespace

std::span<const MethodRow> string_methods() { return kStringMethods; }

}  // namespace strata::text::jinja
