// Filters of single values: defaults, numbers, JSON.
#include <charconv>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/jinja/filters/filter.h"
#include "text/jinja/notation.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {
namespace {

Value default_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool replaces = input.is_undefined() || (bound.flag(1, false) && !truthy(input));
  if (!replaces) return input;
  return bound.has(0) ? bound[0] : runtime.heap().text(std::string());
}

std::string_view number_text(const Value& value) {
  const std::string_view text = value.bytes();
  const Range kept = trimmed(text, Side::kBoth);
  std::string_view number = text.substr(kept.begin, kept.end - kept.begin);
  if (number.starts_with('+') && !number.starts_with("+-")) number.remove_prefix(1);
  return number;
}

template <class T, class... Format>
std::optional<T> parse(std::string_view text, Format... format) {
  T out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, format...);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<int64_t> whole(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> integer_of(std::string_view digits, int64_t base) {
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  const std::string_view prefix = base == 16 ? "xX" : base == 8 ? "oO" : base == 2 ? "bB" : "";
  if (digits.starts_with('0') && digits.size() > 1 && prefix.find(digits[1]) != std::string_view::npos) {
    digits.remove_prefix(2);
  }
  const auto magnitude = parse<uint64_t>(digits, static_cast<int>(base));
  const uint64_t largest = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (!magnitude || *magnitude > largest) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - *magnitude : *magnitude);
}

Value int_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  const Value fallback = bound.get(0, Value::integer(0));
  const int64_t base = bound.integer(1, 10);
  if (base < 2 || base > 36) fail("int: {} is not a base", base);
  if (input.is(Kind::kFloat)) {
    const auto number = whole(input.as_double());
    return number ? Value::integer(*number) : fallback;
  }
  if (input.is_number()) return Value::integer(input.as_int());
  if (!input.is_string()) return fallback;
  runtime.heap().look_at(input.text().size());
  const std::string_view text = number_text(input);
  if (const auto number = integer_of(text, base)) return Value::integer(*number);
  const auto real = parse<double>(text);
  const auto number = real ? whole(*real) : std::nullopt;
  return number ? Value::integer(*number) : fallback;
}

Value float_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  const Value fallback = bound.get(0, Value::number(0));
  if (input.is_number()) return Value::number(input.as_double());
  if (!input.is_string()) return fallback;
  runtime.heap().look_at(input.text().size());
  const auto number = parse<double>(number_text(input));
  return number ? Value::number(*number) : fallback;
}

Value abs_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  if (!input.is_number()) fail("abs takes a number, not {}", input.description());
  if (input.is(Kind::kFloat)) return Value::number(std::abs(input.as_double()));
  if (input.as_int() == INT64_MIN) fail("abs: the result does not fit 64 bits");
  return Value::integer(std::abs(input.as_int()));
}

Value round_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  if (!input.is_number()) fail("round takes a number, not {}", input.description());
  const std::string method = bound.has(1) ? to_text(runtime.heap(), bound[1]).bytes() : "common";
  const int64_t precision = bound.integer(0, 0);
  if (precision < -300 || precision > 300) fail("round: a precision of {} is too large", precision);
  if (method == "common" && precision >= 0 && !input.is(Kind::kFloat)) return Value::integer(input.as_int());
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_double() * scale;
  if (method == "common") return Value::number(std::nearbyint(scaled) / scale);
  if (method == "ceil") return Value::number(std::ceil(scaled) / scale);
  if (method == "floor") return Value::number(std::floor(scaled) / scale);
  fail("round: the method is 'common', 'ceil' or 'floor', not '{}'", printable(method, kMaxNameBytes));
}

void take_separators(const Value& given, JsonStyle& style) {
  if (given.is(Kind::kNull)) return;
  if (!given.is_list() || given.items().items.size() != 2 || !given.items().items[0].is_string() ||
      !given.items().items[1].is_string()) {
    fail("tojson: separators must be two strings, not {}", given.description());
  }
  style.item_separator = given.items().items[0].bytes();
  style.key_separator = given.items().items[1].bytes();
}

Value tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.has(1) && !bound[1].is(Kind::kNull)) {
    style.indented = true;
    style.item_separator = std::string(",");
    if (bound[1].is_string()) {
      style.indent = bound[1].bytes();
    } else {
      const int64_t width = bound.integer(1, 0);
      if (width > 1000) fail("tojson: an indent of {} is too large", width);
      style.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (bound.has(2)) take_separators(bound[2], style);
  return runtime.heap().text(to_json(runtime.heap(), input, style));
}

constexpr FilterRow kRows[] = {
    {"default", default_filter}, {"d", default_filter}, {"int", int_filter}, {"float", float_filter},
    {"abs", abs_filter},         {"round", round_filter}, {"tojson", tojson},
};

}  // namespace

std::span<const FilterRow> value_filters() { return kRows; }

}  // namespace strata::text::jinja
