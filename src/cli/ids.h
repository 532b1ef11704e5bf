// Lists of token ids as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strata::cli {

// Decimal numbers from 0 to n_vocab - 1, separated by white space; none at all is fine. The text comes in blocks, cut
// anywhere. It is judged as it comes: an input without an end is refused at its first word that is no id.
class IdParser {
 public:
  // `origin` is for messages, which also name the index and the text of what is not an id (kBadInput).
  IdParser(int64_t n_vocab, std::string origin) : n_vocab_(n_vocab), origin_(std::move(origin)) {}

  Status push(std::string_view block);
  Result<std::vector<int32_t>> finish();

 private:
  Status take_word();

  const int64_t n_vocab_;
  const std::string origin_;
  std::string word_;  // the beginning of one
  std::vector<int32_t> ids_;
};

// From a file or pipe, or "-" for standard input.
Result<std::vector<int32_t>> read_ids(const std::string& path, int64_t n_vocab);

// Separated by spaces.
std::string ids_text(std::span<const int32_t> ids);

}  // namespace strata::cli
