// The words of these regular expressions, each applied to the pieces that those before have left, found without a regex
// engine:
//
//   1. \p{N}{1,3}
//   2. [\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+
//   3. [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// The first two cut the text into regions: numbers, runs of Chinese and Japanese characters, and what lies between.
// The third can't match in a number, and takes the end of a region for the end of the text.
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/scanner.h"

namespace strata::text {

namespace {

constexpr CharSet kWordLike = kLetters | kMarks;

bool is_cjk(uint32_t c) { return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF); }

bool is_ascii_letter(uint32_t c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

bool is_ascii_sign(const Char& c) { return c.code_point < 0x80 && c.in(kPunctuationOrSymbols); }

// End of the region that begins at `begin`, which is no number.
size_t region_end(const Scanner& scanner, size_t begin) {
  Char c = scanner.at(begin);
  const bool cjk = is_cjk(c.code_point);
  size_t end = begin;
  for (; c.exists() && !c.in(kNumbers) && is_cjk(c.code_point) == cjk; c = scanner.at(end)) end += c.length;
  return end;
}

size_t ascii_letters_end(const Scanner& scanner, size_t position) {
  while (is_ascii_letter(scanner.at(position).code_point)) ++position;
  return position;
}

// End of the match of the third expression at `begin`, or `begin` when there is none.
size_t match_end(const Scanner& region, size_t begin) {
  const Char first = region.at(begin);
  const size_t after_first = begin + first.length;
  const Char second = region.at(after_first);
  if (is_ascii_sign(first) && is_ascii_letter(second.code_point)) return ascii_letters_end(region, after_first);
  if (first.in(kWordLike)) return region.skip(after_first, kWordLike);
  const bool may_lead = !first.is_line_break() && !first.in(kPunctuationOrSymbols);
  if (may_lead && second.in(kWordLike)) return region.skip(after_first, kWordLike);
  if (first.in(kPunctuationOrSymbols) || (first.code_point == ' ' && second.in(kPunctuationOrSymbols))) {
    return region.skip_line_breaks(region.skip(after_first, kPunctuationOrSymbols));
  }
  return first.in(kWhiteSpaces) ? region.white_space_end(begin) : begin;
}

// Appends the ends of the matches in a region and of the gaps between them, moved by `base`.
void split_region(std::string_view text, size_t base, std::vector<size_t>& word_ends) {
  const Scanner region(text);
  size_t done = 0;
  for (size_t position = 0; position < text.size();) {
    const size_t end = match_end(region, position);
    if (end == position) {
      position += region.at(position).length;
      continue;
    }
    if (position > done) word_ends.push_back(base + position);
    word_ends.push_back(base + end);
    done = position = end;
  }
  if (done < text.size()) word_ends.push_back(base + text.size());
}

class DeepseekV3Pretokenizer final : public Pretokenizer {
 public:
  Status split(std::string_view text, std::vector<size_t>& word_ends) const override {
    const Scanner scanner(text);
    for (size_t position = 0; position < text.size();) {
      if (const size_t end = scanner.skip_at_most(position, kNumbers, 3); end != position) {
        word_ends.push_back(end);
        position = end;
        continue;
      }
      const size_t end = region_end(scanner, position);
      split_region(text.substr(position, end - position), position, word_ends);
      position = end;
    }
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Pretokenizer>> make_deepseek_v3_pretokenizer() {
  return std::unique_ptr<Pretokenizer>(std::make_unique<DeepseekV3Pretokenizer>());
}

}  // namespace strata::text
