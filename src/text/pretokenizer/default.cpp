// Words of models whose file names no pre-tokenizer, or one that has no member here: punctuation apart, then GPT-2's
// expression, then numbers, in groups of three digits.
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/regex.h"

namespace strata::text {

Result<std::unique_ptr<Pretokenizer>> make_default_pretokenizer() {
  return RegexPretokenizer::create({
      R"([\p{P}$+<=>^~|]+)",
      kGpt2Pattern,
      R"(\p{N}+)",
      R"([0-9][0-9][0-9])",
  });
}

}  // namespace strata::text
