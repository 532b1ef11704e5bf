// Filters of texts. Their input may be any value, which is then taken as str() gives it.
#include "text/jinja/filters/filter.h"
#include "text/jinja/notation.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/texts.h"
#include "text/jinja/methods/format.h"

namespace strata::text::jinja {
namespace {

const MarkedText& text_of(Runtime& runtime, const Value& input) { return to_string(runtime.heap(), input).text(); }

template <Value (*change)(Heap&, const MarkedText&)>
Value changed(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter", arguments, {});
  return change(runtime.heap(), text_of(runtime, input));
}

Value trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  const bool by_set = bound.has(0) && !bound[0].is(Kind::kNull);
  return trim_text(runtime.heap(), text_of(runtime, input), Side::kBoth, by_set ? &bound.text(0) : nullptr);
}

Value string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return to_string(runtime.heap(), input);
}

Value safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  return to_string(runtime.heap(), input);
}

Value replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const bool limited = bound.has(2) && !bound[2].is(Kind::kNull);
  return replace_text(runtime.heap(), text_of(runtime, input), text_of(runtime, bound[0]), text_of(runtime, bound[1]),
                      limited ? bound.integer(2, -1) : -1);
}

Value indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  const MarkedText& text = text_of(runtime, input);
  MarkedText indentation;
  if (bound.has(0) && bound[0].is_string()) {
    indentation = bound.text(0);
  } else {
    TextBuilder blanks(runtime.heap());
    blanks.pad(bound.integer(0, 4), ' ');
    indentation = blanks.take();
  }
  TextBuilder out(runtime.heap());
  for (size_t begin = 0;;) {
    runtime.heap().step();
    const size_t end = std::min(text.bytes().find('\n', begin), text.size());
    const bool indents = begin == 0 ? bound.flag(1, false) : end > begin || bound.flag(2, false);
    if (indents) out.append(indentation);
    if (end == text.size()) {
      out.append(text, begin, end);
      return out.finish();
    }
    out.append(text, begin, end + 1);
    begin = end + 1;
  }
}

Value escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("escape", arguments, {});
  const MarkedText& text = text_of(runtime, input);
  runtime.heap().take_memory(text.size() * 5);
  return change_runs(runtime.heap(), text, [](std::string_view run) {
    std::string out;
    for (const char c : run) {
      switch (c) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&#34;"; break;
        case '\'': out += "&#39;"; break;
        default: out += c;
      }
    }
    return out;
  });
}

Value format_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (arguments.named.empty()) {
    return format_percent(runtime.heap(), text_of(runtime, input), runtime.heap().tuple(arguments.positional));
  }
  if (!arguments.positional.empty()) fail("format takes values with names or without, not both");
  Dict* values = runtime.heap().dict();
  for (const auto& [name, value] : arguments.named) {
    runtime.heap().set(*values, runtime.heap().text(name), value);
  }
  return format_percent(runtime.heap(), text_of(runtime, input), Value::dict(values));
}

constexpr FilterRow kRows[] = {
    {"trim", trim},
    {"string", string},
    {"safe", safe},
    {"upper", changed<upper_text>},
    {"lower", changed<lower_text>},
    {"title", changed<jinja_title>},
    {"capitalize", changed<capitalized>},
    {"replace", replace},
    {"indent", indent},
    {"escape", escape},
    {"e", escape},
    {"format", format_filter},
};

}  // namespace

std::span<const FilterRow> text_filters() { return kRows; }

}  // namespace strata::text::jinja
