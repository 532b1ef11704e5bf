// The words of this regular expression (leftmost match, alternatives in order), found without a regex engine:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// That is qwen2. llama-bpe has \p{N}{1,3} in place of \p{N}. In qwen35 marks count as letters: [\p{L}\p{M}]+ in place
// of \p{L}+, and [^\s\p{L}\p{M}\p{N}]+ in place of [^\s\p{L}\p{N}]+.
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/scanner.h"

namespace strata::text {

namespace {

struct Member {
  CharSet letters;
  int max_digits;  // of a number
};

constexpr Member kQwen2 = {kLetters, 1};
constexpr Member kQwen35 = {kLetters | kMarks, 1};
constexpr Member kLlamaBpe = {kLetters, 3};

class Qwen2FamilyPretokenizer final : public Pretokenizer {
 public:
  explicit Qwen2FamilyPretokenizer(const Member& member)
      : letters_(member.letters), symbols_(~(letters_ | kNumbers | kWhiteSpaces)), max_digits_(member.max_digits) {}

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
    if (const size_t length = scanner.contraction_length(begin)) return begin + length;
    const Char first = scanner.at(begin);
    const size_t after_first = begin + first.length;
    if (first.in(letters_)) return scanner.skip(after_first, letters_);
    if (first.in(kNumbers)) return scanner.skip_at_most(after_first, kNumbers, max_digits_ - 1);
    const Char second = scanner.at(after_first);
    if (second.in(letters_) && !first.is_line_break()) return scanner.skip(after_first, letters_);
    if (first.in(symbols_) || (first.code_point == ' ' && second.in(symbols_))) {
      return scanner.skip_line_breaks(scanner.skip(after_first, symbols_));
    }
    return scanner.white_space_end(begin);
  }

  CharSet letters_, symbols_;
  int max_digits_;
};

std::unique_ptr<Pretokenizer> make(const Member& member) { return std::make_unique<Qwen2FamilyPretokenizer>(member); }

}  // namespace

Result<std::unique_ptr<Pretokenizer>> make_qwen2_pretokenizer() { return make(kQwen2); }
Result<std::unique_ptr<Pretokenizer>> make_qwen35_pretokenizer() { return make(kQwen35); }
Result<std::unique_ptr<Pretokenizer>> make_llama_bpe_pretokenizer() { return make(kLlamaBpe); }

}  // namespace strata::text
