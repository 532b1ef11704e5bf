// The place in the source a call was made from, for messages. (std::source_location is missing in the clang that
// Debian 12 has.)
#pragma once

namespace strata {

struct SourceSite {
  const char* file = "";
  int line = 0;

  // As a default argument it names the caller.
  static constexpr SourceSite current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace strata
