#include "text/jinja/methods/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/characters.h"
#include "text/jinja/notation.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text_builder.h"
#include "text/utf8.h"

namespace strata::text::jinja {
namespace {

constexpr int64_t kMaxWidth = 10'000;
constexpr int kMaxPrecision = 100;

struct Conversion {
  std::string key;  // of %(key)s
  bool has_key = false;
  bool left = false, zero = false, plus = false, blank = false, alternate = false;
  int64_t width = 0;
  int precision = -1;
  char kind = 's';
};

class PercentFormatter {
 public:
  PercentFormatter(Heap& heap, const MarkedText& text, const Value& values)
      : heap_(heap), text_(text), rest_(text.bytes()), values_(values), out_(heap) {}

  Value run() {
    heap_.look_at(text_.size());
    for (size_t at = rest_.find('%'); at != std::string_view::npos; at = rest_.find('%')) {
      heap_.step();
      copy(at);
      rest_.remove_prefix(1);
      const Conversion conversion = read();
      if (conversion.kind == '%') {
        out_.append("%", false);
      } else {
        write(conversion, next(conversion));
      }
    }
    copy(rest_.size());
    if (!used_keys_ && values_.is(Kind::kTuple) && used_ < values_.items().items.size()) {
      fail("'%' formats {} of {} values", used_, values_.items().items.size());
    }
    if (!used_keys_ && !values_.is(Kind::kTuple) && !values_.is(Kind::kDict) && used_ == 0) {
      fail("'%' has a value, but the text has no place for it");
    }
    return out_.finish();
  }

 private:
  void copy(size_t n) {
    const size_t at = text_.size() - rest_.size();
    out_.append(text_, at, at + n);
    rest_.remove_prefix(n);
  }

  char take() {
    if (rest_.empty()) fail("'%' stands at the end of the text to format");
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }

  int64_t take_number(int64_t most) {
    if (rest_.starts_with('*')) {
      take();
      const Value value = next({});
      if (!value.is(Kind::kInt)) fail("'*' takes an integer, not {}", value.description());
      if (value.as_int() < 0 || value.as_int() > most) fail("a width of {} is too large", value.as_int());
      return value.as_int();
    }
    int64_t number = 0;
    while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') {
      number = number * 10 + (take() - '0');
      if (number > most) fail("a width or precision beyond {} is too large", most);
    }
    return number;
  }

  Conversion read() {
    Conversion out;
    if (rest_.starts_with('(')) {
      const size_t end = rest_.find(')');
      if (end == std::string_view::npos) fail("'%(' is not closed in the text to format");
      out.key = rest_.substr(1, end - 1);
      out.has_key = true;
      rest_.remove_prefix(end + 1);
    }
    for (bool flag = true; flag && !rest_.empty();) {
      switch (rest_[0]) {
        case '-': out.left = true; break;
        case '0': out.zero = true; break;
        case '+': out.plus = true; break;
        case ' ': out.blank = true; break;
        case '#': out.alternate = true; break;
        default: flag = false;
      }
      if (flag) take();
    }
    out.width = take_number(kMaxWidth);
    if (rest_.starts_with('.')) {
      take();
      out.precision = static_cast<int>(take_number(kMaxPrecision));
    }
    out.kind = take();
    return out;
  }

  Value next(const Conversion& conversion) {
    if (conversion.has_key) {
      used_keys_ = true;
      if (!values_.is(Kind::kDict)) fail("'%(key)' takes its value from a mapping, not {}", values_.description());
      const Value* found = values_.entries().find(conversion.key);
      if (found == nullptr) fail("there is no key '{}' to format", printable(conversion.key, kMaxNameBytes));
      return *found;
    }
    const size_t n = values_.is(Kind::kTuple) ? values_.items().items.size() : 1;
    if (used_ >= n) fail("'%' needs more than {} values", n);
    const size_t at = used_++;
    return values_.is(Kind::kTuple) ? values_.items().items[at] : values_;
  }

  void write(const Conversion& conversion, const Value& value) {
    switch (conversion.kind) {
      case 's': return write_padded(conversion, to_string(heap_, value).text());
      case 'r': return write_padded(conversion, notation(value));
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return write_integer(conversion, value);
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G': return write_float(conversion, value);
      case 'c': return write_character(conversion, value);
      default: fail("'%{}' is not a conversion", printable(std::string_view(&conversion.kind, 1)));
    }
  }

  // Python's notation of the value, as it stands in a list.
  MarkedText notation(const Value& value) {
    const MarkedText listed = to_text(heap_, heap_.list({value}));
    return listed.slice(1, listed.size() - 1);
  }

  void write_padded(const Conversion& conversion, const MarkedText& text) {
    size_t end = text.size();
    if (conversion.precision >= 0) {
      const std::vector<size_t> starts = character_starts(heap_, text.bytes());
      end = starts[std::min<size_t>(static_cast<size_t>(conversion.precision), starts.size() - 1)];
    }
    heap_.look_at(end);
    const int64_t padding = conversion.width - count_characters(std::string_view(text.bytes()).substr(0, end));
    if (!conversion.left) out_.pad(padding, ' ');
    out_.append(text, 0, end);
    if (conversion.left) out_.pad(padding, ' ');
  }

  void write_number(const Conversion& conversion, std::string digits, const std::string& sign) {
    const int64_t padding = conversion.width - static_cast<int64_t>(digits.size() + sign.size());
    if (!conversion.left && !conversion.zero) out_.pad(padding, ' ');
    out_.append(sign, false);
    if (!conversion.left && conversion.zero) out_.pad(padding, '0');
    out_.append(digits, false);
    if (conversion.left) out_.pad(padding, ' ');
  }

  static std::string sign_of(const Conversion& conversion, bool negative) {
    return negative ? "-" : conversion.plus ? "+" : conversion.blank ? " " : "";
  }

  void write_integer(const Conversion& conversion, const Value& value) {
    if (!value.is_number()) fail("'%{}' takes a number, not {}", conversion.kind, value.description());
    const double number = value.as_double();
    if (value.is(Kind::kFloat) && !(std::abs(number) < 9.2e18)) fail("'%{}': the number is too large", conversion.kind);
    const int64_t whole = value.is(Kind::kFloat) ? static_cast<int64_t>(number) : value.as_int();
    const uint64_t magnitude = whole < 0 ? 0 - static_cast<uint64_t>(whole) : static_cast<uint64_t>(whole);
    const bool hex = conversion.kind == 'x' || conversion.kind == 'X';
    char buffer[72];
    const int base = hex ? 16 : conversion.kind == 'o' ? 8 : 10;
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base);
    std::string digits(buffer, end.ptr);
    const int64_t missing = conversion.precision - static_cast<int64_t>(digits.size());
    if (missing > 0) digits.insert(0, static_cast<size_t>(missing), '0');
    std::string sign = sign_of(conversion, whole < 0);
    if (conversion.alternate && hex) sign += "0x";
    if (conversion.alternate && conversion.kind == 'o') sign += "0o";
    if (conversion.kind == 'X') {
      digits = to_upper(digits);
      sign = to_upper(sign);
    }
    write_number(conversion, digits, sign);
  }

  void write_float(const Conversion& conversion, const Value& value) {
    if (!value.is_number()) fail("'%{}' takes a number, not {}", conversion.kind, value.description());
    const char pattern[] = {'%', '.', '*', conversion.kind, '\0'};
    char buffer[512];  // 309 digits before the point and 100 behind it
    const double magnitude = std::abs(value.as_double());
    const int n = std::snprintf(buffer, sizeof buffer, pattern, conversion.precision < 0 ? 6 : conversion.precision,
                                magnitude);
    const std::string digits(buffer, static_cast<size_t>(std::clamp<int>(n, 0, sizeof buffer - 1)));
    write_number(conversion, digits, sign_of(conversion, std::signbit(value.as_double())));
  }

  void write_character(const Conversion& conversion, const Value& value) {
    if (value.is_string() && count_characters(value.bytes()) == 1) return write_padded(conversion, value.text());
    const int64_t code = value.is(Kind::kInt) ? value.as_int() : -1;
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      fail("'%c' takes a character or its code, not {}", value.description());
    }
    std::string bytes;
    append_utf8(static_cast<uint32_t>(code), bytes);
    write_padded(conversion, MarkedText(std::move(bytes)));
  }

  Heap& heap_;
  const MarkedText& text_;
  std::string_view rest_;
  const Value& values_;
  TextBuilder out_;
  size_t used_ = 0;
  bool used_keys_ = false;
};

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const MarkedText& text, const Arguments& arguments)
      : runtime_(runtime), text_(text), arguments_(arguments), out_(runtime.heap()) {}

  Value run() {
    const std::string_view bytes = text_.bytes();
    runtime_.heap().look_at(bytes.size());
    size_t copied = 0;
    for (size_t at = bytes.find_first_of("{}"); at != std::string_view::npos; at = bytes.find_first_of("{}", copied)) {
      runtime_.heap().step();
      out_.append(text_, copied, at);
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
        out_.append(text_, at, at + 1);
        copied = at + 2;
        continue;
      }
      const size_t end = bytes[at] == '{' ? bytes.find('}', at) : std::string_view::npos;
      if (end == std::string_view::npos) fail("format(): a brace has no partner");
      out_.append(to_string(runtime_.heap(), field(bytes.substr(at + 1, end - at - 1))).text());
      copied = end + 1;
    }
    out_.append(text_, copied, bytes.size());
    return out_.finish();
  }

 private:
  Value field(std::string_view text) {
    if (text.find_first_of(":!{") != std::string_view::npos) {
      fail("format(): the field '{}' has a format specification, which is not supported",
           printable(text, kMaxNameBytes));
    }
    const size_t end = std::min(text.find_first_of(".["), text.size());
    Value value = argument(text.substr(0, end));
    text.remove_prefix(end);
    while (!text.empty()) {
      runtime_.heap().step();
      if (text[0] == '.') {
        const size_t next = std::min(text.find_first_of(".[", 1), text.size());
        value = get_attribute(runtime_, value, text.substr(1, next - 1));
        text.remove_prefix(next);
      } else {
        const size_t close = text.find(']');
        if (close == std::string_view::npos) fail("format(): a field's '[' is not closed");
        value = item(value, text.substr(1, close - 1));
        text.remove_prefix(close + 1);
      }
      if (!text.empty() && text[0] != '.' && text[0] != '[') fail("format(): a field can't be read");
    }
    return value;
  }

  Value item(const Value& value, std::string_view key) {
    if (const auto index = number(key)) return get_item(runtime_, value, Value::integer(*index));
    return get_item(runtime_, value, runtime_.heap().text(std::string(key)));
  }

  static std::optional<int64_t> number(std::string_view text) {
    int64_t out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || out < 0) return std::nullopt;
    return out;
  }

  Value argument(std::string_view name) {
    const auto index = name.empty() ? std::optional<int64_t>(used_++) : number(name);
    if (index) {
      if (*index >= static_cast<int64_t>(arguments_.positional.size())) {
        fail("format() has {} values, and the text asks for number {}", arguments_.positional.size(), *index);
      }
      return arguments_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) return value;
    }
    fail("format() has no value '{}'", printable(name, kMaxNameBytes));
  }

  Runtime& runtime_;
  const MarkedText& text_;
  const Arguments& arguments_;
  TextBuilder out_;
  int64_t used_ = 0;
};

}  // namespace

Value format_percent(Heap& heap, const MarkedText& text, const Value& values) {
  return PercentFormatter(heap, text, values).run();
}

Value format_braces(Runtime& runtime, const MarkedText& text, const Arguments& arguments) {
  return BraceFormatter(runtime, text, arguments).run();
}

}  // namespace strata::text::jinja
