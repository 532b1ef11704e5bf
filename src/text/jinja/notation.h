// Values as text: what printing gives, Python's notation, JSON.
#pragma once

#include <string>

#include "text/jinja/text_builder.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

// str(value): strings as they are, undefined as nothing, none as "None", containers in Python's notation.
MarkedText to_text(Heap& heap, const Value& value);
// The same as a string value; strings are not copied.
Value to_string(Heap& heap, const Value& value);

// As Python prints a float: the shortest digits that give the same double, 1e-05, 1e+16, 1.0.
std::string float_text(double value);

struct JsonStyle {
  bool indented = false;
  std::string indent;                  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
// Fails for values that have no JSON: undefined, functions.
MarkedText to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace strata::text::jinja
