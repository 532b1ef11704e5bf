#include "text/pretokenizer/scanner.h"

namespace strata::text {

size_t Scanner::white_space_end(size_t begin) const {
  size_t end = begin, last = begin, after_line_break = begin;
  for (Char c = at(begin); c.in(kWhiteSpaces); c = at(end)) {
    last = end;
    end += c.length;
    if (c.is_line_break()) after_line_break = end;
  }
  if (after_line_break != begin) return after_line_break;
  return end < text_.size() && last != begin ? last : end;
}

size_t Scanner::contraction_length(size_t begin) const {
  if (begin >= text_.size() || text_[begin] != '\'') return 0;
  const char first = lower(begin + 1), second = lower(begin + 2);
  switch (first) {
    case 's': case 't': case 'm': case 'd': return 2;
    case 'r': case 'v': return second == 'e' ? 3 : 0;
    case 'l': return second == 'l' ? 3 : 0;
    default: break;
  }
  // Without regard to case, U+017F (long s) is an s.
  return text_.substr(begin + 1, 2) == "\xC5\xBF" ? 3 : 0;
}

char Scanner::lower(size_t position) const {
  if (position >= text_.size()) return 0;
  const char c = text_[position];
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace strata::text
