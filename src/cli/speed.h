// The lines of --stats that are about time.
#pragma once

#include <cstdint>
#include <string>

namespace strata::cli {

// "prompt_tokens 20" and "prompt_tokens_per_second 123.4", a line each, for what = "prompt".
std::string speed_text(const char* what, int64_t n_tokens, int64_t duration_ns);

}  // namespace strata::cli
