// 'text %s' % value and 'text {}'.format(value).
#pragma once

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

// Conversions s, r, d, i, u, x, X, o, f, F, e, E, g, G, c and %%, with flags, width and precision.
Value format_percent(Heap& heap, const MarkedText& text, const Value& values);

// Fields {}, {0}, {name}, {name.attribute}, {name[key]}; format specifications are not among them.
Value format_braces(Runtime& runtime, const MarkedText& text, const Arguments& arguments);

}  // namespace strata::text::jinja
