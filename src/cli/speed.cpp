#include "cli/speed.h"

#include "base/format.h"

namespace strata::cli {

std::string speed_text(const char* what, int64_t n_tokens, int64_t duration_ns) {
  std::string text = format("{}_tokens {}\n", what, n_tokens);
  if (n_tokens > 0 && duration_ns > 0) {
    const double per_second = static_cast<double>(n_tokens) * 1e9 / static_cast<double>(duration_ns);
    text += format("{}_tokens_per_second {:.2f}\n", what, per_second);
  }
  return text;
}

}  // namespace strata::cli
