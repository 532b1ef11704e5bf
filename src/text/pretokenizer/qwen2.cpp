// The words of this regular expression (leftmost match, alternatives in order), found without a regex engine:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
#include "text/pretokenizer/pretokenizer.h"
#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace strata::text {

namespace {

struct Char {
  uint32_t code_point = 0;
  uint32_t length = 0;  // bytes; 0 at the end of the text
  CharClass char_class = CharClass::kOther;

  bool exists() const { return length != 0; }
  bool is(CharClass wanted) const { return exists() && char_class == wanted; }
  bool is_line_break() const { return exists() && (code_point == '\r' || code_point == '\n'); }
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // End of the word that begins at `begin`, which lies before the end of the text.
  size_t word_end(size_t begin) const {
    if (const size_t length = contraction_length(begin)) return begin + length;
    const Char first = at(begin);
    const size_t after_first = begin + first.length;
    if (first.is(CharClass::kLetter)) return skip(after_first, CharClass::kLetter);
    if (first.is(CharClass::kNumber)) return after_first;
    if (!first.is_line_break() && at(after_first).is(CharClass::kLetter)) return skip(after_first, CharClass::kLetter);
    if (first.is(CharClass::kOther)) return symbols_end(after_first);
    if (first.code_point == ' ' && at(after_first).is(CharClass::kOther)) return symbols_end(after_first);
    return white_space_end(begin);
  }

 private:
  Char at(size_t position) const {
    if (position >= text_.size()) return {};
    const Utf8Char c = utf8_char(text_.data() + position);
    return {c.code_point, c.length, char_class(c.code_point)};
  }

  size_t skip(size_t position, CharClass skipped) const {
    for (Char c = at(position); c.is(skipped); c = at(position)) position += c.length;
    return position;
  }

  // [^\s\p{L}\p{N}]*[\r\n]*
  size_t symbols_end(size_t position) const {
    position = skip(position, CharClass::kOther);
    while (at(position).is_line_break()) ++position;
    return position;
  }

  // A run of white space ends with its last line break; else before its last character, which goes with the word that
  // follows; else (the run ends the text, or is one character) with the run.
  size_t white_space_end(size_t begin) const {
    size_t end = begin, last = begin, after_line_break = begin;
    for (Char c = at(begin); c.is(CharClass::kWhiteSpace); c = at(end)) {
      last = end;
      end += c.length;
      if (c.is_line_break()) after_line_break = end;
    }
    if (after_line_break != begin) return after_line_break;
    return end < text_.size() && last != begin ? last : end;
  }

  // Bytes of 's 't 're 've 'm 'll 'd in any case, or 0.
  size_t contraction_length(size_t begin) const {
    if (text_[begin] != '\'') return 0;
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

  char lower(size_t position) const {
    if (position >= text_.size()) return 0;
    const char c = text_[position];
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  std::string_view text_;
};

class Qwen2Pretokenizer final : public Pretokenizer {
 public:
  Status split(std::string_view text, std::vector<size_t>& word_ends) const override {
    const Scanner scanner(text);
    for (size_t position = 0; position < text.size();) {
      position = scanner.word_end(position);
      word_ends.push_back(position);
    }
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Pretokenizer>> make_qwen2_pretokenizer() {
  return std::unique_ptr<Pretokenizer>(std::make_unique<Qwen2Pretokenizer>());
}

}  // namespace strata::text
