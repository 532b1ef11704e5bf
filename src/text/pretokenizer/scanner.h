// What the pre-tokenizers that are written by hand share: characters of a text with their classes, and the parts that
// their regular expressions have in common.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace strata::text {

struct Char {
  uint32_t code_point = 0;
  uint32_t length = 0;  // bytes; 0 at the end of the text
  CharSet char_set = 0;  // its class; empty at the end of the text

  bool exists() const { return length != 0; }
  bool in(CharSet set) const { return (char_set & set) != 0; }
  bool is_line_break() const { return exists() && (code_point == '\r' || code_point == '\n'); }
};

// Views valid UTF-8. Positions are bytes, at the beginning of a character or at the end of the text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }

  Char at(size_t position) const {
    if (position >= text_.size()) return {};
    const Utf8Char c = utf8_char(text_.data() + position);
    return {c.code_point, c.length, set_of(char_class(c.code_point))};
  }

  // [set]* from `position` on: where it ends.
  size_t skip(size_t position, CharSet set) const {
    for (Char c = at(position); c.in(set); c = at(position)) position += c.length;
    return position;
  }

  // [set]{0,max}
  size_t skip_at_most(size_t position, CharSet set, int max) const {
    for (Char c = at(position); max > 0 && c.in(set); c = at(position), --max) position += c.length;
    return position;
  }

  // [\r\n]*
  size_t skip_line_breaks(size_t position) const {
    while (position < text_.size() && (text_[position] == '\r' || text_[position] == '\n')) ++position;
    return position;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+ at white space: a run ends with its last line break; else before its last character, which
  // goes with the word that follows; else (the run ends the text, or is one character) with the run.
  size_t white_space_end(size_t begin) const;

  // Bytes of (?i:'s|'t|'re|'ve|'m|'ll|'d), or 0.
  size_t contraction_length(size_t begin) const;

 private:
  char lower(size_t position) const;

  std::string_view text_;
};

}  // namespace strata::text
