// A pre-tokenizer made of regular expressions that are applied one after the other: each cuts every piece that the ones
// before have left into its matches and what lies between them. Lookahead takes the end of a piece for the end of the
// text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/pretokenizer/pretokenizer.h"

namespace strata::text {

// GPT-2's expression, part of several members. White space at the end of a run of it is left over and becomes a word.
inline constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";

class RegexPretokenizer final : public Pretokenizer {
 public:
  // Perl syntax over Unicode. \s and \S mean the Unicode property White_Space, also inside brackets.
  // kInternal when a pattern does not compile.
  static Result<std::unique_ptr<Pretokenizer>> create(const std::vector<std::string>& patterns);
  ~RegexPretokenizer() override;

  Status split(std::string_view text, std::vector<size_t>& word_ends) const override;

 private:
  class Pattern;
  RegexPretokenizer();
  std::vector<std::unique_ptr<const Pattern>> patterns_;
};

}  // namespace strata::text
