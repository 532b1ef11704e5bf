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
};

// nullptr when no member has this name.
const PretokenizerRow* find_pretokenizer(std::string_view name);

// What stands in for a missing or unknown name.
inline constexpr std::string_view kDefaultPretokenizer = "default";

// Members (the file of each has the same name).
Result<std::unique_ptr<Pretokenizer>> make_default_pretokenizer();
Result<std::unique_ptr<Pretokenizer>> make_qwen2_pretokenizer();

}  // namespace strata::text
