// Words of DeepSeek-Coder: line breaks, words and punctuation with the white space before them, Chinese, Japanese and
// Korean runs, single digits.
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/regex.h"

namespace strata::text {

Result<std::unique_ptr<Pretokenizer>> make_deepseek_coder_pretokenizer() {
  return RegexPretokenizer::create({
      R"([\r\n])",
      R"(\s?\p{L}+)",
      R"(\s?\p{P}+)",
      R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)",
      R"(\p{N})",
  });
}

}  // namespace strata::text
