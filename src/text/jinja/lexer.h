// Cuts the source of a template into tokens, with trim_blocks and lstrip_blocks as Hugging Face's templates expect
// them: the first newline after a block or comment goes, and blanks before one that begins its line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/failure.h"

namespace strata::text::jinja {

enum class TokenKind : uint8_t {
  kText,        // template text, white space already removed
  kPrintBegin,  // {{
  kPrintEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,      // with its escapes resolved
  kInteger,     // digits as written
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  Position at;
};

// Ends with a kEnd token. Throws Failure. `source` is valid UTF-8.
std::vector<Token> tokenize(std::string_view source);

}  // namespace strata::text::jinja
