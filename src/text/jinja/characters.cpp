#include "text/jinja/characters.h"

#include <cstring>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace strata::text::jinja {
namespace {

size_t previous_start(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

template <class Drop>
Range trimmed_by(std::string_view text, Side side, const Drop& drop) {
  Range kept{0, text.size()};
  while (side != Side::kRight && kept.begin < kept.end) {
    const Utf8Char first = utf8_char(text.data() + kept.begin);
    if (!drop(first.code_point)) break;
    kept.begin += first.length;
  }
  while (side != Side::kLeft && kept.begin < kept.end) {
    const size_t last = previous_start(text, kept.end);
    if (!drop(utf8_char(text.data() + last).code_point)) break;
    kept.end = last;
  }
  return kept;
}

std::string ascii_case(std::string_view text, char first, char last) {
  std::string out(text);
  for (char& c : out) {
    if (c >= first && c <= last) c = static_cast<char>(c ^ 0x20);
  }
  return out;
}

// PCRE2 knows Unicode's case mappings and applies them in replacements.
std::string unicode_case(std::string_view text, const char* replacement) {
  static pcre2_code* const everything = [] {
    int error = 0;
    size_t offset = 0;
    return pcre2_compile(reinterpret_cast<PCRE2_SPTR>("^.+$"), PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY, &error, &offset, nullptr);
  }();
  std::string out(text.size() * 2 + 16, '\0');
  size_t length = out.size();
  const int n = pcre2_substitute(everything, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                 PCRE2_SUBSTITUTE_EXTENDED, nullptr, nullptr,
                                 reinterpret_cast<PCRE2_SPTR>(replacement), PCRE2_ZERO_TERMINATED,
                                 reinterpret_cast<PCRE2_UCHAR*>(out.data()), &length);
  if (n < 0) fail("the case of a text can't be changed (PCRE2 error {})", n);
  out.resize(length);
  return out;
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

}  // namespace

int64_t count_characters(std::string_view text) {
  int64_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

std::vector<size_t> character_starts(Heap& heap, std::string_view text) {
  heap.look_at(text.size() * 8);
  heap.take_memory((text.size() + 1) * sizeof(size_t));
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size(); at += utf8_char(text.data() + at).length) starts.push_back(at);
  starts.push_back(text.size());
  return starts;
}

size_t find_text(std::string_view text, std::string_view what, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (what.empty()) return from;
  const void* found = ::memmem(text.data() + from, text.size() - from, what.data(), what.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

bool is_space(uint32_t code_point) {
  return (code_point >= 0x1C && code_point <= 0x1F) || char_class(code_point) == CharClass::kWhiteSpace;
}

Range trimmed(std::string_view text, Side side) { return trimmed_by(text, side, is_space); }

Range trimmed(std::string_view text, Side side, std::string_view set) {
  return trimmed_by(text, side, [set](uint32_t code_point) {
    for (size_t at = 0; at < set.size();) {
      const Utf8Char character = utf8_char(set.data() + at);
      if (character.code_point == code_point) return true;
      at += character.length;
    }
    return false;
  });
}

std::string to_upper(std::string_view text) {
  if (is_ascii(text)) return ascii_case(text, 'a', 'z');
  // The one letter in use whose upper case is two.
  constexpr std::string_view kSharpS = "\xC3\x9F";
  std::string spelled;
  size_t copied = 0;
  for (size_t at = text.find(kSharpS); at != std::string_view::npos; at = text.find(kSharpS, copied)) {
    spelled.append(text, copied, at - copied);
    spelled += "SS";
    copied = at + kSharpS.size();
  }
  spelled.append(text, copied);
  return unicode_case(spelled, "\\U$0");
}
std::string to_lower(std::string_view text) {
  return is_ascii(text) ? ascii_case(text, 'A', 'Z') : unicode_case(text, "\\L$0");
}

}  // namespace strata::text::jinja
