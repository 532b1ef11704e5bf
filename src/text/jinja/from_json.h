// Data of a rendering, from JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

// Throws Failure where the data is nested too deep or too large. Strings become valid UTF-8.
Value from_json(Heap& heap, const Variable& variable, const RenderOptions& options);

}  // namespace strata::text::jinja
