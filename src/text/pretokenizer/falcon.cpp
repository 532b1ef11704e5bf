// Words of Falcon: punctuation apart, then GPT-2's expression, then groups of three digits.
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/regex.h"

namespace strata::text {

Result<std::unique_ptr<Pretokenizer>> make_falcon_pretokenizer() {
  return RegexPretokenizer::create({R"([\p{P}$+<=>^~|`]+)", kGpt2Pattern, R"([0-9][0-9][0-9])"});
}

}  // namespace strata::text
