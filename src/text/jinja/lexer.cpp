#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "text/jinja/characters.h"
#include "text/jinja/string_literal.h"

namespace strata::text::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

// \r\n and \r become \n, and the last newline goes.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) read_text();
    add(TokenKind::kEnd, "", position());
    return std::move(tokens_);
  }

 private:
  Position position() {
    const size_t at = source_.size() - rest_.size();
    for (; seen_ < at; ++seen_) {
      if (source_[seen_] == '\n') {
        ++line_;
        line_begin_ = seen_ + 1;
      }
    }
    return {line_, static_cast<uint32_t>(at - line_begin_ + 1)};
  }

  void add(TokenKind kind, std::string text, Position at) { tokens_.push_back({kind, std::move(text), at}); }

  void skip(size_t n) {
    if (n > 0) line_starting_ = rest_[n - 1] == '\n';
    rest_.remove_prefix(n);
  }
  void skip_spaces() { skip(trimmed(rest_, Side::kLeft).begin); }

  // Template text up to the next tag, and the tag.
  void read_text() {
    const Position at = position();
    size_t end = rest_.find('{');
    while (end != std::string_view::npos && !is_tag(rest_.substr(end + 1))) end = rest_.find('{', end + 1);
    if (end == std::string_view::npos) {
      add(TokenKind::kText, std::string(rest_), at);
      rest_ = {};
      return;
    }
    const char kind = rest_[end + 1];
    const char sign = end + 2 < rest_.size() ? rest_[end + 2] : '\0';
    const std::string_view text = without_blanks(rest_.substr(0, end), kind, sign);
    if (!text.empty()) add(TokenKind::kText, std::string(text), at);
    rest_.remove_prefix(end);
    const Position tag = position();
    rest_.remove_prefix(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') {
      read_comment(tag);
    } else if (kind == '{') {
      add(TokenKind::kPrintBegin, "{{", tag);
      read_expression(TokenKind::kPrintEnd, '}', tag);
    } else if (!read_raw(tag)) {
      add(TokenKind::kBlockBegin, "{%", tag);
      read_expression(TokenKind::kBlockEnd, '%', tag);
    }
  }

  // Whether this makes a tag of the { in front of it.
  static bool is_tag(std::string_view text) {
    return text.starts_with('{') || text.starts_with('%') || text.starts_with('#');
  }

  // What stands in front of a tag, without the white space that the tag takes away.
  std::string_view without_blanks(std::string_view text, char kind, char sign) const {
    if (sign == '-') return text.substr(0, trimmed(text, Side::kRight).end);
    if (sign == '+' || kind == '{') return text;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return text;
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    const Range kept = trimmed(text.substr(line), Side::kBoth);
    return kept.begin == kept.end ? text.substr(0, line) : text;
  }

  // Takes the end of a tag, which is `closing` and '}', and the white space behind it. False when there is none here.
  bool take_end(char closing, bool trims_newline = true) {
    const bool has_sign = rest_.starts_with('-') || (rest_.starts_with('+') && closing != '}');
    const size_t n = has_sign ? 1 : 0;
    if (rest_.size() < n + 2 || rest_[n] != closing || rest_[n + 1] != '}') return false;
    const bool strips = has_sign && rest_[0] == '-';
    skip(n + 2);
    if (strips) {
      skip_spaces();
    } else if (!has_sign && trims_newline && closing != '}' && rest_.starts_with('\n')) {
      skip(1);
    }
    return true;
  }

  void read_comment(Position tag) {
    const size_t end = rest_.find("#}");
    if (end == std::string_view::npos) fail_at(tag, "the comment is not closed");
    const bool has_sign = end > 0 && (rest_[end - 1] == '-' || rest_[end - 1] == '+');
    rest_.remove_prefix(has_sign ? end - 1 : end);
    take_end('#');
  }

  // {% raw %}: what follows is text up to {% endraw %}, a newline at its begin included. False, and nothing taken, for
  // other blocks.
  bool read_raw(Position tag) {
    const std::string_view before = rest_;
    rest_.remove_prefix(trimmed(rest_, Side::kLeft).begin);
    const bool is_raw = rest_.starts_with("raw") && (rest_.size() == 3 || !is_name_part(rest_[3]));
    if (is_raw) {
      rest_.remove_prefix(3);
      rest_.remove_prefix(trimmed(rest_, Side::kLeft).begin);
    }
    if (!is_raw || !take_end('%', false)) {
      rest_ = before;
      return false;
    }
    const Position at = position();
    for (size_t end = rest_.find("{%"); end != std::string_view::npos; end = rest_.find("{%", end + 2)) {
      const std::string_view body = rest_.substr(0, end);
      std::string_view tail = rest_.substr(end + 2);
      const char sign = tail.starts_with('-') || tail.starts_with('+') ? tail[0] : '\0';
      if (sign != '\0') tail.remove_prefix(1);
      tail.remove_prefix(trimmed(tail, Side::kLeft).begin);
      if (!tail.starts_with("endraw")) continue;
      tail.remove_prefix(6);
      tail.remove_prefix(trimmed(tail, Side::kLeft).begin);
      const std::string_view text = without_blanks(body, '%', sign);
      const std::string_view body_start = rest_;
      rest_ = tail;
      if (!take_end('%')) {
        rest_ = body_start;
        continue;
      }
      if (!text.empty()) add(TokenKind::kText, std::string(text), at);
      return true;
    }
    fail_at(tag, "the raw block has no {{% endraw %}}");
  }

  // Everything up to the end of the tag. Inside brackets, }} closes two of them.
  void read_expression(TokenKind end_kind, char closing, Position tag) {
    std::string brackets;
    for (;;) {
      rest_.remove_prefix(trimmed(rest_, Side::kLeft).begin);
      const Position at = position();
      if (rest_.empty()) fail_at(tag, "the tag is not closed");
      if (brackets.empty() && take_end(closing)) return add(end_kind, "", at);
      const char c = rest_[0];
      if (is_name_start(c)) {
        read_name(at);
      } else if (is_digit(c)) {
        read_number(at);
      } else if (c == '\'' || c == '"') {
        read_string(at);
      } else {
        read_operator(brackets, at);
      }
    }
  }

  void take(TokenKind kind, size_t n, Position at) {
    add(kind, std::string(rest_.substr(0, n)), at);
    rest_.remove_prefix(n);
  }

  void read_name(Position at) {
    size_t n = 1;
    while (n < rest_.size() && is_name_part(rest_[n])) ++n;
    take(TokenKind::kName, n, at);
  }

  size_t digits_from(size_t n) const {
    const auto is_part = [this](size_t i) {
      return is_digit(rest_[i]) || (rest_[i] == '_' && i + 1 < rest_.size() && is_digit(rest_[i + 1]));
    };
    while (n < rest_.size() && is_part(n)) ++n;
    return n;
  }

  void read_number(Position at) {
    if (rest_[0] == '0' && rest_.size() > 1 && std::string_view("xXoObB").find(rest_[1]) != std::string_view::npos) {
      size_t n = 2;
      while (n < rest_.size() && is_name_part(rest_[n])) ++n;
      return take(TokenKind::kInteger, n, at);
    }
    size_t n = digits_from(0);
    const bool after_dot =
        !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    bool is_float = false;
    if (!after_dot && n + 1 < rest_.size() && rest_[n] == '.' && is_digit(rest_[n + 1])) {
      n = digits_from(n + 1);
      is_float = true;
    }
    if (!after_dot && n < rest_.size() && (rest_[n] == 'e' || rest_[n] == 'E')) {
      const bool has_sign = n + 1 < rest_.size() && (rest_[n + 1] == '-' || rest_[n + 1] == '+');
      const size_t exponent = n + (has_sign ? 2 : 1);
      if (exponent < rest_.size() && is_digit(rest_[exponent])) {
        n = digits_from(exponent);
        is_float = true;
      }
    }
    take(is_float ? TokenKind::kFloat : TokenKind::kInteger, n, at);
  }

  void read_string(Position at) {
    const char quote = rest_[0];
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) fail_at(at, "the string is not closed");
    add(TokenKind::kString, unescape(rest_.substr(1, end - 1), at), at);
    rest_.remove_prefix(end + 1);
  }

  void read_operator(std::string& brackets, Position at) {
    static constexpr std::array<std::string_view, 25> kOperators = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "(",
        ")",  "[",  "]",  "{",  "}",  "<",  ">", "=", ".", ":", "|", ","};
    const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                    [this](std::string_view text) { return rest_.starts_with(text); });
    if (found == kOperators.end()) fail_at(at, "unexpected character '{}'", printable(rest_.substr(0, 1)));
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty()) fail_at(at, "unexpected '{}'", c);
      if (brackets.back() != c) fail_at(at, "unexpected '{}' where '{}' is missing", c, brackets.back());
      brackets.pop_back();
    }
    take(TokenKind::kOperator, found->size(), at);
  }

  const std::string source_;
  std::string_view rest_;
  std::vector<Token> tokens_;
  bool line_starting_ = true;  // whether what was taken last ended its line
  size_t seen_ = 0, line_begin_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(normalized(source)).run(); }

}  // namespace strata::text::jinja
