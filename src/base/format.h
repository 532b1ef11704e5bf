// Text formatting with fmt's format strings (checked at compile time), compiled once in format.cpp so that users of
// this header don't pay for fmt's templates.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace strata {

std::string vformat(fmt::string_view text, fmt::format_args args);

// An object and not a function, so that an unqualified format(...) with a std:: argument never means std::format too.
struct Format {
  template <class... Args>
  std::string operator()(fmt::format_string<Args...> text, Args&&... args) const {
    return strata::vformat(text, fmt::make_format_args(args...));
  }
};
inline constexpr Format format;

// "1.5 GiB", "17 B": for people.
std::string format_bytes(unsigned long long bytes);

// Text from a file or a request made fit for a terminal: control characters and bytes of invalid UTF-8 become '?', and
// what is longer than `max_bytes` is cut there, between characters, and "..." added.
std::string printable(std::string_view text, size_t max_bytes = 120);

}  // namespace strata
