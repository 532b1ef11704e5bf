// Random texts of many kinds for tests of tokenizers: the same for a seed on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace strata::text::test {

class TextGenerator {
 public:
  // `snippets` are put in whole now and then: texts of tokens, for example.
  explicit TextGenerator(uint64_t seed, std::vector<std::string> snippets = {});

  // Valid UTF-8 with no character that PCRE2's version of Unicode does not know: words of some fifty scripts, letters
  // composed and decomposed, code, contractions, emoji and their joined sequences, controls, all kinds of white space,
  // runs of spaces, digits and letters, snippets and beginnings of snippets.
  std::string next();

  // The same with bytes put in that are no UTF-8: lone surrogates, overlong and cut characters, continuation bytes.
  std::string next_with_invalid_bytes();

  bool all_assigned(std::string_view text) const;

 private:
  void append_some(std::string& text);
  void append_word(std::string& text);
  void append_run(std::string& text);
  void append_snippet(std::string& text);
  void append_range(uint32_t first, uint32_t n, std::string& text);
  template <size_t n>
  void append_one(const char* const (&of)[n], std::string& text) {
    text += of[random_.below(n)];
  }

  Random random_;
  std::vector<std::string> snippets_;
  std::vector<bool> assigned_;  // by code point
};

}  // namespace strata::text::test
