// Token ids of a text, all at once.
#pragma once

#include "cli/ids.h"

namespace strata::test {

inline Result<std::vector<int32_t>> parse_ids(std::string_view text, int64_t n_vocab, const std::string& origin) {
  cli::IdParser parser(n_vocab, origin);
  RETURN_IF_ERROR(parser.push(text));
  return parser.finish();
}

}  // namespace strata::test
