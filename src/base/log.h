// Messages for people, on stderr; stdout belongs to answers. Thread-safe.
#pragma once

#include "base/format.h"

namespace strata {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Messages below this level are dropped (default kWarning; the CLI sets it from --log-level).
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_message(LogLevel level, const std::string& message);

template <class... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  if (!log_enabled(LogLevel::kDebug)) return;
  log_message(LogLevel::kDebug, strata::vformat(text, fmt::make_format_args(args...)));
}
template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  if (!log_enabled(LogLevel::kInfo)) return;
  log_message(LogLevel::kInfo, strata::vformat(text, fmt::make_format_args(args...)));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_message(LogLevel::kWarning, strata::vformat(text, fmt::make_format_args(args...)));
}
template <class... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  log_message(LogLevel::kError, strata::vformat(text, fmt::make_format_args(args...)));
}

}  // namespace strata
