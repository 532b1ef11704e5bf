// Functions that every template can call: a row per function in registry.cpp.
#pragma once

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

using FunctionFn = Value (*)(Runtime& runtime, const Arguments& arguments);

struct FunctionRow {
  const char* name;
  FunctionFn call;
};

Value make_range(Runtime& runtime, const Arguments& arguments);
Value make_dict(Runtime& runtime, const Arguments& arguments);
// An object whose attributes {% set x.name = value %} can set.
Value make_namespace(Runtime& runtime, const Arguments& arguments);
// Called, gives nothing the first time and then its separator.
Value make_joiner(Runtime& runtime, const Arguments& arguments);
// next() gives its items in turn; current; reset().
Value make_cycler(Runtime& runtime, const Arguments& arguments);
// Ends the rendering with this message.
Value raise_exception(Runtime& runtime, const Arguments& arguments);
// The time of the rendering as strftime() formats it.
Value strftime_now(Runtime& runtime, const Arguments& arguments);

// Puts all of them into the globals.
void add_functions(Runtime& runtime);

// Sets an attribute of a namespace; fails for all other values.
void set_namespace_attribute(Runtime& runtime, const Value& target, const std::string& name, const Value& value);

}  // namespace strata::text::jinja
