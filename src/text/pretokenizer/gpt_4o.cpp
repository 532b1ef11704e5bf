// The words of this regular expression (leftmost match, alternatives in order), found without a regex engine:
//
//   [^\r\n\p{L}\p{N}]?[U]*[L]+C?|[^\r\n\p{L}\p{N}]?[U]+[L]*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*
//     |\s*[\r\n]+|\s+(?!\S)|\s+
//
// with U = \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}, L = \p{Ll}\p{Lm}\p{Lo}\p{M} and C = (?i:'s|'t|'re|'ve|'m|'ll|'d).
// That is gpt-4o. tekken has no C and single numbers.
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/scanner.h"

namespace strata::text {

namespace {

struct Member {
  bool contractions;
  int max_digits;  // of a number
};

constexpr Member kGpt4o = {true, 3};
constexpr Member kTekken = {false, 1};

constexpr CharSet kBothCases = set_of(CharClass::kCaseless) | kMarks;
constexpr CharSet kUpperLike = kUppers | kBothCases;        // U above
constexpr CharSet kLowerLike = kLowers | kBothCases;        // L above
constexpr CharSet kSymbolLike = ~(kLetters | kNumbers | kWhiteSpaces);
constexpr size_t kNone = 0;  // no match: every match ends after its beginning

class Gpt4oPretokenizer final : public Pretokenizer {
 public:
  explicit Gpt4oPretokenizer(const Member& member) : member_(member) {}

  Status split(std::string_view text, std::vector<size_t>& word_ends) const override {
    const Scanner scanner(text);
    for (size_t position = 0; position < text.size();) {
      position = word_end(scanner, position);
      word_ends.push_back(position);
    }
    return {};
  }

 private:
  // End of the word that begins at `begin`, which lies before the end of the text.
  size_t word_end(const Scanner& scanner, size_t begin) const {
    if (const size_t end = letters_end(scanner, begin); end != kNone) {
      return member_.contractions ? end + scanner.contraction_length(end) : end;
    }
    const Char first = scanner.at(begin);
    const size_t after_first = begin + first.length;
    if (first.in(kNumbers)) return scanner.skip_at_most(after_first, kNumbers, member_.max_digits - 1);
    if (first.in(kSymbolLike) || (first.code_point == ' ' && scanner.at(after_first).in(kSymbolLike))) {
      size_t end = scanner.skip(after_first, kSymbolLike);
      for (Char c = scanner.at(end); c.is_line_break() || c.code_point == '/'; c = scanner.at(end)) ++end;
      return end;
    }
    return scanner.white_space_end(begin);
  }

  // The first two alternatives, without C.
  static size_t letters_end(const Scanner& scanner, size_t begin) {
    const Char first = scanner.at(begin);
    const bool may_lead = !first.is_line_break() && !first.in(kLetters | kNumbers);
    const size_t after_first = begin + first.length;
    size_t end = kNone;
    if (may_lead) end = lower_word_end(scanner, after_first);
    if (end == kNone) end = lower_word_end(scanner, begin);
    // Without a match so far there are but upper-case letters, and nothing that could be lower case follows them.
    if (end == kNone && may_lead) end = upper_word_end(scanner, after_first);
    if (end == kNone) end = upper_word_end(scanner, begin);
    return end;
  }

  // [U]*[L]+ : after the longest run of U, or else as far back into it as there is something that is L as well.
  static size_t lower_word_end(const Scanner& scanner, size_t begin) {
    size_t position = begin, after_both = kNone;
    Char c = scanner.at(position);
    for (; c.in(kUpperLike); c = scanner.at(position)) {
      position += c.length;
      if (c.in(kBothCases)) after_both = position;
    }
    return c.in(kLowerLike) ? scanner.skip(position, kLowerLike) : after_both;
  }

  // [U]+
  static size_t upper_word_end(const Scanner& scanner, size_t begin) {
    const size_t end = scanner.skip(begin, kUpperLike);
    return end == begin ? kNone : end;
  }

  Member member_;
};

std::unique_ptr<Pretokenizer> make(const Member& member) { return std::make_unique<Gpt4oPretokenizer>(member); }

}  // namespace

Result<std::unique_ptr<Pretokenizer>> make_gpt_4o_pretokenizer() { return make(kGpt4o); }
Result<std::unique_ptr<Pretokenizer>> make_tekken_pretokenizer() { return make(kTekken); }

}  // namespace strata::text
