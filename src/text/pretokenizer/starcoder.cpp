// Words of StarCoder and relatives: single digits apart, then GPT-2's expression.
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/regex.h"

namespace strata::text {

Result<std::unique_ptr<Pretokenizer>> make_starcoder_pretokenizer() {
  return RegexPretokenizer::create({R"(\p{N})", kGpt2Pattern});
}

}  // namespace strata::text
