// Words by GPT-2's expression.
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/regex.h"

namespace strata::text {

Result<std::unique_ptr<Pretokenizer>> make_gpt_2_pretokenizer() { return RegexPretokenizer::create({kGpt2Pattern}); }

}  // namespace strata::text
