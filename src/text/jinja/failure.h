// How a template fails inside this folder: Failure is thrown, template.cpp turns it into an Error.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/format.h"

namespace strata::text::jinja {

struct Position {
  uint32_t line = 0;    // from 1; 0 for unknown
  uint32_t column = 0;  // from 1, in bytes
};

struct Failure {
  std::string message;
  Position at;

  // The innermost place wins.
  void locate(Position position) {
    if (at.line == 0) at = position;
  }
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Failure{strata::vformat(text, fmt::make_format_args(args...)), {}};
}
template <class... Args>
[[noreturn]] void fail_at(Position at, fmt::format_string<Args...> text, Args&&... args) {
  throw Failure{strata::vformat(text, fmt::make_format_args(args...)), at};
}

}  // namespace strata::text::jinja
