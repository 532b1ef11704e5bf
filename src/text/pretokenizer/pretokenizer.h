// Pre-tokenizers cut text into the words that byte-pair encoding then works on. One file per member; registry.cpp has
// one row per name that a model file may give (tokenizer.ggml.pre).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strata::text {

// Immutable; any thread.
class Pretokenizer {
 public:
  virtual ~Pretokenizer() = default;
  // Appends the end offset of each word of `text` (valid UTF-8), ascending; words are not empty and cover the text.
  // Time is linear in the text. kInternal when a pattern gives up.
  virtual Status split(std::string_view text, std::vector<size_t>& word_ends) const = 0;
};

struct PretokenizerRow {
  std::string_view name;
  Result<std::unique_ptr<Pretokenizer>> (*make)();
  // A word that is a token becomes it, whatever the merges would make of it.
  bool ignores_merges = false;
  // Whether texts begin with bos where the file does not say.
  bool adds_bos = false;
};

// nullptr when no member has this name.
const PretokenizerRow* find_pretokenizer(std::string_view name);

// What stands in for a missing or unknown name.
inline constexpr std::string_view kDefaultPretokenizer = "default";

// Members. The file of each has the same name; qwen2_family has qwen2, qwen35 and llama_bpe, gpt_4o also tekken.
Result<std::unique_ptr<Pretokenizer>> make_deepseek_coder_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_deepseek_llm_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_deepseek_v3_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_default_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_falcon_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_gpt_2_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_gpt_4o_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_llama_bpe_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_qwen2_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_qwen35_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_starcoder_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_tekken_pretokenizer();

}  // namespace strata::text
