// Parses a template into its statements.
#pragma once

#include <string_view>

#include "text/jinja/statements.h"
#include "text/jinja/token_stream.h"

namespace strata::text::jinja {

// Throws Failure. `source` is valid UTF-8; the names that the statements refer to go into `names`.
Block parse_template(std::string_view source, NamePool& names);

}  // namespace strata::text::jinja
