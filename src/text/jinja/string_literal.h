// String literals of templates, which have Python's escapes.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/failure.h"

namespace strata::text::jinja {

// `body` without its quotes. Unknown escapes stay as they are; code points that UTF-8 can't have become U+FFFD.
std::string unescape(std::string_view body, Position at);

}  // namespace strata::text::jinja
