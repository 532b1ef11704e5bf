// Text formatting with fmt's format strings (checked at compile time), compiled once in format.cpp so that users of
// this header don't pay for fmt's templates.
#pragma once

#include <string>

#include <fmt/core.h>

namespace strata {

std::string vformat(fmt::string_view text, fmt::format_args args);

template <class... Args>
std::string format(fmt::format_string<Args...> text, Args&&... args) {
  return vformat(text, fmt::make_format_args(args...));
}

// "1.5 GiB", "17 B": for people.
std::string format_bytes(unsigned long long bytes);

// Text from a file or a request made fit for a terminal: control characters and invalid UTF-8 become '?', and what is
// longer than `max_bytes` is cut with "...".
std::string printable(std::string_view text, size_t max_bytes = 120);

}  // namespace strata
