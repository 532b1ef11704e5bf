// How text looks on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace strata::cli {

// Whether stdout is a terminal that obeys escape sequences.
bool stdout_obeys();
// Whether it can show dim text, and the user has not asked for none (NO_COLOR).
bool stdout_is_styled();

// `text` dimmed if `styled`, else as it is.
std::string dim(std::string_view text, bool styled);

// With what a terminal would obey replaced by U+FFFD: control characters but line ends and tabs. `text` is UTF-8.
std::string without_controls(std::string_view text);

}  // namespace strata::cli
