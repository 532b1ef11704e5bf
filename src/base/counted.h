// Numbers of things in messages.
#pragma once

#include <string>
#include <string_view>

#include "base/format.h"

namespace strata {

// "1 token", "2 tokens". `noun` takes an s for more than one.
inline std::string counted(long long n, std::string_view noun) {
  return format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace strata
