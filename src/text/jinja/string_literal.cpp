#include "text/jinja/string_literal.h"

#include <algorithm>

#include "text/utf8.h"

namespace strata::text::jinja {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_code_point(uint32_t code, std::string& out) {
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    out += kReplacement;
  } else {
    append_utf8(code, out);
  }
}

// The digits behind \x, \u and \U.
uint32_t take_hex(std::string_view body, size_t& at, size_t digits, Position position) {
  uint32_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    const int digit = at < body.size() ? hex_digit(body[at]) : -1;
    if (digit < 0) fail_at(position, "the string has an escape with too few hexadecimal digits");
    code = code << 4 | static_cast<uint32_t>(digit);
    ++at;
  }
  return code;
}

uint32_t take_octal(std::string_view body, size_t& at) {
  uint32_t code = 0;
  for (int i = 0; i < 3 && at < body.size() && body[at] >= '0' && body[at] <= '7'; ++i) {
    code = code << 3 | static_cast<uint32_t>(body[at++] - '0');
  }
  return code;
}

}  // namespace

std::string unescape(std::string_view body, Position position) {
  constexpr std::string_view kLetters = "ntrbfva\\'\"";
  constexpr std::string_view kMeanings = "\n\t\r\b\f\v\a\\'\"";
  std::string out;
  for (size_t at = 0; at < body.size();) {
    const char c = body[at++];
    if (c != '\\' || at == body.size()) {
      out += c;
      continue;
    }
    const char kind = body[at];
    if (const size_t known = kLetters.find(kind); known != std::string_view::npos) {
      out += kMeanings[known];
      ++at;
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
      ++at;
      append_code_point(take_hex(body, at, kind == 'x' ? 2 : kind == 'u' ? 4 : 8, position), out);
    } else if (kind >= '0' && kind <= '7') {
      append_code_point(take_octal(body, at), out);
    } else if (kind == '\n') {
      ++at;
    } else {
      out += '\\';
    }
  }
  return out;
}

}  // namespace strata::text::jinja
