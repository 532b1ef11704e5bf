// Lists of token ids as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strata::cli {

// Decimal numbers from 0 to n_vocab - 1, separated by white space; none at all is fine. kBadInput names `origin`, the
// index and the text of what is not an id.
Result<std::vector<int32_t>> parse_ids(std::string_view text, int64_t n_vocab, const std::string& origin);

// Separated by spaces.
std::string ids_text(std::span<const int32_t> ids);

}  // namespace strata::cli
